//! Comparison of the forms of two schemas: what is encoded with one reads the same with the other as writer's
//! schema.

use serde_json::{Map, Value};

use crate::connect::converter::registered::SchemaType;

/// Annotations of a JSON Schema: no value is written otherwise for them.
const ANNOTATIONS: [&str; 5] = ["$schema", "$id", "title", "description", "default"];

/// Returns whether two schemas have the same types in the same places. Defaults, documentation and properties
/// do not count.
pub(super) fn is_same(kind: SchemaType, one: &str, other: &str) -> bool {
    if kind == SchemaType::Protobuf {
        return words(one).eq(words(other));
    }
    let form = |text: &str| {
        let schema = serde_json::from_str(text).ok()?;
        Some(match kind {
            SchemaType::Avro => canonical(&schema, ""),
            SchemaType::Json | SchemaType::Protobuf => without_annotations(schema),
        })
    };
    form(one).is_some_and(|one| form(other) == Some(one))
}

/// Returns the characters of a `.proto` file without its spaces.
fn words(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|character| !character.is_whitespace())
}

fn without_annotations(schema: Value) -> Value {
    match schema {
        Value::Object(mut object) => {
            object.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()) && !key.starts_with("connect."));
            let named = |(key, value): (String, Value)| match (key.as_str(), value) {
                // Below it there are names of fields.
                ("properties", Value::Object(fields)) => {
                    let fields = fields.into_iter().map(|(name, field)| (name, without_annotations(field)));
                    (key, Value::Object(fields.collect()))
                }
                (_, value) => (key, without_annotations(value)),
            };
            Value::Object(object.into_iter().map(named).collect())
        }
        Value::Array(items) => items.into_iter().map(without_annotations).collect(),
        other => other,
    }
}

/// Returns Avro's Parsing Canonical Form, as far as it matters for a comparison.
fn canonical(schema: &Value, namespace: &str) -> Value {
    match schema {
        Value::String(name) => Value::String(full_name(name, namespace)),
        Value::Array(branches) => branches.iter().map(|branch| canonical(branch, namespace)).collect(),
        Value::Object(object) => canonical_object(object, namespace),
        other => other.clone(),
    }
}

fn canonical_object(object: &Map<String, Value>, namespace: &str) -> Value {
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let kind = object.get("type").unwrap_or(&Value::Null);
    if object.len() == 1 || !matches!(kind, Value::String(_)) || is_scalar(kind) {
        return canonical(kind, namespace);
    }
    let namespace = text("namespace").unwrap_or(namespace);
    let name = text("name").map(|name| full_name(name, namespace));
    let inner = name.as_deref().and_then(|name| name.rsplit_once('.')).map_or("", |(space, _)| space);
    let mut form = Map::new();
    form.insert("type".into(), kind.clone());
    form.extend(name.as_ref().map(|name| ("name".to_owned(), Value::from(name.as_str()))));
    for key in ["items", "values"] {
        form.extend(object.get(key).map(|schema| (key.to_owned(), canonical(schema, namespace))));
    }
    for key in ["symbols", "size"] {
        form.extend(object.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    if let Some(Value::Array(fields)) = object.get("fields") {
        let field = |field: &Value| {
            let schema = field.get("type").unwrap_or(&Value::Null);
            Value::Array(vec![field.get("name").cloned().unwrap_or_default(), canonical(schema, inner)])
        };
        form.insert("fields".into(), fields.iter().map(field).collect());
    }
    Value::Object(form)
}

fn is_scalar(kind: &Value) -> bool {
    !matches!(kind.as_str(), Some("record" | "error" | "enum" | "fixed" | "array" | "map"))
}

fn full_name(name: &str, namespace: &str) -> String {
    let primitive = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"].contains(&name);
    if primitive || namespace.is_empty() || name.contains('.') {
        return name.to_owned();
    }
    format!("{namespace}.{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_encoded_counts() {
        let record = |name: &str, rest: &str| {
            format!(r#"{{"type":"record","name":"{name}","fields":[{{"name":"a","type":"int"{rest}}}]}}"#)
        };
        let cases = [
            (r#""string""#.to_owned(), r#"{"type":"string","connect.version":1}"#.to_owned(), true),
            (r#"["null","string"]"#.into(), r#"["string","null"]"#.into(), false),
            (record("n.R", ""), record("n.R", r#","default":1,"doc":"x""#), true),
            (record("n.R", ""), record("n.Q", ""), false),
            (
                record("n.R", ""),
                r#"{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"int"}}]}"#.into(),
                true,
            ),
            (record("R", ""), record("R", "").replace("int", "long"), false),
            (r#"{"type":"array","items":"int"}"#.into(), r#"{"type":"array","items":"long"}"#.into(), false),
            (r#"{"type":"map","values":"int"}"#.into(), r#"{"type":"map","values":{"type":"int"}}"#.into(), true),
            ("no JSON".into(), "no JSON".into(), false),
        ];
        for (one, other, same) in cases {
            assert_eq!(is_same(SchemaType::Avro, &one, &other), same, "{one} and {other}");
        }
    }

    #[test]
    fn spaces_of_a_proto_file_do_not_count() {
        let text = "syntax = \"proto3\";\n\nmessage A {\n  int32 a = 1;\n}\n";
        for (other, same) in [
            (text.replace("  ", "\t"), true),
            (text.replace("a = 1", "a = 2"), false),
            (String::new(), false),
        ] {
            assert_eq!(is_same(SchemaType::Protobuf, text, &other), same, "{other}");
        }
    }

    #[test]
    fn annotations_of_a_json_schema_do_not_count() {
        let field =
            |rest: &str| format!(r#"{{"type":"object","properties":{{"title":{{"type":"string"{rest}}}}}}}"#);
        let cases = [
            (field(""), field(r#","title":"x","default":"","connect.index":1"#), true),
            (field(""), field("").replace("string", "integer"), false),
            (field(""), field("").replace("\"title\"", "\"name\""), false),
            (r#"{"oneOf":[{"type":"null"}]}"#.into(), r#"{"oneOf":[{"type":"string"}]}"#.into(), false),
            ("no JSON".into(), "no JSON".into(), false),
        ];
        for (one, other, same) in cases {
            assert_eq!(is_same(SchemaType::Json, &one, &other), same, "{one} and {other}");
        }
    }
}
