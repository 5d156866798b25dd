"""Writes flowers.csv, a table of three kinds of flowers, for docs/how-to/train-on-a-table.md."""

import random
random.seed(0)
with open("flowers.csv", "w") as file:
    file.write("length,width,height,kind\n")
    for _ in range(600):
        kind = random.choice(["daisy", "rose", "tulip"])
        middle = {"daisy": (1, 3, 2), "rose": (4, 4, 5), "tulip": (3, 1, 6)}[kind]
        file.write(",".join(f"{random.gauss(value, 0.7):.2f}" for value in middle) + f",{kind}\n")
