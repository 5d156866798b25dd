"""What a text costs a language model when keys and values of earlier tokens are rounded: its perplexity token by
token, each after all that stands before it, with the caches of graft.Generator.

Usage: PYTHONPATH=build/dev/platform/python /usr/bin/python3 tests/bench/cache_perplexity.py MODEL.graft TEXT [TOKENS]
"""

import math
import sys

import graft


def perplexity(model, tokens, cache):
    generator, costs = model.generator(context=len(tokens) + 1, cache=cache), []
    for i in range(1, len(tokens)):
        # Whatever the model would say: the text's own token is chosen, and log-probabilities are the model's.
        generator.generate(tokens[:i], max_tokens=1, logit_bias={tokens[i]: 1e6}, log_probabilities=True)
        said = generator.last()
        assert said.tokens == tokens[i:i + 1] and (i == 1 or said.cached_tokens == i - 1), (i, said)
        costs.append(-said.log_probabilities[0])
    return math.exp(sum(costs) / len(costs)), generator.memory().total


def main():
    model = graft.Context().load(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as file:
        tokens = model.tokenizer().encode(file.read())[:int(sys.argv[3]) if len(sys.argv) > 3 else 500]
    for cache in ("float32", "float16", "bfloat16", "q8_0"):
        value, total = perplexity(model, tokens, cache)
        print(f"{cache:8}  perplexity {value:.5f} of {len(tokens) - 1} tokens, {total} bytes in all", flush=True)


if __name__ == "__main__":
    sys.exit(main())
