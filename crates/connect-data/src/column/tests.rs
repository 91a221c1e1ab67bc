//! Every type against what Debezium was seen to make of it: `tests/cases/columns.tsv`, and `extension-columns.tsv` for the types of
//! PostGIS and pgvector.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::Value;
use crate::converter::registered::SchemaIds;
use crate::converter::{Converter, Destination, JsonConverter};
use pg_replication::pgoutput::ColumnValue;
use pg_replication::wal::Oid;

const CASES: &str = concat!(
    include_str!("../../../../tests/cases/columns.tsv"),
    include_str!("../../../../tests/cases/extension-columns.tsv")
);

#[test]
fn columns_become_what_debezium_makes_of_them() {
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        let [type_name, modifier, text, options, schema, value] =
            line.split('\t').collect::<Vec<_>>().try_into().expect("six fields");
        let options = parse_options(options);
        let column = column(type_name, modifier.parse().unwrap());
        if schema.is_empty() {
            assert!(ColumnCodec::new(&column, &options, None).is_err(), "{line}");
            continue;
        }
        let codec = ColumnCodec::new(&column, &options, None).expect(line);
        let decoded = codec.decode(ColumnValue::Text(text.as_bytes())).expect(line);
        let expected = format!("{{\"schema\":{schema},\"payload\":{value}}}");
        let (expected, written) = (without_raw_non_bmp(&expected), json(&codec, &decoded));
        assert_eq!(written, expected, "{line}");
    }
}

#[test]
fn defaults_stand_for_null_and_travel_with_the_schema() {
    let cases = [
        ("jsonb", "'{}'::jsonb", r#""{}""#),
        ("text", "'it''s'::text", r#""it's""#),
        ("text", "'a\nb''cd'::text", "\"a\\nb'cd\""),
        ("varchar", "gen_name()", r#""""#),
        ("bool", "true", "true"),
        ("bool", "(NOT true)", "false"),
        ("text", "'a\u{2028}b'::text", "\"a\u{2028}b\""),
        ("int4", "nextval('outbox_id_seq'::regclass)", "0"),
        ("int8", "'-5'::bigint", "-5"),
        ("float8", "1.5", "1.5"),
        ("uuid", "gen_random_uuid()", r#""00000000-0000-0000-0000-000000000000""#),
        ("timestamptz", "now()", r#""1970-01-01T00:00:00.000000Z""#),
        ("timestamp", "CURRENT_TIMESTAMP", "0"),
        ("mood", "'ok'::mood", r#""ok""#),
        ("mood", "mood_of('x'::text)", "null"),
        ("bit", "B'1'::\"bit\"", "true"),
        ("numeric", "NULL::numeric", "null"),
        ("text", "NULL::text", "null"),
        ("int4", "1 + 1", "null"),
        ("bytea", "'\\x00'::bytea", "null"),
    ];
    for (type_name, default, shown) in cases {
        let column = ColumnDescription { default: Some(default.to_owned()), ..column(type_name, -1) };
        let codec = ColumnCodec::new(&column, &ColumnOptions::default(), None).unwrap();
        let value = codec.decode(ColumnValue::Null).unwrap();
        let written = json(&codec, &value);
        assert!(written.ends_with(&format!("\"payload\":{shown}}}")), "{default}: {written}");
        let in_schema = format!("\"default\":{shown}");
        assert_eq!(written.contains(&in_schema), shown != "null", "{default}: {written}");
        assert_eq!(codec.decode_without_default(ColumnValue::Null), Ok(Value::Null));
    }
}

#[test]
fn a_default_number_takes_its_columns_scale() {
    let options = parse_options("decimal.handling.mode=string");
    for (default, shown) in
        [("1.5", "\"1.50\""), ("'2'::numeric", "\"2.00\""), ("1.5::numeric(10,2)", "null")]
    {
        let column = ColumnDescription { default: Some(default.to_owned()), ..column("numeric", 655_366) };
        let codec = ColumnCodec::new(&column, &options, None).unwrap();
        let written = json(&codec, &codec.decode(ColumnValue::Null).unwrap());
        assert!(written.ends_with(&format!("\"payload\":{shown}}}")), "{default}: {written}");
    }
}

#[test]
fn a_default_is_written_as_the_catalog_has_it() {
    let moment = "'1995-12-28 05:20:50.25-03:30'::timestamp with time zone";
    let cases = [
        ("numeric", 2_490_382, "0.0000000304", "\"ATA=\""),
        ("timestamptz", 0, moment, "\"1995-12-28T08:50:50.25Z\""),
        ("timestamptz", 1, moment, "\"1995-12-28T08:50:50.2Z\""),
    ];
    for (type_name, modifier, default, shown) in cases {
        let column = ColumnDescription { default: Some(default.to_owned()), ..column(type_name, modifier) };
        let codec = ColumnCodec::new(&column, &ColumnOptions::default(), None).unwrap();
        let written = json(&codec, &codec.decode(ColumnValue::Null).unwrap());
        assert!(written.ends_with(&format!("\"payload\":{shown}}}")), "{default}: {written}");
    }
}

#[test]
fn what_debezium_excludes_has_no_codec() {
    for type_name in ["tsquery", "int4multirange", "interval[]", "money[]", "xml[]", "point[]"] {
        assert!(
            ColumnCodec::new(&column(type_name, -1), &ColumnOptions::default(), None).is_err(),
            "{type_name}"
        );
    }
}

/// A codec for each type, modifier and set of options of the cases.
static CODECS: LazyLock<Vec<ColumnCodec>> = LazyLock::new(|| {
    let columns: BTreeSet<_> = CASES
        .lines()
        .filter(|line| !line.starts_with('#') && !line.ends_with("\t\t"))
        .map(|line| {
            let mut fields = line.split('\t');
            (fields.next().unwrap(), fields.next().unwrap(), fields.nth(1).unwrap())
        })
        .collect();
    let codec = |(name, modifier, options): (&str, &str, &str)| {
        codec(name, modifier.parse().unwrap(), &parse_options(options))
    };
    columns.into_iter().map(codec).collect()
});

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>, text in "[-0-9a-f:.,{}()\"\\\\ =>NULBCx]{0,24}") {
        for codec in CODECS.iter() {
            for bytes in [bytes.as_slice(), text.as_bytes()] {
                if let Ok(value) = codec.decode(ColumnValue::Text(bytes)) {
                    let _written = json(codec, &value);
                }
            }
        }
    }
}

fn codec(type_name: &str, modifier: i32, options: &ColumnOptions) -> ColumnCodec {
    ColumnCodec::new(&column(type_name, modifier), options, None).expect(type_name)
}

fn column(type_name: &str, modifier: i32) -> ColumnDescription {
    ColumnDescription {
        name: "c".to_owned(),
        type_oid: Oid(0),
        type_modifier: modifier,
        kind: kind(type_name),
        not_null: false,
        default: None,
        key_position: None,
    }
}

fn kind(type_name: &str) -> TypeKind {
    let domain = |base, modifier| TypeKind::Domain {
        name: type_name.to_owned(),
        base: Box::new(TypeKind::base(base)),
        modifier,
    };
    match type_name {
        "mood" => TypeKind::Enum {
            name: "mood".to_owned(),
            labels: ["sad", "ok", "happy"].map(str::to_owned).into(),
        },
        "posint" => domain("int4", -1),
        "shorttext" => domain("varchar", 14),
        _ => match type_name.strip_suffix("[]") {
            Some(element) => TypeKind::Array { element: Box::new(kind(element)) },
            None => TypeKind::base(type_name),
        },
    }
}

fn parse_options(options: &str) -> ColumnOptions {
    let find = |key: &str| {
        let pairs = options.split_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| *name == key).map(|(_, value)| value.to_owned()).next()
    };
    ColumnOptions::parse(&find).unwrap()
}

fn json(codec: &ColumnCodec, value: &Value<'_>) -> String {
    let mut scratch = Vec::new();
    let converter = Converter::Json(JsonConverter::default());
    let schemas = &mut SchemaIds::default();
    let mut into = Destination { scratch: &mut scratch, topic: "", schemas };
    let encoded = converter.convert(Some(codec.schema()), value, &mut into).unwrap();
    String::from_utf8(encoded.resolve(&scratch).unwrap().to_vec()).unwrap()
}

/// Escapes the emoji of a recording: it was printed as characters, in which Jackson does not escape an emoji.
fn without_raw_non_bmp(json: &str) -> String {
    json.replace('😀', "\\uD83D\\uDE00")
}
