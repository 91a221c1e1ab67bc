//! The converters against what Kafka's were seen to write.

use std::borrow::Cow;

use super::*;
use crate::{Decimal, Field};

fn written(
    converter: &Converter,
    schema: &Schema,
    value: &Value<'_>,
) -> Result<Option<String>, ConvertError> {
    let mut scratch = b"before".to_vec();
    let mut into = Destination { scratch: &mut scratch, topic: "orders", schemas: &mut SchemaIds::default() };
    let encoded = converter.convert(Some(schema), value, &mut into)?;
    Ok(encoded.resolve(&scratch).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()))
}

fn json(schemas: bool, decimal_format: DecimalFormat) -> Converter {
    Converter::Json(JsonConverter { schemas, decimal_format, ..JsonConverter::default() })
}

#[test]
fn values_are_written_as_kafka_writes_them() {
    let optional = |kind| Schema::new(kind).optional(true);
    let strings = optional(Kind::Array(optional(Kind::String).into()));
    let map = optional(Kind::Map(Schema::new(Kind::String).into(), optional(Kind::String).into()));
    let variable = Schema::new(Kind::Struct(vec![
        Field::new("scale", Schema::new(Kind::Int32).into()),
        Field::new("value", Schema::new(Kind::Bytes).into()),
    ]));
    let text = Value::str;
    let bytes = |bytes: &'static [u8]| Value::Bytes(Cow::Borrowed(bytes));
    // Value, then as a simple header, as JSON without schema, as a string.
    let cases: Vec<(Schema, Value<'_>, [Option<&str>; 3])> = vec![
        (optional(Kind::Int16), Value::Int16(7), [Some("7"); 3]),
        (optional(Kind::Boolean), Value::Bool(true), [Some("true"); 3]),
        (optional(Kind::Float64), Value::Float64(1e21), [Some("1.0E21"); 3]),
        (optional(Kind::Float32), Value::Float32(f32::NAN), [Some("NaN"), Some("\"NaN\""), Some("NaN")]),
        (optional(Kind::String), Value::Null, [None, Some("null"), None]),
        (optional(Kind::String), text(""), [Some(""), Some("\"\""), Some("")]),
        (
            optional(Kind::String),
            text("a \"q\" é"),
            [Some("a \"q\" é"), Some(r#""a \"q\" é""#), Some("a \"q\" é")],
        ),
        (
            Schema::new(Kind::Bytes),
            bytes(&[0, 1, 0xFE, 0x41]),
            [Some("AAH+QQ=="), Some("\"AAH+QQ==\""), Some("java.nio.HeapByteBuffer[pos=0 lim=4 cap=4]")],
        ),
        (
            Schema::new(Kind::Bytes),
            Value::Decimal(Decimal::parse("123.40").unwrap()),
            [Some("123.40"), Some("\"MDQ=\""), Some("123.40")],
        ),
        (
            strings,
            Value::Array(vec![text("a b"), text("q\"\\x"), Value::Null, text("")]),
            [
                Some(r#"["a b","q\"\\x",null,""]"#),
                Some(r#"["a b","q\"\\x",null,""]"#),
                Some("[a b, q\"\\x, null, ]"),
            ],
        ),
        (
            map,
            Value::Map(vec![(text("b"), text("1")), (text("a"), Value::Null)]),
            [Some(r#"{"b":"1","a":null}"#), Some(r#"{"b":"1","a":null}"#), Some("{b=1, a=null}")],
        ),
        (
            variable,
            Value::Struct(vec![Value::Int32(2), bytes(&[0x7D])]),
            [
                Some(r#"{"scale":2,"value":"fQ=="}"#),
                Some(r#"{"scale":2,"value":"fQ=="}"#),
                Some("Struct{scale=2,value=java.nio.HeapByteBuffer[pos=0 lim=1 cap=1]}"),
            ],
        ),
    ];
    let converters = [Converter::SimpleHeader, json(false, DecimalFormat::Base64), Converter::String];
    for (schema, value, expected) in &cases {
        for (converter, expected) in converters.iter().zip(expected) {
            let found = written(converter, schema, value).unwrap();
            assert_eq!(found.as_deref(), *expected, "{} of {value:?}", converter.name());
        }
    }
}

#[test]
fn decimals_may_be_numbers() {
    let value = Value::Decimal(Decimal::parse("-1.50").unwrap());
    let found = written(&json(false, DecimalFormat::Numeric), &Schema::new(Kind::Bytes), &value);
    assert_eq!(found, Ok(Some("-1.50".to_owned())));
}

#[test]
fn a_default_replaces_null_unless_it_must_not() {
    let mut schema = Schema::new(Kind::Boolean).optional(true);
    schema.default = Some(Value::Bool(false));
    let expected = r#"{"schema":{"type":"boolean","optional":true,"default":false},"payload":"#;
    let converter = |replace_null_with_default| {
        Converter::Json(JsonConverter { replace_null_with_default, ..JsonConverter::default() })
    };
    assert_eq!(written(&converter(true), &schema, &Value::Null), Ok(Some(format!("{expected}false}}"))));
    assert_eq!(written(&converter(false), &schema, &Value::Null), Ok(Some(format!("{expected}null}}"))));
    let required = Schema::new(Kind::String);
    assert_eq!(written(&converter(true), &required, &Value::Null), Err(ConvertError::RequiredNull));
}

#[test]
fn a_default_in_a_schema_is_a_number_where_decimals_are() {
    let schema = Schema { default: Decimal::parse("1.50").map(Value::Decimal), ..Schema::new(Kind::Bytes) };
    let expected = r#"{"schema":{"type":"bytes","optional":false,"default":1.50},"payload":2.00}"#;
    let value = Value::Decimal(Decimal::parse("2.00").unwrap());
    assert_eq!(written(&json(true, DecimalFormat::Numeric), &schema, &value), Ok(Some(expected.to_owned())));
}

#[test]
fn cloud_events_are_refused_where_they_would_not_be_those_of_debezium() {
    let class = "io.debezium.converters.CloudEventsConverter";
    let parsed = |role: &str, said: &str| {
        let said = format!("={class} .{}", said.replace(' ', " ."));
        let said: Vec<_> = said.split(' ').map(|option| option.split_once('=').unwrap()).collect();
        Converters::parse(&|key| {
            let is_option = |(name, _): &&(&str, &str)| key.strip_prefix(role) == Some(*name);
            said.iter().find(is_option).map(|(_, value)| (*value).to_owned())
        })
    };
    for (options, reason) in [
        ("serializer.type=avro", "data in JSON cannot be in an event in Avro"),
        ("serializer.type=xml", "one of json, avro"),
        ("data.serializer.type=avro", "avro.schema.registry.url"),
        ("metadata.source=generate", "must begin with value or header"),
        ("metadata.source=value", "neither id nor type"),
        ("metadata.source=value,id:header", "neither id nor type"),
        ("metadata.source=header,id", "NAME:header or NAME:generate"),
        ("metadata.source=header,time:header", "only id, type, traceparent and dataSchemaName"),
        ("metadata.source=header", "headers that are JSON with schemas"),
        (
            "metadata.source=value,id:generate,type:generate opentelemetry.tracing.attributes.enable=true",
            "add traceparent:header",
        ),
    ] {
        let error = parsed("value.converter", options).expect_err(options);
        assert!(error.to_string().contains(reason), "{options}: {error}");
    }
    for options in [
        "serializer.type=JSON",
        "metadata.source=value,id:generate,type:generate",
        "serializer.type=avro data.serializer.type=avro avro.schema.registry.url=http://r:8081",
    ] {
        let made = parsed("value.converter", options).unwrap().value;
        assert_eq!(made.name(), "CloudEventsConverter", "{options}");
    }
    for role in ["key.converter", "header.converter"] {
        let error = parsed(role, "serializer.type=json").expect_err(role);
        assert!(error.to_string().contains("of values only"), "{role}: {error}");
    }
}
