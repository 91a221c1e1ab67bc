//! Comparison of our converters with the recorded output of Confluent's converters.

use std::fs;

use super::cases::*;
use super::{Registration, SchemaId, SchemaIds};
use crate::converter::{ConvertError, Converters, Destination, JsonConverter};
use crate::{Kind, Schema, Value};
use std::sync::Arc;

/// Recorded by `tests/golden/confluent/Recorder.java`: case, converter, options, input, schema, and the bytes after the id.
const RECORDED: &str = include_str!("../../../../../tests/golden/confluent/converters.tsv");

/// Each converter with the options that its cases are recorded with.
const CONVERTERS: [(&str, &str, &[&str]); 3] = [
    (
        "avro",
        "io.confluent.connect.avro.AvroConverter",
        &["", "connect.meta.data=false", "scrub.invalid.names=true", "ignore.default.for.nullables=true"],
    ),
    (
        "json",
        "io.confluent.connect.json.JsonSchemaConverter",
        &[
            "",
            "decimal.format=NUMERIC",
            "object.additional.properties=false",
            "ignore.default.for.nullables=true",
        ],
    ),
    (
        "protobuf",
        "io.confluent.connect.protobuf.ProtobufConverter",
        &[
            "",
            "optional.for.nullables=true",
            "wrapper.for.nullables=true",
            "optional.for.nullables=true,wrapper.for.nullables=true",
            "scrub.invalid.names=true",
            "ignore.default.for.nullables=true",
        ],
    ),
];

/// Cases with several map entries, which the recorder reads in another order.
const UNORDERED: [&str; 3] = ["map", "map default", "sparse vectors in a row"];

/// Reports whether the case is refused. Outside a field, Confluent's ProtobufConverter writes such a value as another message
/// than its schema declares, which no consumer can read; outboxd refuses it.
fn is_refused(converter: &str, schema: &Schema) -> bool {
    let is_logical = schema.name().is_some_and(|name| name.starts_with("org.apache.kafka.connect.data."));
    converter == "protobuf" && is_logical
}

fn cases() -> Vec<(&'static str, Schema, Value<'static>)> {
    let known = plain_cases().into_iter().chain(record_cases()).chain(sparse_cases());
    let mut cases: Vec<_> = known.filter(|(name, ..)| !UNORDERED.contains(name)).collect();
    cases.extend(change_cases());
    cases
}

/// Returns the value as Kafka's converter writes it with its schema, which the recorder reads.
fn input(schema: &Schema, value: &Value<'_>) -> String {
    let json = JsonConverter { replace_null_with_default: false, ..JsonConverter::default() };
    let mut out = Vec::new();
    json.convert(Some(schema), value, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the schema's text and, in hexadecimal, the bytes after the id, as our converter writes them.
fn converted(class: &str, options: &str, schema: &Schema, value: &Value<'_>) -> (String, String) {
    let said: Vec<(&str, &str)> = options.split(',').filter_map(|option| option.split_once('=')).collect();
    let lookup = |key: &str| {
        let option = key.strip_prefix("value.converter")?;
        if option.is_empty() {
            return Some(class.to_owned());
        }
        said.iter()
            .find(|(name, _)| option.strip_prefix('.') == Some(name))
            .map(|(_, value)| (*value).to_owned())
    };
    let converter = Converters::parse(&lookup).unwrap().value;
    let (mut ids, mut scratch, mut text) = (SchemaIds::default(), Vec::new(), String::new());
    let schema = Arc::new(schema.clone());
    for _ in 0..2 {
        let mut into = Destination { scratch: &mut scratch, topic: "t", schemas: &mut ids };
        match converter.convert_shared(&schema, value, &mut into) {
            Err(ConvertError::Unregistered(registration)) => {
                text.clone_from(&registration.text);
                let registration: Registration = *registration;
                ids.learn(registration, SchemaId(1));
            }
            Err(_) => return ("FAILS".to_owned(), String::new()),
            Ok(encoded) => {
                let bytes = encoded.resolve(&scratch);
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                let body = bytes.map_or_else(|| "null".to_owned(), |bytes| hex(bytes.get(5..).unwrap()));
                return (text, body);
            }
        }
    }
    panic!("the id was not learnt")
}

#[test]
fn schemas_and_values_are_those_of_confluents_converters() {
    let mut inputs = String::new();
    let mut wrong = Vec::new();
    for (case, schema, value) in cases() {
        for (converter, class, options) in CONVERTERS {
            // The options of Protobuf are about fields.
            if is_refused(converter, &schema) {
                assert_eq!(converted(class, "", &schema, &value).0, "FAILS", "{case}");
                continue;
            }
            let is_alone = converter == "protobuf" && !matches!(schema.kind, Kind::Struct(_));
            for options in options.iter().take(if is_alone { 1 } else { usize::MAX }) {
                let key = format!("{case}\t{converter}\t{options}\t{}\t", input(&schema, &value));
                inputs += &format!("{}\n", key.trim_end_matches('\t'));
                let (text, body) = converted(class, options, &schema, &value);
                let Some(recorded) = RECORDED.lines().find_map(|line| line.strip_prefix(&key)) else {
                    wrong.push(format!("{key}: not recorded"));
                    continue;
                };
                let (expected, expected_body) = recorded.split_once('\t').unwrap();
                let expected = serde_json::from_str(expected).unwrap_or_else(|_| expected.to_owned());
                // Null needs no schema to be written.
                let is_same = (body == "null" || text == expected) && body == expected_body;
                if !is_same {
                    wrong.push(format!(
                        "{case} {converter} {options}\n{text}\n{expected}\n{body}\n{expected_body}"
                    ));
                }
            }
        }
    }
    if let Ok(path) = std::env::var("CONVERTER_INPUTS") {
        fs::write(path, inputs).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "{} differ: {}", wrong.len(), wrong.join("\n\n"));
}
