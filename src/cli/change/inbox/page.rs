//! Details of a key or an id.

use serde::Serialize;
use serde_json::{Value, json};

use super::parked::Parked;
use super::reason::Reason;
use crate::cli::shell::text::{clean, object, shown};
use crate::cli::shell::time;

/// Events of a text; JSON has all.
const SHOWN_MAX: usize = 20;

/// State of a key or an id, with its parked events.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    pub(super) consumer: String,
    /// Sources for which an id is remembered.
    pub(super) remembered: Vec<Remembered>,
    /// Numbers of a key, in each topic.
    pub(super) sequences: Vec<KeySequence>,
    pub(super) events: Vec<Shown>,
}

#[derive(Debug, Serialize)]
pub(super) struct Remembered {
    pub(super) source: String,
    pub(super) applied_at: i64,
}

#[derive(Debug, Serialize)]
pub(super) struct KeySequence {
    pub(super) topic: String,
    pub(super) next: i64,
    pub(super) first: Option<i64>,
    pub(super) dead_letters: i64,
}

/// A parked event.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    at: String,
    reason: Reason,
    key: Value,
    id: Option<String>,
    attempts: i32,
    /// Number of times that a process ended in the middle of it.
    crashes: i32,
    next_attempt: i64,
    error: Option<String>,
    number: Option<i64>,
    next_number: Option<i64>,
    timestamp: Option<i64>,
    parked_at: i64,
    /// Names; pairs of names and values with --value.
    headers: Vec<Value>,
    value_bytes: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(skip)]
    shown: Texts,
}

/// Bytes of an event as they are printed.
#[derive(Debug)]
struct Texts {
    key: String,
    headers: Vec<String>,
    value: Option<String>,
}

impl Shown {
    /// Makes the page of an event, with its `value` if values are requested.
    pub(super) fn new(event: &Parked, value: Option<&Option<Vec<u8>>>) -> Self {
        let bytes = value.map(Option::as_deref);
        let headers = || event.event.headers.iter();
        let texts = Texts {
            key: shown(event.key()),
            headers: headers()
                .map(|header| match bytes {
                    Some(_) => format!("{}: {}", clean(&header.name), shown(header.value.as_deref())),
                    None => clean(&header.name),
                })
                .collect(),
            value: bytes.map(shown),
        };
        Self {
            at: event.place.to_string(),
            reason: event.reason(),
            key: object(event.key()),
            id: event.id(),
            attempts: event.attempts,
            crashes: event.begun,
            next_attempt: event.not_before_ms,
            error: event.error.clone(),
            number: event.number,
            next_number: event.next,
            timestamp: event.event.timestamp_ms,
            parked_at: event.parked_at_ms,
            headers: headers()
                .map(|header| match bytes {
                    Some(_) => json!([header.name, object(header.value.as_deref())]),
                    None => Value::from(header.name.as_str()),
                })
                .collect(),
            value_bytes: event.value_bytes,
            value: bytes.map(object),
            shown: texts,
        }
    }

    fn text(&self) -> String {
        let mut page = format!("{}  {}\n", clean(&self.at), self.reason.name());
        let next =
            matches!(self.reason, Reason::Retry | Reason::Crash).then(|| time::show(self.next_attempt));
        let waits_for = self.next_number.filter(|_| self.reason == Reason::MissingNumber);
        let lines = [
            ("key", Some(self.shown.key.clone())),
            ("id", self.id.as_deref().map(clean)),
            ("attempts", Some(self.attempts.to_string())),
            ("crashes", Some(self.crashes).filter(|crashes| *crashes > 0).map(|crashes| crashes.to_string())),
            ("next", next),
            ("error", self.error.as_deref().map(clean)),
            ("number", self.number.map(|number| number.to_string())),
            ("waits for", waits_for.map(|number| format!("number {number}"))),
            ("timestamp", self.timestamp.map(time::show)),
            ("parked", Some(time::show(self.parked_at))),
        ];
        let mut line = |name: &str, text: &str| page.push_str(&format!("  {name:<10} {text}\n"));
        for (name, text) in lines {
            if let Some(text) = text {
                line(name, &text);
            }
        }
        self.shown.headers.iter().for_each(|header| line("header", header));
        match (&self.shown.value, self.value_bytes) {
            (Some(value), _) => line("value", value),
            (None, Some(bytes)) => line("value", &format!("{bytes} bytes (--value shows them)")),
            (None, None) => line("value", "null"),
        }
        page
    }
}

impl Page {
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for Remembered { source, applied_at } in &self.remembered {
            let source = if source.is_empty() { "any source".to_owned() } else { clean(source) };
            text.push_str(&format!("applied {} (source {source})\n", time::show(*applied_at)));
        }
        for KeySequence { topic, next, first, dead_letters } in &self.sequences {
            let first = first.map_or_else(String::new, |first| format!(", first number {first}"));
            let topic = clean(topic);
            text.push_str(&format!(
                "next number {next}{first}, dead numbers {dead_letters} (topic {topic})\n"
            ));
        }
        text.extend(self.events.iter().take(SHOWN_MAX).map(Shown::text));
        if let Some(more @ 1..) = self.events.len().checked_sub(SHOWN_MAX) {
            text.push_str(&format!("and {more} more (--json has all)\n"));
        }
        text
    }
}
