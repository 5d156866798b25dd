"""Text from language models."""

from __future__ import annotations

import codecs
import ctypes
import json
import os
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _c
from ._errors import Error, error_of
from ._library import array_of, taken, text_of
from ._owned import Calls, Owned, source_of
from ._tensors import Memory

if TYPE_CHECKING:
    from ._model import Model


class Generated(NamedTuple):
    """The last text of a generator."""

    text: str
    tokens: list[int]  #: without the one that ended it
    stopped_by: str  #: "end_of_text", "max_tokens", "stop_string", "context_full" or "callback"
    prompt_tokens: int
    cached_tokens: int  #: of the prompt, that the text before had computed
    log_probabilities: list[float]  #: of each token, where they were asked for
    most_probable: list[list[tuple[int, float]]]  #: in each token's place, tokens and log-probabilities, best first
    prompt_ms: float = 0  #: for the other tokens of the prompt
    generated_ms: float = 0
    first_token_ms: float = 0  #: from the call to its first token
    drafted_tokens: int = 0  #: guessed by prompt lookup
    right_drafts: int = 0  #: of these, what the model said as well


def _generated(found: _c.Generated) -> Generated:
    beside = found.most_probable_count
    places = [[(found.most_probable[i * beside + k].token, found.most_probable[i * beside + k].log_probability) for k in range(beside)]
              for i in range(found.token_count if beside else 0)]
    stopped = _c.StopReason(found.reason).name
    return taken(Generated, found, text=ctypes.string_at(found.text, found.bytes).decode("utf-8", "replace"),
                 tokens=found.get("tokens"), stopped_by="stop_string" if stopped == "string" else stopped, most_probable=places,
                 log_probabilities=found.log_probabilities[:found.token_count] if found.log_probabilities else [])


def _tokens(ids: Sequence[int]) -> tuple[Any, int]:
    """As functions take them: an array, and how many there are."""
    return array_of(ctypes.c_int32, ids), len(ids)


def _options(calls: Calls, on_text: Any = None, on_token: Any = None, *, logit_bias: Optional[Mapping[int, float]] = None,
             log_probabilities: bool = False, most_probable: int = 0, **options: Any) -> _c.GenerateOptions:
    def piece(user: Any, text: int, size: int) -> int:
        return on_text(ctypes.string_at(text, size)) is not False

    def token(user: Any, token: int, logits: Any, vocabulary: int) -> int:
        return on_token(token, np.ctypeslib.as_array(logits, (vocabulary, )).copy()) is not False

    return _c.GenerateOptions(on_text=on_text and calls.guarded(piece, 0), on_token=on_token and calls.guarded(token, 0),
                              bias=logit_bias, log_probabilities=log_probabilities or most_probable > 0, most_probable=most_probable,
                              **options)


class Generator(Owned):
    """Writes text with a language model; made by Model.generator()."""

    def __init__(self, model: "Model", *, context: int, prefill: int, budget: int, precision: str,
                 recover_device: bool, prompt_lookup: int, cache: str, sequences: int) -> None:
        self.model = model
        options = _c.GeneratorOptions(context=context, prefill=prefill, budget=budget, precision=precision, recover_device=recover_device,
                                      prompt_lookup=prompt_lookup, cache=cache, sequences=sequences)
        self._sequences = sequences
        self._made_from(model, model._make(_c.graft_generator_create, options, destroy=_c.graft_generator_destroy))

    def generate(self, prompt: Union[str, Sequence[int]], *, max_tokens: int = 256, temperature: float = 0, top_k: int = 0, top_p: float = 1,
                 min_p: float = 0, repetition_penalty: float = 1, seed: int = 0, stop: Sequence[str] = (),
                 grammar: str = "", json_schema: str = "", logit_bias: Optional[Mapping[int, float]] = None,
                 log_probabilities: bool = False, most_probable: int = 0,
                 on_text: Optional[Callable[[str], Any]] = None,
                 on_token: Optional[Callable[[int, np.ndarray], Any]] = None) -> str:
        """What the model says after the prompt, text or token ids. One that begins as the one before costs its new part only.

        temperature: 0 always takes the most probable token. top_k, top_p, min_p narrow what is drawn from, 0, 1 and 0
        do not. stop: the text ends before any of these. on_text gets each piece of text once it is certain; if it gives
        False the text ends, and what it raises is raised here. It must not call graft with this context. grammar: rules
        that the text follows, as llama.cpp has them (GBNF); json_schema: it is JSON that this schema, as JSON, allows.
        logit_bias: what is added to the scores of tokens, by their ids; -inf: never. log_probabilities: last() has that of
        each token, and of the most_probable tokens in its place. on_token gets each token as it is chosen, with the scores that
        the model gave, before temperature and penalties; False makes it the last.
        """
        pieces = None
        if on_text is not None:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")

            def pieces(piece: bytes) -> Any:
                text = decoder.decode(piece)
                return on_text(text) if text else None

        native = self._native
        options = _options(native.calls, pieces, on_token, max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p,
                           min_p=min_p, repetition_penalty=repetition_penalty, seed=seed, stop=stop, grammar=grammar,
                           json_schema=json_schema, logit_bias=logit_bias, log_probabilities=log_probabilities, most_probable=most_probable)
        text, size, found = ctypes.c_char_p(), ctypes.c_size_t(), _c.Generated()
        with native.calls as calls:
            if isinstance(prompt, str):
                calls.check(_c.graft_generate(native, text_of(prompt), options, ctypes.byref(text), ctypes.byref(size)))
                return ctypes.string_at(text, size.value).decode("utf-8", "replace")
            calls.check(_c.graft_generate_tokens(native, *_tokens(prompt), options, found))
            return ctypes.string_at(found.text, found.bytes).decode("utf-8", "replace")

    def generate_many(self, prompts: Sequence[Union[str, Sequence[int]]], *, max_tokens: int = 256, temperature: float = 0,
                      top_k: int = 0, top_p: float = 1, min_p: float = 0, repetition_penalty: float = 1, seed: int = 0,
                      stop: Sequence[str] = (), grammar: str = "", json_schema: str = "",
                      logit_bias: Optional[Mapping[int, float]] = None, log_probabilities: bool = False,
                      most_probable: int = 0) -> list[Generated]:
        """What the model says after each prompt, as generate() says it after each, in their order.

        A generator of Model.generator(sequences=n) writes n of them at once, so that weights are read once for all, and
        computes once what prompts begin with in common. A text that fails is raised, and ends the others.
        """
        if self._sequences == 0:
            raise ValueError("The generator is for one text after the other: give Model.generator(sequences=...).")
        options = _options(self._native.calls, max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
                           repetition_penalty=repetition_penalty, seed=seed, stop=stop, grammar=grammar, json_schema=json_schema,
                           logit_bias=logit_bias, log_probabilities=log_probabilities, most_probable=most_probable)
        tokenizer = self.model.tokenizer() if any(isinstance(prompt, str) for prompt in prompts) else None
        ids = [tokenizer.encode(prompt) if isinstance(prompt, str) else prompt for prompt in prompts]  # type: ignore[union-attr]
        native, number, places = self._native, ctypes.c_uint64(), {}
        texts: list[Any] = [None] * len(ids)
        with native.calls as calls:
            try:
                for place, tokens in enumerate(ids):
                    calls.check(_c.graft_generator_submit_tokens(native, *_tokens(tokens), options, ctypes.byref(number)))
                    places[number.value] = place
                while places:
                    calls.check(_c.graft_generator_step(native, None))
                    found = _c.Generated()
                    while True:
                        status = _c.graft_generator_finished(native, ctypes.byref(number), found)
                        if number.value == 0:
                            break
                        place = places.pop(number.value, None)
                        calls.check(status)
                        if place is not None:
                            texts[place] = _generated(found)
            finally:
                for left in places:
                    _c.graft_generator_drop(native, left)
        return texts

    def last(self) -> Generated:
        """What the last text was made of."""
        return self._ask(_c.Generated, _c.graft_generator_last, take=_generated)

    def pause(self) -> None:
        """Gives all device memory back until the next call; what was said so far stays known."""
        self._call(_c.graft_generator_pause)

    def resume(self) -> None:
        """Builds everything again after pause(); OutOfMemory where the device has not the memory now: ask again."""
        self._call(_c.graft_generator_resume)

    def memory(self) -> Memory:
        """Bytes by class of memory."""
        return self._ask(_c.Memory, _c.graft_generator_memory, take=lambda memory: taken(Memory, memory))

    def swap_adapters(self, path: Optional[Union[str, "os.PathLike[str]", bytes]]) -> None:
        """The adapters of a file, or of its bytes, in place of those that the model had, without planning anew; None: as without any."""
        if isinstance(path, bytes):
            self._call(_c.graft_generator_swap_adapters_source, source_of(path))
        else:
            self._call(_c.graft_generator_swap_adapters, text_of(path))


class Embedder(Owned):
    """Turns texts into vectors; made by Model.embedder()."""

    def __init__(self, model: "Model", *, pooling: str, normalize: bool, cut: bool, length: int, batch: int, of: str,
                 budget: int, precision: str, recover_device: bool, dimensions: int) -> None:
        self.model = model
        options = _c.EmbedderOptions(pooling=pooling, normalize=normalize, cut=cut, length=length, batch=batch, of=of, budget=budget,
                                     precision=precision, recover_device=recover_device, dimensions=dimensions)
        self._made_from(model, model._make(_c.graft_embedder_create, options, destroy=_c.graft_embedder_destroy))

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return _c.graft_embedder_width(self._native)

    @property
    def length(self) -> int:
        """The most tokens of a text."""
        return _c.graft_embedder_length(self._native)

    def embed(self, texts: Union[str, Sequence[Union[str, Sequence[int]]]]) -> np.ndarray:
        """Rows of float32, one for each text; texts are all str, or all token ids. A text's vector depends on no other."""
        given = [texts] if isinstance(texts, str) else list(texts)
        native, count, vectors = self._native, len(given), ctypes.POINTER(ctypes.c_float)()
        with native.calls as calls:
            if all(isinstance(text, str) for text in given):
                calls.check(_c.graft_embed(native, array_of(ctypes.c_char_p, given), count, ctypes.byref(vectors), None))
            else:
                arrays = [array_of(ctypes.c_int32, text) for text in given]
                pointers = (ctypes.POINTER(ctypes.c_int32) * count)(*arrays)
                calls.check(_c.graft_embed_tokens(native, pointers, (ctypes.c_size_t * count)(*map(len, arrays)), count, ctypes.byref(vectors)))
            return np.ctypeslib.as_array(vectors, (count, self.width)).copy() if count else np.empty((0, self.width), "float32")

    def memory(self) -> Memory:
        """Bytes by class of memory."""
        return self._ask(_c.Memory, _c.graft_embedder_memory, take=lambda memory: taken(Memory, memory))


class ImportanceMatrix(NamedTuple):
    """Of one matrix."""

    name: str  #: of the weight
    sums: np.ndarray  #: for each column, what it was multiplied with, squared
    tokens: int  #: over which they were added up


class Importance(NamedTuple):
    """How much the columns of a model's matrices matter to texts; made by Model.importance()."""

    matrices: list[ImportanceMatrix]
    context: int  #: tokens of a chunk
    chunks: int  #: that were computed
    dropped: int = 0  #: tokens of texts that are in no chunk


class Tokenizer(Owned):
    """What a language model's text becomes; made by Model.tokenizer()."""

    def __init__(self, model: "Model") -> None:
        self.model = model
        self._made_from(model, model._make(_c.graft_tokenizer_create, destroy=_c.graft_tokenizer_destroy))

    def __len__(self) -> int:
        """How many tokens there are."""
        return _c.graft_tokenizer_size(self._native)

    def encode(self, text: str, *, bare: bool = False, parse_special: bool = False) -> list[int]:
        """Token ids. bare: without what the model puts before and after a text; parse_special: special tokens that are
        spelled out become these."""
        given, options = text.encode("utf-8", "surrogateescape"), _c.EncodeOptions(bare=bare, parse_special=parse_special)
        return self._list(ctypes.c_int32, _c.graft_tokenizer_encode, given, len(given), options, take=int)

    def decode(self, tokens: Sequence[int], *, spell_special: bool = False, continued: bool = False) -> str:
        """The text of token ids. spell_special: special tokens are spelled out, and left out otherwise. continued: they go on
        with a text, and keep the space that they begin with."""
        options = _c.DecodeOptions(spell_special=spell_special, continued=continued)
        return self._text(_c.graft_tokenizer_decode, *_tokens(tokens), options)

    def _text(self, function: Any, *arguments: Any) -> str:
        text = ctypes.c_char_p()
        return self._ask(ctypes.c_size_t, function, *arguments, ctypes.byref(text),
                         take=lambda size: ctypes.string_at(text, size.value).decode("utf-8", "replace"))

    def find(self, token: str) -> Optional[int]:
        """The id of the token that is spelled so in the vocabulary; None where there is none."""
        found = _c.graft_tokenizer_find(self._native, text_of(token))
        return None if found < 0 else found

    def chat(self, messages: Sequence[Mapping[str, Any]], *, format: str = "", complete: bool = False,
             tools: Any = None, documents: Any = None, variables: Optional[Mapping[str, Any]] = None) -> list[int]:
        """A conversation as the prompt that the model was tuned on, for Generator.generate().

        messages: {"role": ..., "content": ...}, and whatever else the model's own template reads. format: "alpaca", "chatml",
        "gemma", "llama2" or "llama3"; "": the model's own. complete: without what makes the assistant speak next. tools,
        documents, variables: what the model's own template reads.
        """
        return self._list(ctypes.c_int32, _c.graft_chat_encode, *_chat(messages, format, complete, tools, documents, variables), take=int)

    def chat_text(self, messages: Sequence[Mapping[str, Any]], *, format: str = "", complete: bool = False,
                  tools: Any = None, documents: Any = None, variables: Optional[Mapping[str, Any]] = None) -> str:
        """The same as text, to look at."""
        return self._text(_c.graft_chat_render, *_chat(messages, format, complete, tools, documents, variables))


def _chat(messages: Sequence[Mapping[str, Any]], format: str, complete: bool, tools: Any, documents: Any,
          variables: Any) -> tuple[Any, int, _c.ChatOptions]:
    def text(value: Any) -> str:
        return "" if value is None else json.dumps(value)

    pairs = [{"role": str(one["role"]), "text": one["content"] if isinstance(one.get("content"), str) else ""} for one in messages]
    more = any(set(one) - {"role", "content"} or not isinstance(one.get("content"), str) for one in messages)
    whole = text([dict(one) for one in messages]) if more and not format else ""
    options = _c.ChatOptions(format=format, complete=complete, messages=whole, tools=text(tools), documents=text(documents),
                             variables=text(variables))
    return array_of(_c.ChatMessage, pairs), len(pairs), options
