"""Keys and values whose schemas a registry keeps, with random options."""

from registry import ADDRESS, APICURIO, CONFLUENT

APICURIO_AVRO = "apicurio"
"""Apicurio's Avro in its Confluent form; its AvroData is a copy of Confluent's."""
PROTOBUF = "protobuf"
CONVERTERS = {
    APICURIO_AVRO: "io.apicurio.registry.utils.converter.AvroConverter",
    "avro": "io.confluent.connect.avro.AvroConverter",
    "json-schema": "io.confluent.connect.json.JsonSchemaConverter",
    PROTOBUF: "io.confluent.connect.protobuf.ProtobufConverter",
}
ADDRESSES = {
    APICURIO_AVRO: {
        "apicurio.registry.url": ADDRESS + APICURIO, "apicurio.registry.auto-register": "true",
        "apicurio.registry.as-confluent": "true", "apicurio.registry.use-id": "contentId",
        "apicurio.registry.headers.enabled": "false",
    },
}
CONFLUENTS = {"schema.registry.url": ADDRESS + CONFLUENT}
FLAGS = {
    APICURIO_AVRO: ["connect.meta.data"],
    "avro": ["connect.meta.data", "scrub.invalid.names", "enhanced.avro.schema.support", "generalized.sum.type.support",
             "allow.optional.map.keys", "flatten.singleton.unions", "ignore.default.for.nullables"],
    "json-schema": ["object.additional.properties", "use.optional.for.nonrequired", "ignore.modern.dialects",
                    "flatten.singleton.unions", "generalized.sum.type.support", "ignore.default.for.nullables"],
    PROTOBUF: ["enhanced.protobuf.schema.support", "generate.index.for.unions", "generate.struct.for.nulls", "flatten.unions",
                 "generalized.sum.type.support", "int.for.enums", "optional.for.proto2", "wrapper.for.raw.primitives",
                 "wrapper.for.nullables", "optional.for.nullables", "scrub.invalid.names", "ignore.default.for.nullables"],
}
OTHERS = {
    "json-schema": {"decimal.format": ["BASE64", "NUMERIC"]},
}
USUALLY_TRUE = ("connect.meta.data", "object.additional.properties", "wrapper.for.raw.primitives", "optional.for.proto2",
                "generate.index.for.unions", "flatten.unions", "flatten.singleton.unions")


def registered(rng, config, form):
    """The configuration with keys and values in that form, mostly with names that it takes."""
    for role in ("key", "value") if rng.random() < 0.8 else ("value",):
        config = {key: value for key, value in config.items() if not key.startswith(f"{role}.converter")}
        options = ADDRESSES.get(form, CONFLUENTS) | random_options(rng, form)
        if form != APICURIO_AVRO and rng.random() < 0.3:
            options[f"{role}.subject.name.strategy"] = rng.choice(STRATEGIES)
        config |= {f"{role}.converter": CONVERTERS[form]} | {f"{role}.converter.{key}": value for key, value in options.items()}
    for names in ("schema", "field"):
        if rng.random() < (0.9 if form != "json-schema" else 0.3):
            config[f"{names}.name.adjustment.mode"] = rng.choice(["avro", "avro_unicode"])
    return config


STRATEGIES = [f"io.confluent.kafka.serializers.subject.{name}Strategy" for name in ("TopicName", "RecordName", "TopicRecordName")]


def random_options(rng, form):
    flags = {flag: "false" if flag in USUALLY_TRUE else "true" for flag in FLAGS[form] if rng.random() < 0.2}
    return flags | {key: rng.choice(values) for key, values in OTHERS.get(form, {}).items() if rng.random() < 0.4}
