//! Literals and what Kafka Connect reads: `tests/cases/header-literals.tsv`.

use proptest::prelude::*;

use super::*;
use crate::converter::registered::SchemaIds;
use crate::converter::{ConvertError, Converter, Destination, JsonConverter};

const RECORDED: &str = include_str!("../../../../../../tests/cases/header-literals.tsv");

/// Null, and the result of a converter that fails.
const NULL: &str = r"\N";
const FAILED: &str = "error";

#[test]
fn literals_become_the_headers_that_connect_writes() {
    let mut lines = 0;
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<_> = line.split('\t').collect();
        let [literal, text, json] = *columns else { panic!("{line}") };
        let datum = parse(literal).unwrap_or_else(|reason| panic!("{literal}: {reason}"));
        let simple = written(&Converter::SimpleHeader, &datum).unwrap();
        assert_eq!(simple, text, "{literal}");
        let with_schema = written(&Converter::Json(JsonConverter::default()), &datum);
        // Where Kafka's converter fails, a value does not fit its schema; here it may be written.
        assert!(json == FAILED || with_schema.as_deref() == Ok(json), "{literal}: {with_schema:?}");
        lines += 1;
    }
    assert!(lines > 50, "only {lines} lines were read");
}

fn written(converter: &Converter, datum: &Datum<'_>) -> Result<String, ConvertError> {
    let (mut scratch, mut schemas) = (Vec::new(), SchemaIds::default());
    let mut into = Destination { scratch: &mut scratch, topic: "t", schemas: &mut schemas };
    let encoded = converter.convert_beside(datum, &[], &mut into)?;
    let bytes = encoded.resolve(&scratch);
    Ok(bytes.map_or(NULL.to_owned(), |bytes| String::from_utf8(bytes.to_vec()).unwrap()))
}

#[test]
fn literals_that_kafka_would_read_otherwise_are_refused() {
    let deep = format!("{}{}", "[".repeat(NESTING_MAX + 1), "]".repeat(NESTING_MAX + 1));
    for refused in [deep.as_str(), "1e20000"] {
        assert!(parse(refused).is_err(), "{refused}");
    }
    let deepest = format!("{}{}", "[".repeat(NESTING_MAX), "]".repeat(NESTING_MAX));
    assert!(parse(&deepest).is_ok());
}

proptest! {
    #[test]
    fn any_literal_is_read_or_refused(text in r#"([-+0-9a-eT:.Z\[\]{}," \\é٣]|null|true|2024-01-02|03:04:05\.678Z){0,26}"#) {
        if let Ok(datum) = parse(&text) {
            let _text = written(&Converter::SimpleHeader, &datum).unwrap();
            let _json = written(&Converter::Json(JsonConverter::default()), &datum);
        }
    }
}
