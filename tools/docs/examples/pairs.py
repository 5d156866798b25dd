"""Writes pairs.jsonl, better and worse answers, for docs/how-to/learn-from-preferences.md."""

import json, random
random.seed(0)
names = "Ann Ben Cleo Dan Eve Finn Gus Hana Ida Jon".split()
with open("pairs.jsonl", "w") as file:
    for _ in range(200):
        name = random.choice(names)
        file.write(json.dumps({"prompt": f"{name} said", "chosen": " thank you.", "rejected": " go away!"}) + "\n")
