//! Names in Protobuf.

use std::borrow::Cow;

use super::{ProtobufOptions, SchemaError};
use crate::Schema;

/// Prefix of the name of a struct without a name, before its number.
const DEFAULT_NAME: &str = "ConnectDefault";

/// Full name of the top-level message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FullName {
    /// Part before the last period.
    pub(super) package: Option<String>,
    /// Part after the last period.
    pub(super) simple: String,
}

impl FullName {
    /// Returns the name with its package.
    pub(super) fn qualified(&self) -> String {
        match &self.package {
            Some(package) => format!("{package}.{}", self.simple),
            None => self.simple.clone(),
        }
    }
}

/// Splits the name of a schema at its last period; periods at the end are ignored.
pub(super) fn full_name(schema: &Schema, options: ProtobufOptions) -> FullName {
    let name = said(schema).map_or_else(|| default(1), str::to_owned);
    let parts: Vec<Cow<'_, str>> =
        name.trim_end_matches('.').split('.').map(|part| scrubbed(part, options)).collect();
    let Some((simple, package)) = parts.split_last() else { return FullName { package: None, simple: name } };
    let package = (!package.is_empty()).then(|| package.join("."));
    FullName { package, simple: simple.clone().into_owned() }
}

/// Returns the schema's name, if it has one.
pub(super) fn said(schema: &Schema) -> Option<&str> {
    schema.name().filter(|name| !name.is_empty())
}

/// Returns the name of the struct or map without a name that has this number.
pub(super) fn default(number: usize) -> String {
    format!("{DEFAULT_NAME}{number}")
}

/// Applies `scrub.invalid.names`: percent-encodes as in a form, puts an `x` before a leading digit or underscore, then replaces
/// invalid characters by underscores.
pub(super) fn scrubbed(name: &str, options: ProtobufOptions) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic());
    if !options.scrub || name.is_empty() || begins_well && name.bytes().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let mut clean = String::with_capacity(name.len().saturating_add(1));
    for byte in name.bytes() {
        match byte {
            byte if is_plain(byte) => clean.push(char::from(byte)),
            // Form encoding leaves these, or writes a space as a plus sign.
            b' ' | b'-' | b'.' | b'*' => clean.push('_'),
            other => clean.push_str(&format!("_{other:02X}")),
        }
    }
    // An encoded first character begins with a percent sign, before which no `x` is inserted.
    let is_first_kept = name.starts_with(|first: char| first.is_ascii_digit() || first == '_');
    if is_first_kept {
        clean.insert(0, 'x');
    }
    Cow::Owned(clean)
}

/// Returns the name if Protobuf allows it.
pub(super) fn checked(name: String) -> Result<String, SchemaError> {
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if begins_well && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        Ok(name)
    } else {
        Err(SchemaError::ProtobufName(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrubbing_leaves_only_what_protobuf_takes() {
        let scrub =
            ProtobufOptions { scrub: true, wrappers: false, optionals: false, ignore_defaults: false };
        for (name, expected) in [
            ("a b", "a_b"),
            ("a-b", "a_b"),
            ("1a", "x1a"),
            ("_a", "x_a"),
            ("é", "_C3_A9"),
            ("-a", "_a"),
            ("plain_1", "plain_1"),
            ("", ""),
        ] {
            assert_eq!(scrubbed(name, scrub), expected, "{name}");
            assert_eq!(scrubbed(name, ProtobufOptions { scrub: false, ..scrub }), name);
        }
    }
}
