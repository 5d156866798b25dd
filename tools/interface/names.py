"""Names and comments as each language has them."""

import textwrap


def camel(c_name):
    """graft_trainer_options: TrainerOptions."""
    return "".join(part.capitalize() for part in c_name.removeprefix("graft_").split("_"))


def lower_camel(name):
    """learning_rate: learningRate."""
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def listed(words, last="and"):
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def described(field, rename=None):
    """A field's text with who reads it and which default depends on what. rename() spells the names of other fields."""
    own = ", ".join(f"{name} {value}" for name, value in field.defaults.items())
    text = f"{field.text}{f' For {listed(field.readers)}.' if field.readers else ''}{f' Default: {field.default}; {own}.' if own else ''}"
    return rename(text) if rename else text


def comment(text, indent, mark="///"):
    return [f"{indent}{mark} {line}" for line in textwrap.wrap(text, 120 - len(indent) - len(mark) - 1)]
