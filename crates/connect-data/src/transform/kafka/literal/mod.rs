//! Parser of InsertHeader's `value.literal`, equal to `Values.parseString` of Kafka Connect 4.

mod common;
mod number;
#[cfg(test)]
mod tests;
mod tokens;

use std::sync::Arc;

use common::Common;
use number::number;
use tokens::{Tokens, is_blank, trimmed};

use crate::java::date_format::DateFormat;
use crate::java::digits::with_ascii_digits;
use crate::source_record::Datum;
use crate::{Kind, Schema, Value};

const DATE: &str = "org.apache.kafka.connect.data.Date";
const TIME: &str = "org.apache.kafka.connect.data.Time";
const TIMESTAMP: &str = "org.apache.kafka.connect.data.Timestamp";

/// Levels of lists and maps inside each other.
const NESTING_MAX: usize = 100;

/// Reads a literal: null, a boolean, a number of the smallest type that fits, a date, time or timestamp, a list or a map;
/// anything else is a string. What follows a complete value at the end of the literal is ignored, as in Kafka.
pub(in crate::transform) fn parse(text: &str) -> Result<Datum<'static>, &'static str> {
    let mut parser = Parser { tokens: Tokens::new(text), depth: 0 };
    if let Some(word) = WORDS.into_iter().find(|word| trimmed(text) == *word) {
        return Ok(word_value(word));
    }
    match parser.collection() {
        Ok(Some(collection)) => return Ok(collection),
        Ok(None) => {}
        Err(Failure::NoValue) => parser.tokens.rewind(0),
        Err(Failure::Refused(reason)) => return Err(reason),
    }
    let token = parser.tokens.next();
    if is_blank(token) {
        return Ok(string(token));
    }
    match parser.scalar(trimmed(token)) {
        Ok(scalar) => Ok(scalar),
        Err(Failure::NoValue) => Ok(string(text)),
        Err(Failure::Refused(reason)) => Err(reason),
    }
}

/// Texts that are values of their own, unless they are in quotes.
const WORDS: [&str; 3] = ["null", "true", "false"];

fn word_value(word: &str) -> Datum<'static> {
    if word == "null" { Datum::NULL } else { typed(Kind::Boolean, Value::Bool(word == "true")) }
}

fn string(text: &str) -> Datum<'static> {
    typed(Kind::String, Value::Str(text.to_owned().into()))
}

fn typed(kind: Kind, value: Value<'static>) -> Datum<'static> {
    Datum::new(Arc::new(Schema::new(kind)), value)
}

/// Reason why no value was read.
enum Failure {
    /// The tokens are no value: the whole literal is a string.
    NoValue,
    /// Kafka would read a value that is not available here.
    Refused(&'static str),
}

struct Parser<'t> {
    tokens: Tokens<'t>,
    depth: usize,
}

impl Parser<'_> {
    /// Reads an item of a list, or a key or value of a map.
    fn nested(&mut self) -> Result<Datum<'static>, Failure> {
        if self.tokens.is_at_end() {
            return Ok(Datum::NULL);
        }
        if self.tokens.accept("\"") {
            return Ok(self.quoted());
        }
        for word in WORDS {
            if self.tokens.accept(word) {
                return Ok(word_value(word));
            }
        }
        if let Some(collection) = self.collection()? {
            return Ok(collection);
        }
        let token = self.tokens.next();
        if is_blank(token) {
            return Ok(string(token));
        }
        self.scalar(trimmed(token))
    }

    /// Reads a list or a map, if one begins here.
    fn collection(&mut self) -> Result<Option<Datum<'static>>, Failure> {
        let is_list = self.tokens.accept("[");
        if !is_list && !self.tokens.accept("{") {
            return Ok(None);
        }
        if self.depth >= NESTING_MAX {
            return Err(Failure::Refused(
                "lists and maps are nested too deeply: at most 100 levels are read",
            ));
        }
        self.depth = self.depth.saturating_add(1);
        let collection = if is_list { self.list() } else { self.map() };
        self.depth = self.depth.saturating_sub(1);
        collection.map(Some)
    }

    fn list(&mut self) -> Result<Datum<'static>, Failure> {
        let (mut common, mut items) = (Common::default(), Vec::new());
        while !self.tokens.is_at_end() {
            if self.tokens.accept("]") {
                return common::list(common, items).ok_or(Failure::NoValue);
            }
            if self.tokens.accept(",") {
                return Err(Failure::NoValue);
            }
            let item = self.nested()?;
            common.add(item.schema);
            items.push(item.value);
            if !self.tokens.is_next("]") && !self.tokens.accept(",") {
                return Err(Failure::NoValue);
            }
        }
        Err(Failure::NoValue)
    }

    fn map(&mut self) -> Result<Datum<'static>, Failure> {
        let (mut keys, mut values, mut entries) = (Common::default(), Common::default(), Vec::new());
        while !self.tokens.is_at_end() {
            if self.tokens.accept("}") {
                return common::map([keys, values], entries).ok_or(Failure::NoValue);
            }
            if self.tokens.accept(",") {
                return Err(Failure::NoValue);
            }
            let key = self.nested()?;
            if key.value.is_null() || !self.tokens.accept(":") {
                return Err(Failure::NoValue);
            }
            let value = self.nested()?;
            keys.add(key.schema);
            values.add(value.schema);
            common::put(&mut entries, key.value, value.value);
            // Kafka reads entries without commas between them.
            self.tokens.accept(",");
        }
        Err(Failure::NoValue)
    }

    /// Reads a text in quotes, behind the first quote: a date, time or timestamp, or a string. Its backslashes stay. White space
    /// between two of the characters that end a token is lost, as in Kafka.
    fn quoted(&mut self) -> Datum<'static> {
        let mut content = String::new();
        while !self.tokens.is_at_end() && !self.tokens.accept("\"") {
            content.push_str(self.tokens.next());
        }
        temporal(&content).unwrap_or_else(|| string(&content))
    }

    /// Reads a number, date, time or timestamp that begins with a token.
    fn scalar(&mut self, token: &str) -> Result<Datum<'static>, Failure> {
        let digits = with_ascii_digits(token);
        let is_digit = digits.starts_with(|first: char| first.is_ascii_digit());
        if is_digit && let Some(moment) = self.moment(token) {
            return Ok(moment);
        }
        if !is_digit && !digits.starts_with(['+', '-']) {
            return Err(Failure::NoValue);
        }
        number(&digits).map_err(Failure::Refused)?.ok_or(Failure::NoValue)
    }

    /// Reads a time or a timestamp, which the colons divide into five tokens, or a single token with escaped colons.
    fn moment(&mut self, token: &str) -> Option<Datum<'static>> {
        let position = self.tokens.position();
        let moment = self.tokens.next_joined(4).and_then(|rest| temporal(&format!("{token}{rest}")));
        if moment.is_none() {
            self.tokens.rewind(position);
        }
        moment.or_else(|| temporal(token))
    }
}

fn temporal(text: &str) -> Option<Datum<'static>> {
    let unescaped = text.replace("\\:", ":");
    let (pattern, kind, name) = match unescaped.encode_utf16().count() {
        10 => ("yyyy-MM-dd", Kind::Int32, DATE),
        13 => ("HH:mm:ss.SSS'Z'", Kind::Int32, TIME),
        24 => ("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", Kind::Int64, TIMESTAMP),
        _ => return None,
    };
    let millis = DateFormat::compile(pattern)?.parse(&with_ascii_digits(&unescaped))?;
    Some(Datum::new(Arc::new(Schema::named(kind, name)), Value::Date(millis)))
}
