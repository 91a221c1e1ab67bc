//! `hstore`.

use std::borrow::Cow;

use super::array::quoted_text;
use crate::column::options::HstoreHandling;
use crate::converter::json_text::{NonBmp, write_string};
use crate::{Kind, Schema, Value};

type Entry<'a> = (Cow<'a, str>, Option<Cow<'a, str>>);

/// Returns the schema of an `hstore`.
pub(in crate::column) fn schema(handling: HstoreHandling) -> Schema {
    match handling {
        HstoreHandling::Json => Schema::named(Kind::String, "io.debezium.data.Json"),
        HstoreHandling::Map => {
            let (key, value) = (Schema::new(Kind::String), Schema::new(Kind::String).optional(true));
            Schema::new(Kind::Map(key.into(), value.into()))
        }
    }
}

/// Reads `"k1"=>"v1", "k2"=>NULL`.
pub(in crate::column) fn decode(text: &str, handling: HstoreHandling) -> Option<Value<'_>> {
    let entries = in_java_order(parse(text)?);
    Some(match handling {
        HstoreHandling::Json => Value::Str(Cow::Owned(json(&entries)?)),
        HstoreHandling::Map => Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| (Value::Str(key), value.map_or(Value::Null, Value::Str)))
                .collect(),
        ),
    })
}

fn parse(text: &str) -> Option<Vec<Entry<'_>>> {
    let mut entries = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, behind) = quoted_text(rest.strip_prefix('"')?)?;
        let behind = behind.strip_prefix("=>")?;
        let (value, behind) = match behind.strip_prefix("NULL") {
            Some(behind) => (None, behind),
            None => {
                let (value, behind) = quoted_text(behind.strip_prefix('"')?)?;
                (Some(value), behind)
            }
        };
        entries.push((key, value));
        rest = match behind.strip_prefix(", ") {
            Some(behind) => behind,
            None if behind.is_empty() => behind,
            None => return None,
        };
    }
    Some(entries)
}

/// Sorts entries into the iteration order of `java.util.HashMap`, which is the order in Debezium's output: by bucket of
/// a table that has at least 16 buckets and is at most three quarters full.
fn in_java_order(mut entries: Vec<Entry<'_>>) -> Vec<Entry<'_>> {
    let capacity = (entries.len() * 4).div_ceil(3).next_power_of_two().max(16);
    let mask = u32::try_from(capacity - 1).unwrap_or(u32::MAX);
    entries.sort_by_key(|(key, _)| {
        let hash =
            key.encode_utf16().fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
        (hash ^ hash >> 16) & mask
    });
    entries
}

fn json(entries: &[Entry<'_>]) -> Option<String> {
    let mut out = vec![b'{'];
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(&mut out, key, NonBmp::Raw);
        out.push(b':');
        match value {
            Some(value) => write_string(&mut out, value, NonBmp::Raw),
            None => out.extend(b"null"),
        }
    }
    out.push(b'}');
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hstores_become_json_in_java_order() {
        let cases = [
            (r#""k1"=>"v1", "k2"=>NULL"#, Some(r#"{"k1":"v1","k2":null}"#)),
            ("", Some("{}")),
            (r#""a\"b"=>"c\\d😀""#, Some(r#"{"a\"b":"c\\d😀"}"#)),
            // "Aa" and "BB" share a hash, "b" is in bucket 98 % 16 = 2, "r" (114 % 16 = 2) behind it.
            (r#""r"=>"1", "b"=>"2", "a"=>"3""#, Some(r#"{"a":"3","r":"1","b":"2"}"#)),
            (r#""a"=>"#, None),
            (r#"a=>b"#, None),
            (r#""a"=>"b","#, None),
        ];
        for (text, json) in cases {
            assert_eq!(decode(text, HstoreHandling::Json), json.map(Value::str), "{text}");
        }
    }
}
