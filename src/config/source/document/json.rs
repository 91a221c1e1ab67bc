//! JSON, with the line of each key.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use super::{Member, Node};

/// Parses a document. A key that is written twice in one object is an error.
pub(in crate::config::source) fn parse(text: &str) -> serde_json::Result<Node> {
    let text = text.trim_start_matches('\u{feff}');
    let lines = Lines { text, at: &Cell::new(0), line: &Cell::new(1) };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let node = lines.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(node)
}

/// The text, and the place up to which its keys were found: keys are visited in the order of the text.
#[derive(Clone, Copy)]
struct Lines<'t> {
    text: &'t str,
    at: &'t Cell<usize>,
    line: &'t Cell<usize>,
}

impl Lines<'_> {
    /// Returns the line of the next `"key" :`. A key that is written with escapes is not found.
    fn next_line(self, key: &str) -> Option<usize> {
        let quoted = format!("\"{key}\"");
        let rest = self.text.get(self.at.get()..)?;
        let is_key = |at: usize| {
            rest.get(at.saturating_add(quoted.len())..).is_some_and(|rest| rest.trim_start().starts_with(':'))
        };
        let (found, _) = rest.match_indices(&quoted).find(|(at, _)| is_key(*at))?;
        let passed = rest.get(..found)?.matches('\n').count();
        self.line.set(self.line.get().saturating_add(passed));
        self.at.set(self.at.get().saturating_add(found).saturating_add(quoted.len()));
        Some(self.line.get())
    }
}

impl<'de> DeserializeSeed<'de> for Lines<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Lines<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of configuration keys")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Number::from_f64(value).map_or(Node::Null, |number| Node::Text(number.to_string())))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut seen = HashSet::new();
        let mut members = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            // serde_json's number of any precision is a map of one member.
            if key == "$serde_json::private::Number" {
                return map.next_value::<Value>().map(|number| {
                    Node::Text(number.as_str().map_or_else(|| number.to_string(), str::to_owned))
                });
            }
            if !seen.insert(key.clone()) {
                return Err(Error::custom(format!("the key {key:?} is written twice")));
            }
            let line = self.next_line(&key);
            members.push(Member { key, line, value: map.next_value_seed(self)? });
        }
        Ok(Node::Map(members))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(node: &Node) -> Vec<String> {
        let shown = |member: &Member| {
            let value = match &member.value {
                Node::Text(text) => text.clone(),
                other => format!("[{}]", lines(other).join(" ")),
            };
            format!("{}={value}@{}", member.key, member.line.unwrap_or(0))
        };
        node.members().iter().map(shown).chain(node.items().iter().flat_map(lines)).collect()
    }

    #[test]
    fn every_key_has_its_own_line() {
        let text = "[{\"a\": \"\\\"b\\\":\",\n\"b\": 1.10,\n \"c\": {\"a\": true}},\n{\"a\"\n: null, \"d\": 12345678901234567890123}]";
        let expected = ["a=\"b\":@1", "b=1.10@2", "c=[a=true@3]@3", "a=[]@4", "d=12345678901234567890123@5"];
        assert_eq!(lines(&parse(text).unwrap()), expected);
    }

    #[test]
    fn mistakes_have_their_place() {
        let cases = [
            ("{\"a\":\"1\",\n\"a\":\"2\"}", "the key \"a\" is written twice at line 2"),
            ("{\"name\":\"n\",\"config\":{\"a\":1,\"a\":1}}", "the key \"a\" is written twice"),
            ("{\"a\":1", "EOF"),
            ("{} {}", "trailing characters"),
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
            let node = parse(&text).unwrap();
            let back = node.members().iter().map(|m| (m.key.clone(), m.value.text().unwrap().to_owned())).collect();
            prop_assert_eq!(map, back);
        }
    }
}
