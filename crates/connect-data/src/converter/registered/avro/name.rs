//! Names in Avro schemas.

use std::fmt;

/// A name that Avro's Java library does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Avro does not allow the name {0:?}: it must begin with a letter or an underscore, followed by letters, \
     digits and underscores"
)]
pub struct NameError(pub String);

/// Name of a record: a simple name, with or without a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// Part before the last period.
    pub namespace: Option<String>,
    /// Part after the last period.
    pub simple: String,
}

impl Name {
    /// Splits a Connect schema's name at its last period (`AvroData.splitName`); periods at the end are ignored.
    pub(super) fn split(full: &str, scrub: bool) -> Result<Self, NameError> {
        let parts: Vec<String> =
            full.trim_end_matches('.').split('.').map(|part| scrubbed(part, scrub)).collect();
        let (simple, namespace) = parts.split_last().ok_or_else(|| NameError(full.to_owned()))?;
        let namespace = (!namespace.is_empty()).then(|| namespace.join("."));
        Ok(Self { namespace, simple: checked(simple.clone())? })
    }

    /// Returns the form of the name that refers to it within the namespace `enclosing`.
    pub(super) fn qualified(&self, enclosing: Option<&str>) -> String {
        match &self.namespace {
            Some(namespace) if Some(namespace.as_str()) != enclosing => {
                format!("{namespace}.{}", self.simple)
            }
            _ => self.simple.clone(),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.qualified(None))
    }
}

/// Returns the name of a field.
pub(super) fn field_name(name: &str, scrub: bool) -> Result<String, NameError> {
    checked(scrubbed(name, scrub))
}

/// Applies `scrub.invalid.names`: percent-encodes as in a form, replaces invalid characters by underscores, and puts an `x`
/// before a leading digit.
fn scrubbed(name: &str, scrub: bool) -> String {
    if !scrub {
        return name.to_owned();
    }
    let mut clean = String::with_capacity(name.len());
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        clean.push('x');
    }
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' => clean.push(char::from(byte)),
            // Form encoding leaves these, or writes a space as a plus sign.
            b' ' | b'-' | b'.' | b'*' => clean.push('_'),
            other => clean.push_str(&format!("_{other:02X}")),
        }
    }
    clean
}

/// Returns the name if Avro allows it. Java checks UTF-16 code units, none of which is a letter beyond the BMP.
fn checked(name: String) -> Result<String, NameError> {
    let is_letter = |c: char| c == '_' || c.is_alphabetic() && u32::from(c) <= 0xFFFF;
    let begins_well = name.chars().next().is_some_and(is_letter);
    if begins_well && name.chars().all(|c| is_letter(c) || c.is_numeric()) {
        Ok(name)
    } else {
        Err(NameError(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(full: &str, scrub: bool) -> Result<(Option<String>, String), NameError> {
        Name::split(full, scrub).map(|name| (name.namespace, name.simple))
    }

    #[test]
    fn names_are_split_at_the_last_point() {
        let cases = [
            ("payload", None, "payload"),
            ("payload.a.b", Some("payload.a"), "b"),
            ("my-srv.public.outbox.Order.Value", Some("my-srv.public.outbox.Order"), "Value"),
            ("a..b", Some("a."), "b"),
            ("a.b..", Some("a"), "b"),
        ];
        for (full, namespace, simple) in cases {
            assert_eq!(split(full, false), Ok((namespace.map(str::to_owned), simple.to_owned())), "{full}");
        }
    }

    #[test]
    fn names_that_avro_does_not_take_are_refused() {
        for name in ["", "a b", "1a", "a-b", "a😀", "srv.Order-Item"] {
            assert!(split(name, false).is_err(), "{name}");
        }
        for name in ["_", "né", "a1", "日本"] {
            assert_eq!(field_name(name, false), Ok(name.to_owned()));
        }
    }

    #[test]
    fn scrubbing_leaves_only_what_avro_takes() {
        let cases = [
            ("a b", "a_b"),
            ("Order-Item", "Order_Item"),
            ("1a", "x1a"),
            ("é", "_C3_A9"),
            ("a/~*", "a_2F_7E_"),
            ("plain_1", "plain_1"),
        ];
        for (name, expected) in cases {
            assert_eq!(field_name(name, true), Ok(expected.to_owned()), "{name}");
        }
        assert_eq!(split("my-srv.1.Value", true), Ok((Some("my_srv.x1".into()), "Value".into())));
    }
}
