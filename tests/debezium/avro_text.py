"""Avro as text, so that two records can be compared number by number: every byte shows in it."""

import json
import struct

from varints import Bytes


def shown(data, text):
    """A value of the schema with this text."""
    reader, schema = Reader(data), json.loads(text)
    reader.name(schema, None)
    value = reader.value(schema, None)
    rest = f" and {reader.data[reader.at:].hex()}" if reader.at < len(reader.data) else ""
    return f"{value}{rest}"


class Reader(Bytes):
    def __init__(self, data):
        super().__init__(data)
        self.named = {}

    def name(self, schema, space):
        """Keeps the records, each of which is defined where it first stands."""
        if isinstance(schema, list):
            for branch in schema:
                self.name(branch, space)
        elif isinstance(schema, dict):
            if schema["type"] == "record":
                space = schema.get("namespace", space)
                self.named[f"{space}.{schema['name']}" if space else schema["name"]] = (schema, space)
            inner = (schema["type"], schema.get("items"), schema.get("values"), *(field["type"] for field in schema.get("fields", [])))
            for part in inner:
                self.name(part, space)

    def value(self, schema, space):
        if isinstance(schema, list):
            branch = schema[self.long()]
            return "null" if branch == "null" else self.value(branch, space)
        if isinstance(schema, str):
            known = self.named.get(schema if "." in schema or not space else f"{space}.{schema}")
            return self.value(*(known or self.named[schema])) if schema not in PLAIN else PLAIN[schema](self)
        kind = schema["type"]
        if kind == "record":
            return self.record(schema, space)
        if kind == "array":
            return f"[{','.join(self.blocks(lambda: self.value(schema['items'], space)))}]"
        if kind == "map":
            return "{" + ",".join(self.blocks(lambda: f"{self.string()}:{self.value(schema['values'], space)}")) + "}"
        return self.value(kind, space)

    def record(self, schema, space):
        space = schema.get("namespace", space)
        fields = (f"{json.dumps(field['name'])}:{self.value(field['type'], space)}" for field in schema["fields"])
        return "{" + ",".join(fields) + "}"

    def blocks(self, item):
        """Whose sizes must not differ either."""
        sizes, items = [], []
        while size := self.long():
            sizes.append(size)
            if size < 0:
                sizes.append(self.long())
            items += [item() for _ in range(abs(size))]
        return items if sizes in ([], [len(items)]) else [*items, f"blocks {sizes}"]

    def long(self):
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def string(self):
        return json.dumps(self.take(self.long()).decode(), ensure_ascii=False)


PLAIN = {
    "null": lambda reader: "null", "boolean": lambda reader: ("false", "true")[reader.take(1)[0]],
    "int": lambda reader: str(reader.long()), "long": lambda reader: str(reader.long()),
    "float": lambda reader: f"float({struct.unpack('<f', reader.take(4))[0]!r} x{reader.data[reader.at - 4:reader.at].hex()})",
    "double": lambda reader: f"double({struct.unpack('<d', reader.take(8))[0]!r} x{reader.data[reader.at - 8:reader.at].hex()})",
    "bytes": lambda reader: f'"x{reader.take(reader.long()).hex()}"', "string": Reader.string,
}
