//! Arrays.

use std::borrow::Cow;

use crate::Value;
use crate::column::format::Format;

/// An element of an array's text.
enum Element<'a> {
    Null,
    Text(Cow<'a, str>),
    /// Nested array.
    Nested,
}

/// Reads an array. A nested array becomes null: Connect has no multidimensional arrays, and Debezium has none either.
/// Returns `None` if the text is malformed, or if an element is null and must not be.
pub(in crate::column) fn decode<'a>(
    text: &'a str,
    element: &Format,
    nullable: bool,
    delimiter: char,
) -> Option<Value<'a>> {
    let body = match text.split_once('=') {
        // `[0:2]={1,2,3}`: bounds that are not the usual ones.
        Some((bounds, body)) if bounds.starts_with('[') => body,
        _ => text,
    };
    let mut rest = body.strip_prefix('{')?.strip_suffix('}')?;
    let mut values = Vec::new();
    while !rest.is_empty() {
        let (found, behind) = next(rest, delimiter)?;
        values.push(match found {
            Element::Null | Element::Nested if !nullable => return None,
            Element::Null | Element::Nested => Value::Null,
            Element::Text(Cow::Borrowed(text)) => element.decode(text)?,
            Element::Text(Cow::Owned(text)) => element.decode(&text)?.into_owned(),
        });
        rest = match behind.strip_prefix(delimiter) {
            Some("") => return None,
            Some(behind) => behind,
            None if behind.is_empty() => behind,
            None => return None,
        };
    }
    Some(Value::Array(values))
}

/// Splits off the first element, and returns it with the text behind it.
fn next(text: &str, delimiter: char) -> Option<(Element<'_>, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (element, behind) = quoted_text(quoted)?;
        return Some((Element::Text(element), behind));
    }
    if text.starts_with('{') {
        let end = end_of_nested(text)?;
        return Some((Element::Nested, text.get(end..)?));
    }
    let end = text.find(delimiter).unwrap_or(text.len());
    let (element, behind) = text.split_at_checked(end)?;
    let element = match element {
        "NULL" => Element::Null,
        other => Element::Text(Cow::Borrowed(other)),
    };
    Some((element, behind))
}

/// Reads up to the closing quote, and returns the text without its backslashes and the text behind the quote.
pub(super) fn quoted_text(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = text.find(['"', '\\'])?;
    if let Some(behind) = text.get(end..)?.strip_prefix('"') {
        return Some((Cow::Borrowed(text.get(..end)?), behind));
    }
    let mut unescaped = String::with_capacity(text.len());
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((Cow::Owned(unescaped), text.get(at + 1..)?)),
            '\\' => unescaped.push(characters.next()?.1),
            other => unescaped.push(other),
        }
    }
    None
}

/// Returns the byte position behind the nested array that begins the text.
fn end_of_nested(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut quoted = false;
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => {
                let _escaped = bytes.next();
            }
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_split_as_the_server_joins_them() {
        let texts = |items: &[Option<&'static str>]| {
            Some(Value::Array(items.iter().map(|item| item.map_or(Value::Null, Value::str)).collect()))
        };
        let cases: &[(&str, Option<Value<'_>>)] = &[
            ("{}", texts(&[])),
            ("{a,b c,NULL}", texts(&[Some("a"), Some("b c"), None])),
            (
                r#"{a,NULL,"b \"q\"","NULL",""}"#,
                texts(&[Some("a"), None, Some("b \"q\""), Some("NULL"), Some("")]),
            ),
            (r#"{"{\"a\": \"\\\\,}\"}"}"#, texts(&[Some(r#"{"a": "\\,}"}"#)])),
            ("[0:1]={x,y}", texts(&[Some("x"), Some("y")])),
            (r#"{{a,"}"},{c,d}}"#, texts(&[None, None])),
            ("", None),
            ("{", None),
            ("{a,}", None),
            ("{\"a}", None),
            ("{\"a\"b}", None),
            ("{{a}", None),
        ];
        for (text, value) in cases {
            assert_eq!(decode(text, &Format::Text, true, ','), *value, "{text}");
        }
        assert_eq!(decode("{a,NULL}", &Format::Text, false, ','), None);
    }
}
