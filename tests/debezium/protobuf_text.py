"""Protobuf as text, so that two records can be compared field by field: every byte shows in it."""

import itertools
import json
import re
import struct

from varints import Bytes

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\w.]+|[^\s\w]')
FIXED = {1: ("<d", 8), 5: ("<f", 4)}
NUMBERS = {"int32", "int64", "bool"}


def shown(data, text):
    """A message behind the indexes of its place in the file."""
    reader = Reader(data)
    indexes = [0] if data[:1] == b"\0" and reader.varint() == 0 else [reader.varint() >> 1 for _ in range(reader.varint() >> 1)]
    file = message = Message("", parsed(text))
    for index in indexes:
        message = message.nested[index]
    return f"{indexes} {reader.message(message, [file, message], len(data))}"


class Message:
    def __init__(self, name, tokens):
        """`tokens` go on behind the brace that closes the message."""
        self.name, self.fields, self.nested = name, {}, []
        for token in itertools.takewhile(lambda token: token != "}", tokens):
            statement = [token]
            while statement[-1] not in (";", "{") and token != ";":
                statement.append(next(tokens))
                if statement[-1] == "[":
                    skip(tokens)
                    statement.pop()
            if statement[0] == "message":
                self.nested.append(Message(statement[1], tokens))
            elif statement[-3:-2] == ["="] and statement[0] not in ("syntax", "option"):
                self.fields[int(statement[-2])] = (statement[-4], statement[-5])

    def named(self, name):
        return next((nested for nested in self.nested if nested.name == name), None)


class Wrapper:
    """Where nothing stands in it, its value is zero."""

    def __init__(self, kind):
        self.fields = {1: ("#1", kind)}


WRAPPED = {f"google.protobuf.{name}Value": Wrapper(kind) for name, kind in (
    ("String", "string"), ("Bytes", "bytes"), ("Bool", "bool"), ("Int32", "int32"), ("Int64", "int64"), ("Float", "float"), ("Double", "double"))}


def parsed(text):
    return iter(TOKEN.findall(re.sub(r"^\s*//.*", "", text, flags=re.M)))


def skip(tokens):
    """What stands in brackets."""
    depth = 1
    while depth:
        depth += {"[": 1, "]": -1}.get(next(tokens), 0)


class Reader(Bytes):
    def message(self, message, scope, end):
        parts = []
        while self.at < end:
            tag = self.varint()
            name, kind = message.fields.get(tag >> 3, (f"#{tag >> 3}", "")) if message else (f"#{tag >> 3}", "")
            parts.append(f"{json.dumps(name)}:{self.value(tag & 7, kind, scope)}")
        return "{" + ",".join(parts) + "}"

    def value(self, wire, kind, scope):
        if wire == 0:
            return str(signed(self.varint()))
        if wire in FIXED:
            form, size = FIXED[wire]
            raw = self.take(size)
            return f"{struct.unpack(form, raw)[0]!r} x{raw.hex()}"
        if wire != 2:
            raise ValueError(f"wire type {wire}")
        length = self.varint()
        end = self.at + length
        if end > len(self.data):
            raise ValueError("a value ends too early")
        return self.delimited(kind, scope, end)

    def delimited(self, kind, scope, end):
        if kind == "string":
            return json.dumps(self.take(end - self.at).decode(), ensure_ascii=False)
        if kind in NUMBERS:
            return f"packed [{','.join(str(signed(self.varint())) for _ in iter(lambda: self.at < end, False))}]"
        if kind in WRAPPED:
            return re.sub(r'^{"#1":(.*)}$', r"\1", self.message(WRAPPED[kind], [], end))
        if kind == "google.protobuf.Timestamp":
            return moment(self.message(None, [], end))
        found = next((inner for outer in reversed(scope) if (inner := outer.named(kind))), None)
        if found or kind.startswith(("google.", "confluent.")):
            return self.message(found, [*scope, found] if found else [], end)
        return f'"x{self.take(end - self.at).hex()}"'


def signed(number):
    return number - (1 << 64) if number >> 63 else number


def moment(text):
    """Milliseconds, which may be those of the run."""
    return re.sub(r'^{"#1":(\d+),"#2":(\d{1,3})000000}$', lambda found: f"{{{found[1]}{int(found[2]):03}}}", text)
