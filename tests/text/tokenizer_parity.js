// graft's token ids beside those of Hugging Face's own library, text by text.
//
// Usage: node tokenizer_parity.js ENCODE_TEXTS [--texts N] [--save] [FILE.json ...]
//
// Needs npm's `tokenizers` (the library's own binding for Node; NODE_PATH says where). Without files: small tokenizers
// that this script writes, one for each normalizer, pre-tokenizer, behavior, model and decoder; their texts and ids are
// kept in tests/text/tokenizers.jsonl (--save writes it), which a test without the library reads. With files: real
// tokenizer.json files. Exit status: 0 all ids are equal, 1 some are not, 77 the library is not there.
'use strict';
const fs = require('fs'), os = require('os'), path = require('path'), { execFileSync } = require('child_process');

let hf;
try { hf = require('tokenizers'); } catch { console.log('skipped: npm\'s tokenizers is not there'); process.exit(77); }

// A generator of our own, so that every run has the same texts.
let state = 1;
const random = n => { state = (Math.imul(state, 1664525) + 1013904223) >>> 0; return Math.floor(state / 4294967296 * n); };
const pick = list => list[random(list.length)];

// Characters that were assigned long ago, of many scripts: libraries differ in their versions of Unicode.
const BLOCKS = [[0x20, 0x7e], [0xa0, 0x17f], [0x1cd, 0x233], [0x250, 0x2ad], [0x2b0, 0x2ee], [0x300, 0x345], [0x391, 0x3a1],
    [0x3a3, 0x3ce], [0x400, 0x481], [0x490, 0x4c4], [0x531, 0x556], [0x5d0, 0x5ea], [0x621, 0x63a], [0x641, 0x652],
    [0x660, 0x669], [0x905, 0x939], [0x93e, 0x94d], [0x966, 0x96f], [0xe01, 0xe3a], [0x10d0, 0x10f0], [0x1100, 0x1112],
    [0x1161, 0x1175], [0x11a8, 0x11c2], [0x1e00, 0x1e95], [0x1f00, 0x1f15], [0x2000, 0x2027], [0x2030, 0x2046],
    [0x2070, 0x2070], [0x2074, 0x208e], [0x20a0, 0x20ab], [0x2100, 0x2138], [0x2153, 0x2182], [0x2190, 0x21ea],
    [0x2200, 0x22f1], [0x2460, 0x24ea], [0x2500, 0x2595], [0x25a0, 0x25ef], [0x2600, 0x2613], [0x2701, 0x2704],
    [0x3000, 0x3020], [0x3041, 0x3094], [0x30a1, 0x30fe], [0x3105, 0x312c], [0x3220, 0x3243], [0x4e00, 0x4f00],
    [0x9f00, 0x9fa5], [0xac00, 0xad00], [0xd700, 0xd7a3], [0xe000, 0xe010], [0xf900, 0xf920], [0xfb00, 0xfb06],
    [0xfe30, 0xfe44], [0xff01, 0xff5e], [0xff61, 0xffbe], [0x1d400, 0x1d420], [0x1f300, 0x1f320], [0x1f600, 0x1f640],
    [0x20000, 0x20010]];
const WORDS = ['the', ' quick', 'Brown', ' fox\'s', 'don\'t', ' WE\'LL', '\u2019s', 'Straße', 'İstanbul', 'naïve', 'cafe\u0301',
    'hello', ' world', 'def f(x):', '    return x**2', 'http://a.b/c?d=e&f', '3.14159', '1234567', '١٢٣', 'ﬁn', 'Ⅻ', '½',
    '你好', '世界', 'こんにちは', 'カタカナー', '한국어', 'привет', 'мир', 'γειά', 'مرحبا', 'שלום', 'नमस्ते', 'สวัสดี', '👩‍👩‍👧', '👍🏽', '🇩🇪', 'ß',
    '\r\n', '\n', '\n\n', '\t', ' ', '  ', '    ', '\u00a0', '\u3000', '\u200b', '\u200d', '\ufeff', '\u2028', '\u0000', '\u0007', '\u007f',
    '\ufffd', '▁', '_', '-', '...', '!!', '?', ',', '.', '\'', '"', '##', '[UNK]', '[CLS]', '<s>', '</s>', '<unk>', '[tok]', ' [tok] ',
    'word[tok]', '<0x0A>', '\'S', '\'\u017f', '$', '+=', '<=>', '~^`|', '#1', 'aaaaaaaaaaaaaaaaaaaa', 'İ', 'ǅ', 'K'];

function text() {
  let out = '';
  for (let parts = random(12); parts >= 0; --parts) {
    const kind = random(10);
    if (kind < 5) { out += pick(WORDS); continue; }
    const [first, last] = pick(BLOCKS);
    for (let n = 1 + random(6); n > 0; --n) out += String.fromCodePoint(first + random(last - first + 1));
    if (kind === 9) out += pick([' ', '\n', 'a', '1', '\u0301']).repeat(random(pick([4, 4, 40])));
  }
  return out;
}

const CORPUS = ('the quick brown fox jumps over the lazy dog. The Quick brown fox\'s dog, don\'t you think? 12345 + 678 = 13023!\n' +
    'def f(x):\n    return x ** 2  # naïve café\n 你好，世界。こんにちは世界 カタカナ 한국어 텍스트 привет мир γειά σου κόσμε مرحبا بالعالم שלום ' +
    'नमस्ते दुनिया straße STRASSE ﬁn ½ ① 👍🏽 👩‍👩‍👧 hello world hello there \t tabs\r\n').repeat(3);

/// A tokenizer.json of these parts.
function written(folder, parts, model) {
  const file = path.join(folder, 'tokenizer.json');
  fs.writeFileSync(file, JSON.stringify({ version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null,
    pre_tokenizer: null, post_processor: null, decoder: null, ...parts, model }));
  return file;
}

/// A vocabulary by hand: characters of the corpus, then the most frequent pairs of each round joined.
function byteMerges(words, rounds) {
  const counts = new Map(), vocab = {}, merges = [];
  for (const word of words) counts.set(word, (counts.get(word) || 0) + 1);
  let split = [...counts].map(([word, n]) => [[...word], n]);
  for (const [symbols] of split) for (const s of symbols) vocab[s] ??= Object.keys(vocab).length;
  for (let i = 0; i < rounds; ++i) {
    const pairs = new Map();
    for (const [symbols, n] of split) for (let j = 1; j < symbols.length; ++j) {
      const key = symbols[j - 1] + '\u0001' + symbols[j];
      pairs.set(key, (pairs.get(key) || 0) + n);
    }
    const best = [...pairs].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0];
    if (!best) break;
    const [left, right] = best[0].split('\u0001');
    merges.push([left, right]);
    vocab[left + right] ??= Object.keys(vocab).length;
    split = split.map(([symbols, n]) => {
      const out = [];
      for (const s of symbols) {
        if (out.length && out[out.length - 1] === left && s === right && !out.joined) { out[out.length - 1] += s; out.joined = true; }
        else { out.push(s); out.joined = false; }
      }
      return [[...out], n];
    });
  }
  return { vocab, merges };
}

const byteChar = (() => {
  const out = []; let next = 256;
  for (let b = 0; b < 256; ++b) out.push(String.fromCodePoint((b > 32 && b < 127) || (b > 160 && b !== 173) ? b : next++));
  return out;
})();

function models() {
  const words = CORPUS.match(/ ?\S+|\s+/g);
  const chars = byteMerges(words.map(w => w.replace(/ /g, '▁')).concat([...'ABCDEFGHIJKLMNOPQRSTUVWXYZ abcdefghijklmnopqrstuvwxyz0123456789']), 150);
  for (const token of ['<unk>', '[UNK]']) chars.vocab[token] = Object.keys(chars.vocab).length;
  const bytes = byteMerges(words.map(w => [...Buffer.from(w)].map(b => byteChar[b]).join('')), 150);
  for (const c of byteChar) bytes.vocab[c] ??= Object.keys(bytes.vocab).length;
  const fallback = { vocab: { ...chars.vocab }, merges: chars.merges };
  for (let b = 0; b < 256; ++b) fallback.vocab['<0x' + b.toString(16).toUpperCase().padStart(2, '0') + '>'] = Object.keys(fallback.vocab).length;
  const pieces = [['<unk>', 0], ...Object.keys(chars.vocab).filter(t => t[0] !== '<' && t[0] !== '[').map((t, i) => [t, -1 - Math.fround(i / 64)])];
  const word = { '[UNK]': 0, '[CLS]': 1, '[SEP]': 2 };
  for (const t of Object.keys(chars.vocab)) for (const spelled of [t.replace(/▁/g, ''), '##' + t.replace(/▁/g, '')])
    if (spelled.replace('##', '')) word[spelled] ??= Object.keys(word).length;
  const level = { '[UNK]': 0 };
  for (const w of CORPUS.match(/[\p{L}\p{M}]+|\d|\S/gu)) level[w] ??= Object.keys(level).length;
  const bpe = { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false,
    byte_fallback: false, ignore_merges: false };
  const affixed = { vocab: { '[UNK]': 0 }, merges: [] };
  for (const t of Object.keys(chars.vocab)) for (const a of ['', '##']) for (const z of ['', '</w>']) affixed.vocab[a + t + z] ??= Object.keys(affixed.vocab).length;
  for (const [l, r] of chars.merges) for (const a of ['', '##']) for (const z of ['', '</w>']) affixed.merges.push([a + l, '##' + r + z]);
  return {
    chars: { ...bpe, unk_token: '<unk>', ...chars }, fused: { ...bpe, unk_token: '<unk>', fuse_unk: true, ...chars },
    whole: { ...bpe, unk_token: '<unk>', ignore_merges: true, ...chars },
    fallback: { ...bpe, unk_token: '<unk>', fuse_unk: true, byte_fallback: true, ...fallback },
    bytes: { ...bpe, ...bytes }, affixed: { ...bpe, unk_token: '[UNK]', continuing_subword_prefix: '##', end_of_word_suffix: '</w>', ...affixed },
    unigram: { type: 'Unigram', unk_id: 0, byte_fallback: false, vocab: pieces },
    word: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 20, vocab: word },
    level: { type: 'WordLevel', unk_token: '[UNK]', vocab: level } };
}

function small(m) {
  const next = Object.keys(m.chars.vocab).length;  // where the library puts added tokens
  const out = [];
  const add = (name, model, normalizer, pre_tokenizer, more = {}) =>
    out.push({ name, model, parts: { normalizer, pre_tokenizer, ...more } });
  const one = (type, more = {}) => ({ type, ...more });
  const seq = (key, ...steps) => ({ type: 'Sequence', [key]: steps });
  const meta = one('Metaspace', { replacement: '▁', prepend_scheme: 'always', split: true });
  const level = one('ByteLevel', { add_prefix_space: false, trim_offsets: true, use_regex: true });
  for (const type of ['NFC', 'NFD', 'NFKC', 'NFKD', 'Lowercase', 'StripAccents', 'Nmt', 'ByteLevel'])
    add(type, type === 'ByteLevel' ? 'bytes' : 'chars', type === 'StripAccents' ? seq('normalizers', one('NFD'), one(type)) : one(type), null);
  for (const [left, right] of [[true, true], [true, false], [false, true], [false, false]])
    add(`Strip ${left} ${right}`, 'chars', one('Strip', { strip_left: left, strip_right: right }), meta);
  add('Replace', 'chars', seq('normalizers', one('Replace', { pattern: { String: 'o' }, content: '00' }),
    one('Replace', { pattern: { Regex: '\\s{2,}|[aeiou]$' }, content: '' })), meta);
  add('Prepend', 'fallback', seq('normalizers', one('Prepend', { prepend: '▁' }), one('Replace', { pattern: { String: ' ' }, content: '▁' })), null,
    { decoder: seq('decoders', one('Replace', { pattern: { String: '▁' }, content: ' ' }), one('ByteFallback'), one('Fuse'), one('Strip', { content: ' ', start: 1, stop: 0 })) });
  for (const clean_text of [true, false]) for (const [strip_accents, lowercase] of [[null, true], [null, false], [true, false], [false, true]])
    add(`Bert ${clean_text} ${strip_accents} ${lowercase}`, 'word', one('BertNormalizer', { clean_text, handle_chinese_chars: clean_text, strip_accents, lowercase }),
      one('BertPreTokenizer'), { decoder: one('WordPiece', { prefix: '##', cleanup: true }),
        post_processor: one('BertProcessing', { sep: ['[SEP]', 2], cls: ['[CLS]', 1] }) });
  for (const behavior of ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous']) {
    for (const invert of [false, true]) for (const pattern of [{ Regex: '\\p{L}+|[aeiou\\d]{1,2}' }, { String: 'o' }, { Regex: '\\s' }])
      add(`Split ${behavior} ${invert} ${JSON.stringify(pattern)}`, 'chars', null, one('Split', { pattern, behavior, invert }));
    add(`Punctuation ${behavior}`, 'chars', null, one('Punctuation', { behavior }));
  }
  for (const prepend_scheme of ['always', 'first', 'never']) for (const split of [true, false])
    add(`Metaspace ${prepend_scheme} ${split}`, 'unigram', null, one('Metaspace', { replacement: '▁', prepend_scheme, split }),
      { decoder: one('Metaspace', { replacement: '▁', prepend_scheme, split }),
        added_tokens: [{ id: 0, content: '<unk>', single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }] });
  for (const add_prefix_space of [true, false]) for (const use_regex of [true, false])
    add(`ByteLevel ${add_prefix_space} ${use_regex}`, 'bytes', null, one('ByteLevel', { add_prefix_space, trim_offsets: true, use_regex }), { decoder: level });
  for (const individual_digits of [true, false]) add(`Digits ${individual_digits}`, 'chars', null, one('Digits', { individual_digits }));
  for (const type of ['UnicodeScripts', 'Whitespace', 'WhitespaceSplit', 'BertPreTokenizer']) for (const model of ['chars', 'level']) add(`${type} ${model}`, model, null, one(type));
  add('CharDelimiterSplit', 'chars', null, one('CharDelimiterSplit', { delimiter: 'e' }));
  add('Sequence', 'bytes', one('NFC'), seq('pretokenizers', one('Split', { pattern: { Regex: '[\\p{Lu}\\p{Lt}]*[\\p{Ll}\\p{M}]+(?i:\'s)?|\\p{N}{1,3}|\\s+(?!\\S)|\\s+' }, behavior: 'Isolated', invert: false }),
    one('Digits', { individual_digits: true }), one('ByteLevel', { add_prefix_space: false, trim_offsets: true, use_regex: false })), { decoder: level });
  add('prefix of every span', 'bytes', null, seq('pretokenizers', one('Whitespace'), one('ByteLevel', { add_prefix_space: true, trim_offsets: true, use_regex: true })));
  for (const model of ['fused', 'whole', 'fallback', 'affixed']) add(model, model, null, one('WhitespaceSplit'));
  add('suffix', 'affixed', one('Lowercase'), one('BertPreTokenizer'), { decoder: one('BPEDecoder', { suffix: '</w>' }) });
  for (const normalized of [true, false]) for (const [lstrip, rstrip, single_word] of [[true, false, false], [false, true, false], [true, true, true], [false, false, true]])
    add(`added ${normalized} ${lstrip} ${rstrip} ${single_word}`, 'chars', seq('normalizers', one('NFKC'), one('Lowercase')), meta,
      { added_tokens: [{ id: next, content: '[tok]', single_word, lstrip, rstrip, normalized, special: false },
        { id: next + 1, content: 'Brown', single_word, lstrip, rstrip, normalized, special: true }],
        post_processor: one('TemplateProcessing', { single: [{ SpecialToken: { id: '[tok]', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
          pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 0 } }], special_tokens: { '[tok]': { id: '[tok]', ids: [next], tokens: ['[tok]'] } } }) });
  return out;
}

async function main() {
  const [program, ...rest] = process.argv.slice(2);
  const files = [];
  let count = 0, save = false, verbose = false;
  while (rest.length) {
    const word = rest.shift();
    if (word === '--texts') count = Number(rest.shift());
    else if (word === '--save') save = true;
    else if (word === '-v') verbose = true;
    else files.push(word);
  }
  count = count || (files.length ? 10000 : 2000);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'graft-parity-')), made = files.length ? {} : models();
  const kept = [];
  let wrong = 0;
  for (const { name, model, parts } of files.length ? files.map(name => ({ name })) : small(made)) {
    const file = model ? written(folder, parts, made[model]) : name;
    const decodes = !model || parts.decoder;
    state = 7;
    const texts = Array.from({ length: save ? 12 : count }, text);
    if (save && !kept.length) kept.push(JSON.stringify({ models: made, texts }));
    const tokenizer = hf.Tokenizer.fromFile(file);
    tokenizer.disablePadding();
    tokenizer.disableTruncation();
    const expected = [];
    for (const t of texts) {
      const ids = (await tokenizer.encode(t)).getIds();
      expected.push({ ids, text: ids.length ? await tokenizer.decode(ids, true) : '' });
    }
    let answers;
    try {
      answers = execFileSync(program, [file], { input: texts.map(t => JSON.stringify(t)).join('\n') + '\n', maxBuffer: 1 << 30, stdio: ['pipe', 'pipe', 'pipe'] })
        .toString().trimEnd().split('\n').map(line => JSON.parse(line));
    } catch (failure) {
      console.log(`${name}: ${failure.stderr}`);
      ++wrong;
      continue;
    }
    const different = texts.map((_, i) => i).filter(i => JSON.stringify(answers[i].ids) !== JSON.stringify(expected[i].ids));
    const decoded = decodes ? texts.filter((_, i) => answers[i].text !== expected[i].text).length : 'not compared,';
    const total = expected.reduce((sum, e) => sum + e.ids.length, 0);
    console.log(`${name}: ${texts.length} texts, ${total} ids, ${different.length} texts differ, ${decoded} decoded otherwise`);
    for (const i of different.slice(0, verbose ? 5 : 1)) console.log('  ' + JSON.stringify(texts[i]) + '\n    ' + JSON.stringify(expected[i].ids) + '\n    ' + JSON.stringify(answers[i]));
    if (different.length) ++wrong;
    if (save) kept.push(JSON.stringify({ name, model, parts, ids: expected.map(e => e.ids) }));
  }
  if (save) fs.writeFileSync(path.join(__dirname, 'tokenizers.jsonl'), kept.join('\n') + '\n');
  fs.rmSync(folder, { recursive: true });
  process.exit(wrong ? 1 : 0);
}

main();
