//! Paths of fields.

use super::structs;
use crate::{Refused, Schema, Value};

use crate::transform::settings::Settings;

/// Path of one field: of the struct itself, or with `field.syntax.version=V2` of a nested one
/// (`org.apache.kafka.connect.transforms.field.SingleFieldPath`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::transform) struct FieldPath {
    steps: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
enum Syntax {
    V1,
    V2,
}

impl FieldPath {
    /// Reads a required path, and the version of its syntax.
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>, option: &str) -> Result<Self, Refused> {
        let versions = [("V1", Syntax::V1), ("V2", Syntax::V2)];
        let syntax = settings.one_of("field.syntax.version", &versions, Syntax::V1);
        let text = settings.required(option)?;
        match syntax {
            Syntax::V1 => Ok(Self { steps: vec![text] }),
            Syntax::V2 => {
                let steps = steps(&text)
                    .ok_or_else(|| settings.refuse(option, "a backtick is not closed by another one"))?;
                Ok(Self { steps })
            }
        }
    }

    /// Returns the positions of the fields on the path, the last of them the field itself; none when one is missing.
    pub(in crate::transform) fn positions(&self, schema: &Schema) -> Option<Vec<usize>> {
        let mut current = schema;
        let mut positions = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let position = structs::position(current, step)?;
            current = &structs::fields(current).get(position)?.schema;
            positions.push(position);
        }
        Some(positions)
    }
}

impl std::fmt::Display for FieldPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.steps.join("."))
    }
}

/// Takes the value at a path. A null on the path results in null.
pub(in crate::transform) fn take_at<'a>(value: Value<'a>, positions: &[usize]) -> Value<'a> {
    positions.iter().fold(value, |value, position| match value {
        Value::Struct(mut values) => structs::take(&mut values, *position),
        _ => Value::Null,
    })
}

/// Splits a path at its dots; none when a backtick is not closed. A name between backticks may contain dots; a backtick in
/// such a name needs a backslash before it if a dot follows.
fn steps(path: &str) -> Option<Vec<String>> {
    let mut steps = Vec::new();
    let mut rest = path;
    loop {
        let behind = match rest.strip_prefix('`') {
            Some(quoted) => {
                let (step, behind) = quoted_step(quoted)?;
                steps.push(step);
                behind
            }
            None => match rest.split_once('.') {
                Some((step, behind)) => {
                    steps.push(step.to_owned());
                    Some(behind)
                }
                None => {
                    steps.push(rest.to_owned());
                    None
                }
            },
        };
        match behind {
            Some(behind) => rest = behind,
            None => return Some(steps),
        }
    }
}

/// Returns a name up to its closing backtick, and the rest behind the dot that follows it.
fn quoted_step(quoted: &str) -> Option<(String, Option<&str>)> {
    let mut step = String::new();
    let mut rest = quoted;
    loop {
        let (before, behind) = rest.split_once('`')?;
        let is_escaped = before.ends_with('\\');
        match (behind.strip_prefix('.'), is_escaped) {
            (Some(_), true) => {
                step.push_str(before.strip_suffix('\\')?);
                step.push('`');
            }
            (Some(next), false) => {
                step.push_str(before);
                return Some((step, Some(next)));
            }
            (None, false) if behind.is_empty() => {
                step.push_str(before);
                return Some((step, None));
            }
            (None, true) if behind.is_empty() => return None,
            (None, _) => {
                step.push_str(before);
                step.push('`');
            }
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_split_as_kafka_splits_them() {
        let cases: &[(&str, Option<&[&str]>)] = &[
            ("", Some(&[""])),
            ("a", Some(&["a"])),
            ("a.b.c", Some(&["a", "b", "c"])),
            ("a.", Some(&["a", ""])),
            ("`a.b`.c", Some(&["a.b", "c"])),
            ("a.`b.c`", Some(&["a", "b.c"])),
            ("a`b.c", Some(&["a`b", "c"])),
            ("`a`b.c`", Some(&["a`b.c"])),
            ("`a\\`.b`.c", Some(&["a`.b", "c"])),
            ("`a", None),
            ("`a\\`", None),
        ];
        for (path, expected) in cases {
            let expected = expected.map(|steps| steps.iter().map(|step| (*step).to_owned()).collect());
            assert_eq!(steps(path), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_split_or_refused(path in "[a.`\\\\]{0,12}") {
            let _steps = steps(&path);
        }
    }
}
