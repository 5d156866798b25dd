"""Fields of the files around a language model: each is applied, cannot matter, or is refused by its name.

Usage: fields_test.py GRAFT [-v] [TEST ...]
"""

import json
import math
import os

import cli
import files
from letter_text import IDS, SPACE, ids, write_model

LETTERS = {name: i for name, i in IDS.items() if i > 4 and name != SPACE}
# Values that leave everything as it is.
HARMLESS_TOKENIZER = {
    "model_max_length": 2048, "padding_side": "left", "truncation_side": "left", "model_input_names": ["input_ids"],
    "processor_class": "X", "auto_map": {"AutoTokenizer": ["a.B", None]}, "errors": "replace", "legacy": False,
    "sp_model_kwargs": {}, "use_default_system_prompt": False, "spaces_between_special_tokens": False,
    "add_bos_token": False, "add_eos_token": False, "add_prefix_space": False, "split_special_tokens": False,
    "tokenizer_class": "LlamaTokenizer", "unk_token": {"content": "<unk>"}, "bos_token": "<s>",
    "additional_special_tokens": ["<|im_start|>"], "added_tokens_decoder": {"1": {"content": "<s>", "special": True}}}
REFUSED_TOKENIZER = {
    "split_special_tokens": True, "sp_model_kwargs": {"enable_sampling": True, "alpha": 0.1}, "never_split": ["a"],
    "remove_space": True, "fix_mistral_regex": True, "shout": 3, "add_prefix_space": True,
    "add_bos_token": True}  # there is no bos_token
NEUTRAL_GENERATION = {
    "num_beams": 1, "num_beam_groups": 1, "no_repeat_ngram_size": 0, "min_length": 0, "typical_p": 1.0,
    "suppress_tokens": [], "bad_words_ids": None, "forced_eos_token_id": None, "encoder_repetition_penalty": 1.0,
    "eos_token_id": [2], "transformers_version": "4.57.1", "use_cache": True, "early_stopping": True, "guidance_scale": 1}
REFUSED_GENERATION = {
    "num_beams": 4, "num_beam_groups": 2, "penalty_alpha": 0.6, "min_length": 5, "min_new_tokens": 5, "typical_p": 0.9,
    "epsilon_cutoff": 0.1, "eta_cutoff": 0.1, "no_repeat_ngram_size": 3, "encoder_no_repeat_ngram_size": 3,
    "encoder_repetition_penalty": 1.5, "exponential_decay_length_penalty": [5, 1.2], "bad_words_ids": [[5]],
    "force_words_ids": [[5]], "forced_bos_token_id": 1, "forced_eos_token_id": 2, "suppress_tokens": [5],
    "begin_suppress_tokens": [5], "sequence_bias": [[[5], -1.0]], "guidance_scale": 1.5, "dola_layers": "low",
    "watermarking_config": {"bias": 2.5}, "token_healing": True, "forced_decoder_ids": [[1, 5]], "sing": 2}
HARMLESS_PEFT = {
    "task_type": "CAUSAL_LM", "peft_version": "0.17.0", "auto_mapping": None, "base_model_name_or_path": "x",
    "revision": None, "inference_mode": True, "target_modules": ["q_proj"], "exclude_modules": ["lm_head"],
    "layers_to_transform": [0], "layers_pattern": "layers", "lora_dropout": 0.1, "fan_in_fan_out": True,
    "init_lora_weights": "gaussian", "megatron_core": "megatron.core", "bias": "none", "modules_to_save": None,
    "target_parameters": None, "layer_replication": None, "alora_invocation_tokens": None, "use_dora": False,
    "use_rslora": False, "rank_pattern": {}, "alpha_pattern": {}, "trainable_token_indices": None, "lora_bias": False,
    "qalora_group_size": 16, "use_qalora": False, "loftq_config": {}, "eva_config": None, "corda_config": None}
REFUSED_PEFT = {
    "layer_replication": [[0, 2], [1, 2]], "alora_invocation_tokens": [5, 6], "bias": "lora_only",
    "init_lora_weights": "pissa", "modules_to_save": ["lm_head"], "target_parameters": ["mlp.experts.gate_up_proj"],
    "lora_bias": True, "use_qalora": True, "loftq_config": {"loftq_bits": 4}, "megatron_config": {"a": 1},
    "corda_config": {"a": 1}, "arrow_config": {"a": 1}, "use_bdlora": True, "ensure_weight_tying": True, "rotate": 2,
    "r": 3, "rank_pattern": {"q_proj": 3}, "use_dora": True, "trainable_token_indices": "all"}


class Fields(cli.CliTest):
    def setUp(self):
        super().setUp()
        write_model(self.path("model"))

    def change(self, name, **fields):
        """Other fields in a file of the model; None takes one away."""
        path = self.path(f"model/{name}.json")
        content = {}
        if os.path.exists(path):
            with open(path) as file:
                content = json.load(file)
        content.update(fields)
        with open(path, "w") as out:
            json.dump({key: value for key, value in content.items() if value is not None or name == "tokenizer"}, out)

    def convert(self, *flags):
        self.graft("convert", "model", "-o", "m.graft", *flags)

    def tokens(self, text, *flags):
        return [int(i) for i in self.graft("tokenize", "m.graft", "--ids", text, *flags).split()]

    def logits(self, *flags, model="m.graft"):
        row = ids("a bit more")
        cli.save_npy(self.path("row.npy"), row, (1, len(row)), "i")
        self.graft("run", model, "--input", "tokens=row.npy", "--out", "out", *flags)
        return cli.load_npy(self.path("out/logits.npy"))

    def each_refused(self, name, fields, **around):
        for field, value in fields.items():
            with self.subTest(field=field):
                self.change(name, **{**around, field: value})
                self.fails("convert", "model", "-o", "m.graft", says=[f"{name}.json", f'"{field}"', "--ignore-field"])
                self.convert("--ignore-field", field)
                self.change(name, **{other: None for other in [field, *around]})

    def test_fields_of_a_tokenizer(self):
        self.change("tokenizer_config", **HARMLESS_TOKENIZER)
        self.convert()
        self.assertEqual(self.tokens("so long"), ids("so long"))
        self.change("tokenizer_config", **{name: None for name in HARMLESS_TOKENIZER})
        self.each_refused("tokenizer_config", REFUSED_TOKENIZER, tokenizer_class="LlamaTokenizer")

    def test_what_is_put_around_a_text(self):
        self.change("tokenizer_config", bos_token="<s>", add_bos_token=True, add_eos_token=True,
                    tokenizer_class="LlamaTokenizerFast")
        self.convert()
        self.assertEqual(self.tokens("so"), [1, *ids("so"), 2])
        self.graft("export", "m.graft", "-o", "again")
        self.graft("convert", "again", "-o", "m.graft")
        self.assertEqual(self.tokens("so"), [1, *ids("so"), 2])
        # Classes that do not build it by the configuration.
        self.change("tokenizer_config", tokenizer_class="PreTrainedTokenizerFast")
        self.fails("convert", "model", "-o", "m.graft", says=['"add_bos_token" is true', 'no "<s>" before a text'])
        self.convert("--ignore-field", "add_bos_token", "--ignore-field", "add_eos_token")
        self.assertEqual(self.tokens("so"), ids("so"))
        self.fails("convert", "model", "-o", "m.graft", "--ignore-field", "add_cls_token", says=['"add_cls_token"'])

    def test_tokens_of_the_configuration_alone(self):
        self.change("tokenizer_config", pad_token="<pad>", added_tokens_decoder={
            str(len(IDS)): {"content": "<new>", "special": True, "lstrip": True}})
        self.change("config", vocab_size=len(IDS))
        self.convert()
        self.assertEqual(self.tokens("a <new>b<pad>", "--parse-special"), [*ids("a"), len(IDS), *ids("b"), len(IDS) + 1])

    def test_flags_of_the_configuration_count(self):
        # Hugging Face's library adds the tokens of the configuration to those of tokenizer.json, which then have its flags.
        user, end = IDS["<|im_start|>"], IDS["<|im_end|>"]
        self.convert()
        self.assertEqual(self.tokens("a <|im_start|> b", "--parse-special"), [*ids("a "), user, *ids(" b")])
        self.change("tokenizer_config", added_tokens_decoder={
            str(user): {"content": "<|im_start|>", "special": True, "lstrip": True, "rstrip": True},
            str(end): {"content": "<|im_end|>", "special": False},
            str(IDS["t"]): {"content": "t", "rstrip": True, "normalized": False}})
        self.convert()
        self.assertEqual(self.tokens("a <|im_start|> b", "--parse-special"), [*ids("a"), user, *ids("b")])
        self.assertEqual(self.tokens("t t ", "--parse-special"), ids("tt"), "a token of the model becomes an added one")
        self.assertNotIn(end, self.tokens("<|im_end|>"), "what was special is not read in a user's text")
        self.graft("export", "m.graft", "-o", "again")
        self.graft("convert", "again", "-o", "m.graft")
        self.assertEqual(self.tokens("a <|im_start|> b", "--parse-special"), [*ids("a"), user, *ids("b")])

    def test_normalizers_and_pre_tokenizers_follow_the_configuration(self):
        # Hugging Face's library sets these in the tokenizer that it has read.
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
        vocabulary = {"\u0120": IDS[SPACE], "\u010a": IDS["\n"],
                      **{name: i for name, i in IDS.items() if name not in (SPACE, "\n")}}
        self.change("tokenizer", normalizer=None, pre_tokenizer=byte_level, decoder=byte_level,
                    model={"type": "BPE", "vocab": vocabulary, "merges": []})
        for flag, expected in ((False, "so"), (True, " so")):
            self.change("tokenizer_config", add_prefix_space=flag, tokenizer_class="GPT2Tokenizer")
            self.convert()
            self.assertEqual(self.tokens("so"), ids(expected))
        self.change("tokenizer_config", add_prefix_space=None, tokenizer_class="BertTokenizer")
        self.change("tokenizer", normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                                             "strip_accents": None, "lowercase": True},
                    pre_tokenizer={"type": "BertPreTokenizer"}, decoder={"type": "WordPiece", "prefix": "##"},
                    model={"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##",
                           "max_input_chars_per_word": 100, "vocab": IDS})
        for lower, expected in ((None, "x.a"), (True, "x.a"), (False, "X.a")):
            self.change("tokenizer_config", do_lower_case=lower)
            self.convert()
            self.assertEqual(self.tokens("X.a"), ids(expected))

    def test_fields_of_a_generation(self):
        self.change("generation_config", **NEUTRAL_GENERATION, do_sample=True, temperature=0.6, top_p=0.9)
        self.assertIn("generation_config.json asks for do_sample, temperature, top_p", self.graft("convert", "model", "-o", "m.graft"))
        self.each_refused("generation_config", REFUSED_GENERATION)
        # Older folders have them in config.json, which counts without the other file.
        self.change("config", no_repeat_ngram_size=3)
        self.convert()
        os.remove(self.path("model/generation_config.json"))
        self.fails("convert", "model", "-o", "m.graft", says=["config.json", '"no_repeat_ngram_size" is 3'])
        self.change("config", no_repeat_ngram_size=0, num_beams=1, top_k=50)
        self.convert()

    def test_decoded_spaces_are_told_of(self):
        self.change("tokenizer_config", clean_up_tokenization_spaces=True)
        self.assertIn("clean_up_tokenization_spaces", self.graft("convert", "model", "-o", "m.graft"))

    def test_what_sentence_transformers_does_to_texts_is_told(self):
        def written(name, value):
            with open(self.path(f"model/{name}.json"), "w") as out:
                json.dump(value, out)

        asked = ("do_lower_case", "max_seq_length", "default_prompt_name")
        written("modules", [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}])
        prompts = {"query": "Find: ", "document": ""}
        for cut, texts, told in (({"max_seq_length": 3, "do_lower_case": True}, {"default_prompt_name": "query"}, True),
                                 ({"max_seq_length": 4096, "do_lower_case": False}, {"default_prompt_name": None}, False),
                                 ({"max_seq_length": None}, {"default_prompt_name": "document"}, False)):
            written("sentence_bert_config", cut)
            written("config_sentence_transformers", {"prompts": prompts, **texts})
            said = self.graft("convert", "model", "-o", "m.graft")
            self.assertEqual([field in said for field in asked], [told] * 3, said)

    def test_windows_that_are_off(self):
        for family in ("mistral", "qwen2"):
            self.change("config", model_type=family, sliding_window=3, max_window_layers=0, use_sliding_window=True)
            if family == "qwen2":
                write = [(f"model.layers.{i}.self_attn.{name}_proj.bias", rows) for i in range(2)
                         for name, rows in (("q", 16), ("k", 8), ("v", 8))]
                tensors = files.load_safetensors(self.path("model/model.safetensors"))
                files.save_safetensors(self.path("model/model.safetensors"), {
                    **tensors, **{name: ("F32", (rows,), files.pack([0.0] * rows)) for name, rows in write}})
            self.convert()
            windowed = self.logits()
            self.change("config", use_sliding_window=False)
            self.convert()
            off = self.logits()
            self.change("config", use_sliding_window=None, sliding_window=None)
            self.change("config", **({"sliding_window": 512} if family == "mistral" else {}))  # more than the text
            self.convert()
            self.assertLess(cli.difference(off, self.logits()), 1e-6)
            self.assertGreater(cli.difference(windowed, off), 1e-3)

    def write_adapter(self, prefix="base_model.model.model.", **config):
        os.makedirs(self.path("peft"), exist_ok=True)
        with open(self.path("peft/adapter_config.json"), "w") as out:
            json.dump({"peft_type": "LORA", "r": 2, "lora_alpha": 4, **config}, out)
        tensors = {}
        for i in range(2):
            layer = f"{prefix}layers.{i}.self_attn.q_proj"
            tensors[f"{layer}.lora_A.weight"] = "F32", (2, 16), files.pack(cli.random_floats(32, 50 + i))
            tensors[f"{layer}.lora_B.weight"] = "F32", (16, 2), files.pack(cli.random_floats(32, 60 + i))
        files.save_safetensors(self.path("peft/adapter_model.safetensors"), tensors)

    def test_fields_of_an_adapter(self):
        self.convert()
        self.write_adapter()
        plain = self.logits("--adapter", "peft")
        self.assertGreater(cli.difference(plain, self.logits()), 1e-3)
        self.write_adapter(**HARMLESS_PEFT)
        self.assertEqual(self.logits("--adapter", "peft"), plain)
        for field, value in REFUSED_PEFT.items():
            with self.subTest(field=field):
                self.write_adapter(**{field: value})
                self.fails("convert", "peft", "--base", "m.graft", "-o", "a.graft", says=[f'"{field}"'])
        self.write_adapter(alora_invocation_tokens=[5, 6], rotate=2)
        self.fails("run", "m.graft", "--adapter", "peft", "--input", "tokens=row.npy", "--out", "out",
                   says=['"alora_invocation_tokens"', "graft convert --ignore-field"])
        self.graft("convert", "peft", "--base", "m.graft", "-o", "a.graft", "--ignore-field", "alora_invocation_tokens",
                   "--ignore-field", "rotate")
        self.assertEqual(self.logits("--adapter", "a.graft"), plain)
        # A scale of 4 / sqrt(2), in three ways.
        self.write_adapter(use_rslora=True)
        by_root = self.logits("--adapter", "peft")
        for fields in ({"lora_alpha": 4 * math.sqrt(2)}, {"alpha_pattern": {"self_attn.q_proj": 4 * math.sqrt(2)}},
                       {"lora_alpha": 4 * math.sqrt(2), "r": 7, "rank_pattern": {"q_proj": 2}}):
            self.write_adapter(**fields)
            self.assertLess(cli.difference(self.logits("--adapter", "peft"), by_root), 1e-6)
        self.assertGreater(cli.difference(plain, by_root), 1e-3)

    def test_adapters_of_a_bare_base(self):
        self.convert()
        self.write_adapter()
        expected = self.logits("--adapter", "peft")
        tensors = files.load_safetensors(self.path("model/model.safetensors"))
        files.save_safetensors(self.path("model/model.safetensors"),
                               {name.removeprefix("model."): tensor for name, tensor in tensors.items()})
        self.convert()
        for prefix in ("base_model.model.", "base_model.model.model."):  # made for either form of the base
            self.write_adapter(prefix)
            self.assertEqual(self.logits("--adapter", "peft"), expected)
        self.graft("convert", "peft", "--base", "m.graft", "-o", "a.graft")
        self.graft("export", "a.graft", "-o", "back")
        names = files.load_safetensors(self.path("back/adapter_model.safetensors"))
        self.assertIn("base_model.model.layers.0.self_attn.q_proj.lora_A.weight", names)
        self.assertEqual(self.logits("--adapter", "back"), expected)

    def test_fields_of_a_model(self):
        self.convert()
        expected = self.logits()
        self.change("config", attention_sinks=4, rope_scaling={"rope_type": "default", "mrope_section": [1, 1]})
        self.fails("convert", "model", "-o", "m.graft", says=["config.json", "\"attention_sinks\" is 4"])
        self.fails("convert", "model", "-o", "m.graft", "--ignore-field", "attention_sinks", says=["rope_scaling.mrope_section"])
        self.convert("--ignore-field", "attention_sinks", "--ignore-field", "rope_scaling.mrope_section")
        self.assertEqual(self.logits(), expected)


if __name__ == "__main__":
    cli.main()
