"""Writes a Hugging Face folder of random weights, of the shapes that a config.json says:

    /usr/bin/python3 tests/bench/random_decoder.py tests/bench/shapes/smollm2-135m.json FOLDER
"""

import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../torch"))
import decoders  # noqa: E402


def main():
    source, folder = sys.argv[1:]
    with open(source) as file:
        config = json.load(file)
    os.makedirs(folder, exist_ok=True)
    shutil.copy(source, os.path.join(folder, "config.json"))
    decoders.save_safetensors(os.path.join(folder, "model.safetensors"), decoders.random_weights(config, 1))


if __name__ == "__main__":
    main()
