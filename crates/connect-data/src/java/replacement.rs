//! Replacements of `java.util.regex.Matcher.replaceFirst`.

use fancy_regex::{Captures, Regex};

/// A replacement whose groups exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Group(usize),
}

/// Syntax error of a replacement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplacementError {
    /// A group name that the expression does not have.
    #[error("the expression has no group named {0:?}")]
    UnknownName(String),
    /// A group number that the expression does not have.
    #[error("the expression has no group {0}")]
    UnknownNumber(usize),
    /// A `$` without a group.
    #[error("a $ must be followed by a group, as $1 or ${{name}}; write \\$ for the character itself")]
    BareDollar,
    /// A backslash at the end.
    #[error("a backslash must be followed by the character that it stands for")]
    BareBackslash,
}

impl Replacement {
    /// Reads `$1`, `${name}` and `\x`.
    ///
    /// # Errors
    /// When a group does not exist, or `$` or `\` stands alone.
    pub fn parse(text: &str, regex: &Regex) -> Result<Self, ReplacementError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            match character {
                '\\' => literal.push(rest.next().ok_or(ReplacementError::BareBackslash)?),
                '$' => {
                    let (group, behind) = group(rest.as_str(), regex)?;
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                    parts.push(Part::Group(group));
                    rest = behind.chars();
                }
                other => literal.push(other),
            }
        }
        parts.push(Part::Literal(literal));
        Ok(Self(parts))
    }

    /// Appends the replacement for a match. A group that did not participate in it is empty.
    pub fn expand(&self, captures: &Captures<'_, str>, out: &mut String) {
        for part in &self.0 {
            out.push_str(match part {
                Part::Literal(text) => text,
                Part::Group(group) => captures.get(*group).map_or("", |found| found.as_str()),
            });
        }
    }
}

/// Returns the group behind a `$`, and the text behind the group.
fn group<'t>(text: &'t str, regex: &Regex) -> Result<(usize, &'t str), ReplacementError> {
    if let Some(named) = text.strip_prefix('{') {
        let (name, behind) = named.split_once('}').ok_or(ReplacementError::BareDollar)?;
        let index = regex.capture_names().position(|known| known == Some(name));
        return Ok((index.ok_or_else(|| ReplacementError::UnknownName(name.to_owned()))?, behind));
    }
    numbered(text, regex.captures_len())
}

/// Reads a group number, with all digits that still make an existing group and at least one. Returns it with the text
/// behind it.
fn numbered(text: &str, groups: usize) -> Result<(usize, &str), ReplacementError> {
    let digit =
        |text: &str| text.chars().next().and_then(|c| c.to_digit(10)).and_then(|d| usize::try_from(d).ok());
    let mut number = digit(text).ok_or(ReplacementError::BareDollar)?;
    if number >= groups {
        return Err(ReplacementError::UnknownNumber(number));
    }
    let mut rest = text.get(1..).unwrap_or_default();
    while let Some(next) = digit(rest) {
        let longer = number.saturating_mul(10).saturating_add(next);
        if longer >= groups {
            break;
        }
        number = longer;
        rest = rest.get(1..).unwrap_or_default();
    }
    Ok((number, rest))
}
