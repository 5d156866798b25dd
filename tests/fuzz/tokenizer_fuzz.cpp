// Tokenizers of all formats. The first byte says which: 'j' tokenizer.json, 's' SentencePiece's tokenizer.model, 'p'
// the pair vocab.json and merges.txt with a zero byte between them, 'b' the bytes in a model file, 'G' a GGUF file.
#include <algorithm>
#include <cstdint>

#include "runtime/text/tokenizer/vocabulary_bytes.h"
#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tools/convert/tokenizer/tokenizer_load.h"

namespace {

using namespace graft::fuzz;
using graft::text::Vocabulary;

graft::Result<Vocabulary> read(std::string_view input) {
  const std::string_view rest = input.substr(1);
  const auto bytes = std::as_bytes(std::span(rest));
  switch (input[0]) {
    case 'j': return graft::convert::load_tokenizer_json(rest);
    case 's': return graft::convert::load_sentencepiece(bytes);
    case 'p': {
      const std::size_t end = std::min(rest.find('\0'), rest.size());
      return graft::convert::load_vocab_and_merges(rest.substr(0, end), rest.substr(std::min(end + 1, rest.size())), {},
                                                   {graft::text::Split::gpt2});
    }
    case 'G': {
      GRAFT_TRY_ASSIGN(const auto file, graft::convert::GgufFile::parse(std::as_bytes(std::span(input))));
      return graft::convert::load_gguf_vocabulary(file);
    }
    default: return graft::text::vocabulary_from_bytes(bytes);
  }
}

std::string mutate_tokenizer(std::string_view input, Random& random) {
  if (input.empty()) return {};
  if (input[0] == 'G') return mutate_gguf(input, random);
  const std::string_view rest = input.substr(1);
  std::string changed;
  if (input[0] == 'j') {
    changed = mutate_json(rest, random);
  } else if (input[0] == 's') {
    changed = mutate_protobuf(rest, random);
  } else if (input[0] == 'p') {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    std::string vocab(rest.substr(0, end)), merges(rest.substr(std::min(end + 1, rest.size())));
    random.one_in(2) ? void(vocab = mutate_json(vocab, random)) : void(merges = mutate_lines(merges, random));
    changed = vocab + '\0' + merges;
  }
  return changed.empty() ? std::string() : input[0] + changed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto vocabulary = read({reinterpret_cast<const char*>(data), size});
  if (vocabulary.ok()) {
    follow_vocabulary(*vocabulary);
  } else {
    check_refusal(vocabulary.status());
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_with(mutate_tokenizer, data, size, max_size, seed);
}
