"""Writes search.jsonl, queries and their answers, for docs/how-to/search-with-embeddings.md."""

import json
animals = "cat dog cow fox hen owl pig rat bee ant bat elk emu yak ape cod".split()
with open("search.jsonl", "w") as file:
    for animal in animals * 12:
        file.write(json.dumps({"query": f"Tell me about the {animal}.", "positive": f"The {animal} lived in a house."}) + "\n")
