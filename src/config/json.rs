//! The JSON that is posted to Kafka Connect: `{"name": …, "config": {…}}`, or the flat object.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;

use super::file::Entry;

/// What Connect's REST interface adds around a configuration.
const ENVELOPE: [&str; 4] = ["name", "tasks", "type", "initial_state"];

/// Reads a connector's JSON. A `null` counts as unsaid, as it does for Connect.
pub(super) fn parse(text: &str) -> serde_json::Result<Vec<Entry>> {
    let Object(members) = serde_json::from_str(text.trim_start_matches('\u{feff}'))?;
    let enveloped = members.iter().any(|(_, member)| matches!(member, Member::Config(_)));
    let mut entries = Vec::new();
    for (key, member) in members {
        match member {
            Member::Config(Object(inner)) => {
                for (key, member) in inner {
                    entries.extend(entry(text, key, member)?);
                }
            }
            Member::Value(_) if enveloped && key != "name" && ENVELOPE.contains(&key.as_str()) => {}
            Member::Value(_) => entries.extend(entry(text, key, member)?),
        }
    }
    Ok(entries)
}

fn entry(text: &str, key: String, member: Member) -> serde_json::Result<Option<Entry>> {
    let value = match member {
        Member::Value(Value::Null) => return Ok(None),
        Member::Value(Value::String(value)) => value,
        Member::Value(Value::Bool(value)) => value.to_string(),
        Member::Value(Value::Number(value)) => value.to_string(),
        Member::Value(Value::Array(_) | Value::Object(_)) | Member::Config(_) => {
            return Err(Error::custom(format!(
                "the value of {key:?} is neither a string, a number nor a boolean"
            )));
        }
    };
    let line = line_of(text, &key);
    Ok(Some(Entry { key, value, line }))
}

/// The line on which `"key" :` stands; a key that is written with escapes is not found.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let quoted = format!("\"{key}\"");
    let is_key = |at: usize| {
        text.get(at.saturating_add(quoted.len())..).is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    let (at, _) = text.match_indices(&quoted).find(|(at, _)| is_key(*at))?;
    Some(text.get(..at)?.matches('\n').count().saturating_add(1))
}

/// A JSON object whose keys are all different, in the order they were written.
struct Object(Vec<(String, Member)>);

enum Member {
    Config(Object),
    Value(Value),
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of configuration keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut seen = HashSet::new();
        let mut members = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                return Err(Error::custom(format!("the key {key:?} is written twice")));
            }
            let member = match key.as_str() {
                "config" => Member::Config(map.next_value()?),
                _ => Member::Value(map.next_value()?),
            };
            members.push((key, member));
        }
        Ok(Object(members))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<(String, String, Option<usize>)> {
        parse(text).unwrap().into_iter().map(|e| (e.key, e.value, e.line)).collect()
    }

    #[test]
    fn reads_both_shapes_with_lines() {
        let flat =
            "{\n \"slot.name\": \"a\",\n \"database.port\": 5432, \"slot.failover\": true, \"x\": null\n}";
        let expected = vec![
            ("slot.name".into(), "a".into(), Some(2)),
            ("database.port".into(), "5432".into(), Some(3)),
            ("slot.failover".into(), "true".into(), Some(3)),
        ];
        assert_eq!(read(flat), expected);
        let posted = read(
            "{\"name\":\"n\",\"config\":{\n\"name\":\"m\",\"a\":\"name\"},\"tasks\":[],\"type\":\"source\"}",
        );
        let values: Vec<_> = posted.iter().map(|(key, value, _)| format!("{key}={value}")).collect();
        assert_eq!(values, ["name=n", "name=m", "a=name"]);
    }

    #[test]
    fn refuses_what_connect_would_not_take() {
        let cases = [
            ("{\"a\":\"1\",\n\"a\":\"2\"}", "the key \"a\" is written twice at line 2"),
            ("{\"name\":\"n\",\"config\":{\"a\":1,\"a\":1}}", "the key \"a\" is written twice"),
            ("{\"a\":[1]}", "the value of \"a\" is neither"),
            ("{\"config\":{\"config\":{}}}", "the value of \"config\" is neither"),
            ("{\"a\":1", "EOF"),
            ("[]", "expected an object of configuration keys"),
        ];
        for (text, expected) in cases {
            let error = parse(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            drop(parse(&text));
        }

        #[test]
        fn any_map_is_read_back(map in proptest::collection::btree_map("[a-z.]{1,8}x", ".*", 0..8)) {
            let text = serde_json::to_string(&map).unwrap();
            let back = parse(&text).unwrap().into_iter().map(|e| (e.key, e.value)).collect();
            prop_assert_eq!(map, back);
        }
    }
}
