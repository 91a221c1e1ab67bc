"""Values whose schemas a registry keeps, as text."""

import avro_text
import protobuf_text

MAGIC = 0
FORMS = {"AVRO": avro_text.shown, "PROTOBUF": protobuf_text.shown, "JSON": lambda data, _: data.decode()}


def shown(data, texts):
    """The id before a value and the value, by the kind and the text behind the id; what has none stays as it is."""
    if not data or data[0] != MAGIC or len(data) < 5:
        return data
    schema_id = int.from_bytes(data[1:5], "big")
    if schema_id not in texts:
        return data
    kind, text = texts[schema_id]
    return f"schema x{schema_id:08x}: {FORMS[kind](data[5:], text)}".encode()
