//! States of dead letters: a record of the state topic for each one that is done.
//!
//! Its key is the dead letter's place, `topic/partition/offset`, and its value a JSON object with a digest of the
//! dead letter: when the topic is deleted and created again, other dead letters have the same places.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::letter::Digest;

/// Outcome of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Sent to this topic.
    Replayed {
        to: String,
    },
    Discarded,
}

/// A run that settles dead letters.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) id: String,
    pub(super) at_ms: i64,
}

/// States of the dead letters of one topic that are done.
#[derive(Debug, Default)]
pub(super) struct States(HashMap<(i32, i64), (String, Outcome)>);

impl Outcome {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Replayed { .. } => "replayed",
            Self::Discarded => "discarded",
        }
    }

    /// Returns the value for the state topic.
    pub(super) fn value(&self, letter: Digest, run: &Run) -> String {
        let to = match self {
            Self::Replayed { to } => Some(to),
            Self::Discarded => None,
        };
        let mut value = json!({
            "letter": letter.to_string(),
            "outcome": self.name(),
            "at": run.at_ms,
            "run": run.id,
        });
        if let (Some(to), Some(object)) = (to, value.as_object_mut()) {
            object.insert("to".to_owned(), Value::from(to.as_str()));
        }
        value.to_string()
    }
}

impl States {
    /// Reads a record of the state topic. Those of another dead-letter topic, and unreadable ones, are
    /// ignored.
    pub(super) fn take(&mut self, topic: &str, key: &[u8], value: Option<&[u8]>) {
        let Some(place) = place(topic, key) else { return };
        match value.and_then(settled) {
            Some(settled) => drop(self.0.insert(place, settled)),
            None => drop(self.0.remove(&place)),
        }
    }

    /// Returns the outcome of the dead letter at this place, if it is still the same one.
    pub(super) fn of(&self, partition: i32, offset: i64, letter: Digest) -> Option<Outcome> {
        let (digest, outcome) = self.0.get(&(partition, offset))?;
        (*digest == letter.to_string()).then(|| outcome.clone())
    }

    /// Returns the places before these begins of the partitions: their dead letters are gone.
    pub(super) fn outlived(&self, begins: &HashMap<i32, i64>) -> Vec<(i32, i64)> {
        let is_gone =
            |(partition, offset): &&(i32, i64)| begins.get(partition).is_some_and(|low| offset < low);
        self.0.keys().filter(is_gone).copied().collect()
    }
}

/// Returns the key for the state topic.
pub(super) fn key(topic: &str, partition: i32, offset: i64) -> String {
    format!("{topic}/{partition}/{offset}")
}

fn place(topic: &str, key: &[u8]) -> Option<(i32, i64)> {
    let rest = std::str::from_utf8(key).ok()?.strip_prefix(topic)?.strip_prefix('/')?;
    let (partition, offset) = rest.split_once('/')?;
    Some((partition.parse().ok()?, offset.parse().ok()?))
}

fn settled(value: &[u8]) -> Option<(String, Outcome)> {
    let value: Value = serde_json::from_slice(value).ok()?;
    let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
    let outcome = match text("outcome")?.as_str() {
        "replayed" => Outcome::Replayed { to: text("to")? },
        "discarded" => Outcome::Discarded,
        _ => return None,
    };
    Some((text("letter")?, outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_while_the_dead_letter_is_the_same() {
        let run = Run { id: "r".to_owned(), at_ms: 7 };
        let (letter, other) = (Digest::of_key(b"a"), Digest::of_key(b"b"));
        for outcome in [Outcome::Replayed { to: "orders/1".to_owned() }, Outcome::Discarded] {
            let (mut states, value) = (States::default(), outcome.value(letter, &run));
            states.take("dead", key("dead", 2, 17).as_bytes(), Some(value.as_bytes()));
            assert_eq!(states.of(2, 17, letter), Some(outcome));
            assert_eq!((states.of(2, 17, other), states.of(2, 18, letter)), (None, None));
            let begins = |low| HashMap::from([(2, low)]);
            assert_eq!([states.outlived(&begins(17)), states.outlived(&begins(18))], [vec![], vec![(2, 17)]]);
            states.take("dead", key("dead", 2, 17).as_bytes(), None);
            assert_eq!(states.of(2, 17, letter), None);
        }
    }

    #[test]
    fn what_is_of_others_is_skipped() {
        let mut states = States::default();
        let value = Outcome::Discarded.value(Digest::of_key(b"a"), &Run { id: String::new(), at_ms: 0 });
        for key in ["dead", "dead/", "dead/1", "dead/1/x", "dead2/1/1", "other/1/1", ""] {
            states.take("dead", key.as_bytes(), Some(value.as_bytes()));
        }
        for value in ["", "{}", "no JSON", r#"{"outcome":"burnt","letter":"00"}"#] {
            states.take("dead", b"dead/1/1", Some(value.as_bytes()));
        }
        assert!(states.0.is_empty());
    }
}
