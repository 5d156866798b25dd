"""Text from language models."""

from __future__ import annotations

import codecs
import json
import os
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _graft
from ._owned import Owned
from ._tensors import CACHE_FORMATS, PRECISIONS, Memory, fill, taken, word

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


def _generated(found: Mapping[str, Any]) -> Generated:
    reasons = ("end_of_text", "max_tokens", "stop_string", "context_full", "callback")
    return Generated(found["text"].decode("utf-8", "replace"), found["tokens"], reasons[found["reason"]],
                     found["prompt_tokens"], found["cached_tokens"], found["log_probabilities"], found["most_probable"],
                     found["prompt_ms"], found["generated_ms"], found["first_token_ms"], found["drafted_tokens"],
                     found["right_drafts"])


def _options(max_tokens: int, temperature: float, top_k: int, top_p: float, min_p: float, repetition_penalty: float, seed: int,
             stop: Sequence[str], grammar: str, json_schema: str, logit_bias: Optional[Mapping[int, float]],
             log_probabilities: bool, most_probable: int) -> Any:
    return fill(_graft.GenerateOptions(), max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p,
                min_p=min_p, repetition_penalty=repetition_penalty, seed=seed,
                grammar=grammar, json_schema=json_schema,
                bias={int(token): float(bias) for token, bias in (logit_bias or {}).items()},
                log_probabilities=log_probabilities or most_probable > 0, most_probable=most_probable, stop=[stop] if isinstance(stop, str) else list(stop))


class Generator(Owned):
    """Writes text with a language model; made by Model.generator()."""

    def __init__(self, model: "Model", *, context: int, prefill: int, budget: int, precision: str,
                 recover_device: bool, prompt_lookup: int, cache: str, sequences: int) -> None:
        self.model = model
        options = fill(_graft.GeneratorOptions(), context=context, prefill=prefill, budget=budget,
                       precision=word("precision", precision, PRECISIONS), recover_device=recover_device,
                       prompt_lookup=prompt_lookup, cache=word("cache", cache, CACHE_FORMATS), sequences=sequences)
        self._sequences = sequences
        self._native = model._native.generator(options)
        self._made_from(model)

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
        options = _options(max_tokens, temperature, top_k, top_p, min_p, repetition_penalty, seed, stop, grammar,
                           json_schema, logit_bias, log_probabilities, most_probable)
        pieces = None
        if on_text is not None:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")

            def pieces(piece: bytes) -> Any:
                text = decoder.decode(piece)
                return on_text(text) if text else None

        if isinstance(prompt, str):
            return self._native.generate(prompt, options, pieces, on_token).decode("utf-8", "replace")
        tokens = [int(token) for token in prompt]
        return self._native.generate_tokens(tokens, options, pieces, on_token).decode("utf-8", "replace")

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
        options = _options(max_tokens, temperature, top_k, top_p, min_p, repetition_penalty, seed, stop, grammar,
                           json_schema, logit_bias, log_probabilities, most_probable)
        tokenizer = self.model.tokenizer() if any(isinstance(prompt, str) for prompt in prompts) else None
        ids = [tokenizer.encode(prompt) if isinstance(prompt, str) else [int(token) for token in prompt] for prompt in prompts]
        return [_generated(found) for found in self._native.generate_many(ids, options)]

    def last(self) -> Generated:
        """What the last text was made of."""
        return _generated(self._native.last())

    def pause(self) -> None:
        """Gives all device memory back until the next call; what was said so far stays known."""
        self._native.pause()

    def resume(self) -> None:
        """Builds everything again after pause(); OutOfMemory where the device has not the memory now: ask again."""
        self._native.resume()

    def memory(self) -> Memory:
        """Bytes by class of memory."""
        return taken(Memory, self._native.memory())

    def swap_adapters(self, path: Optional[Union[str, "os.PathLike[str]", bytes]]) -> None:
        """The adapters of a file, or of its bytes, in place of those that the model had, without planning anew; None: as without any."""
        if isinstance(path, bytes):
            self._native.swap_adapters_bytes(path)
        else:
            self._native.swap_adapters("" if path is None else os.fspath(path))


class Embedder(Owned):
    """Turns texts into vectors; made by Model.embedder()."""

    def __init__(self, model: "Model", *, pooling: str, normalize: bool, cut: bool, length: int, batch: int, of: str,
                 budget: int, precision: str, recover_device: bool) -> None:
        self.model = model
        options = fill(_graft.EmbedderOptions(), pooling=word("pooling", pooling, ("default", "mean", "last", "cls")),
                       normalize=normalize, cut=cut, length=length, batch=batch, of=of, budget=budget,
                       precision=word("precision", precision, PRECISIONS), recover_device=recover_device)
        self._native = model._native.embedder(options)
        self._made_from(model)

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return self._native.width()

    @property
    def length(self) -> int:
        """The most tokens of a text."""
        return self._native.length()

    def embed(self, texts: Union[str, Sequence[Union[str, Sequence[int]]]]) -> np.ndarray:
        """Rows of float32, one for each text; texts are all str, or all token ids. A text's vector depends on no other."""
        given = [texts] if isinstance(texts, str) else list(texts)
        if all(isinstance(text, str) for text in given):
            return self._native.embed(given)
        return self._native.embed_tokens([[int(token) for token in text] for text in given])

    def memory(self) -> Memory:
        """Bytes by class of memory."""
        return taken(Memory, self._native.memory())


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
        self._native = model._native.tokenizer()
        self._made_from(model)

    def __len__(self) -> int:
        """How many tokens there are."""
        return self._native.size()

    def encode(self, text: str, *, bare: bool = False, parse_special: bool = False) -> list[int]:
        """Token ids. bare: without what the model puts before and after a text; parse_special: special tokens that are
        spelled out become these."""
        return self._native.encode(text, bare, parse_special)

    def decode(self, tokens: Sequence[int], *, spell_special: bool = False, continued: bool = False) -> str:
        """The text of token ids. spell_special: special tokens are spelled out, and left out otherwise. continued: they go on
        with a text, and keep the space that they begin with."""
        return self._native.decode([int(token) for token in tokens], spell_special, continued).decode("utf-8", "replace")

    def find(self, token: str) -> Optional[int]:
        """The id of the token that is spelled so in the vocabulary; None where there is none."""
        found = self._native.find(token)
        return None if found < 0 else found

    def chat(self, messages: Sequence[Mapping[str, Any]], *, format: str = "", complete: bool = False,
             tools: Any = None, documents: Any = None, variables: Optional[Mapping[str, Any]] = None) -> list[int]:
        """A conversation as the prompt that the model was tuned on, for Generator.generate().

        messages: {"role": ..., "content": ...}, and whatever else the model's own template reads. format: "alpaca", "chatml",
        "gemma", "llama2" or "llama3"; "": the model's own. complete: without what makes the assistant speak next. tools,
        documents, variables: what the model's own template reads.
        """
        return self._native.chat(*_chat(messages, format, complete, tools, documents, variables))

    def chat_text(self, messages: Sequence[Mapping[str, Any]], *, format: str = "", complete: bool = False,
                  tools: Any = None, documents: Any = None, variables: Optional[Mapping[str, Any]] = None) -> str:
        """The same as text, to look at."""
        return self._native.chat_text(*_chat(messages, format, complete, tools, documents, variables)).decode("utf-8", "replace")


def _chat(messages: Sequence[Mapping[str, Any]], format: str, complete: bool, tools: Any, documents: Any,
          variables: Any) -> tuple[list[tuple[str, str]], Any]:
    def text(value: Any) -> str:
        return "" if value is None else json.dumps(value)

    pairs = [(str(one["role"]), one["content"] if isinstance(one.get("content"), str) else "") for one in messages]
    more = any(set(one) - {"role", "content"} or not isinstance(one.get("content"), str) for one in messages)
    whole = text([dict(one) for one in messages]) if more and not format else ""
    return pairs, _graft.ChatOptions(format, complete, whole, text(tools), text(documents), text(variables))
