"""Random JSON texts, mostly of the shapes that Debezium's expansion takes."""

import json

STRINGS = ["", "x", "John Doe", "é", "中文", "😀", "a\"b", "back\\slash", "tab\t", "line\n", "\u0001", "\u007f", "\u2028",
           "/", "null", "1", "<&>'"]
NAMES = ["a", "b", "id", "name", "Name", "a b", "ünï", "😀", "x-y", "x.y", "x_y", "1", "$ref", "type", "payload", "q\"q"]
FLOATS = ["0.1", "-0.0", "1.10", "4.9", "1e2", "1E+2", "1.5e300", "123456789012345.678", "1e-7", "0.001", "1234567.0",
          "10000000.0", "12345678.9", "5e-324", "100.0"]


def document(rng, spaced=False):
    """An object mostly; also scalars, and arrays at the top."""
    chance = rng.random()
    if chance < 0.08:
        return rng.choice(["{}", "[]", "null", "42", "true", '"text"', '""', "1.50"])
    value = array(rng, 2) if chance < 0.11 else structure(rng, rng.choice([1, 2, 2, 3]))
    return rendered(value, rng if spaced else None)


class Number(str):
    """Digits as they are to be written."""


def structure(rng, depth):
    names = rng.sample(NAMES, rng.randint(0, 5))
    return {name: member(rng, depth - 1) for name in names}


def member(rng, depth):
    chance = rng.random()
    if depth > 0 and chance < 0.2:
        return structure(rng, depth)
    if depth > 0 and chance < 0.4:
        return array(rng, depth)
    return None if chance < 0.48 else scalar(rng, rng.choice(["string", "int", "long", "float", "bool"]))


def array(rng, depth):
    length = rng.choice([0, 1, 2, 3])
    kind = rng.choice(["string", "int", "long", "float", "bool", "object", "array", "mixed"])
    if kind == "object":
        names = rng.sample(NAMES, 3)
        kinds = {name: rng.choice(["string", "int", "float", "bool"]) for name in names}
        return [{name: scalar(rng, kinds[name]) for name in names if rng.random() < 0.8} for _ in range(length)]
    if kind == "array" and depth > 1:
        inner = rng.choice(["string", "int", "bool"])
        return [[scalar(rng, inner) for _ in range(rng.choice([1, 2]))] for _ in range(length)]
    if kind == "mixed" and rng.random() < 0.8:
        kind = "int"
    kinds = ["string", "int", "bool"] if kind in ("mixed", "array") else [kind]
    return [None if rng.random() < 0.1 else scalar(rng, rng.choice(kinds)) for _ in range(length)]


def scalar(rng, kind):
    if kind == "string":
        return rng.choice(STRINGS)
    if kind == "int":
        return rng.choice([0, 1, -1, 42, 2**31 - 1, -2**31, rng.randint(-10**6, 10**6)])
    if kind == "long":
        return rng.choice([2**31, -2**31 - 1, 2**63 - 1, -2**63, 3_000_000_000])
    return Number(rng.choice(FLOATS)) if kind == "float" else rng.choice([True, False])


def rendered(value, rng):
    """With the blanks and escapes of a careless writer when there is an `rng`."""
    blank = rng.choice(["", " ", "\n  ", "\t"]) if rng else ""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        members = (json.dumps(name, ensure_ascii=bool(rng)) + ":" + blank + rendered(member, rng)
                   for name, member in value.items())
        return "{" + ("," + blank).join(members) + "}"
    if isinstance(value, list):
        return "[" + ("," + blank).join(rendered(item, rng) for item in value) + "]"
    return json.dumps(value, ensure_ascii=bool(rng and rng.random() < 0.5))
