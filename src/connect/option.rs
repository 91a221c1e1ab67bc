use crate::error::{Class, Diagnose};

/// An option whose value cannot be worked with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}={value}: {reason}")]
pub struct OptionError {
    /// The option's key, as its module names it.
    pub key: String,
    /// What was given.
    pub value: String,
    /// Why it cannot be used, with what can.
    pub reason: String,
}

/// Where option values come from: a key as its module names it, the text the user gave for it.
pub(crate) type Lookup<'l> = &'l dyn Fn(&str) -> Option<String>;

impl OptionError {
    pub(crate) fn new(key: impl Into<String>, value: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into(), reason: reason.into() }
    }
}

impl Diagnose for OptionError {
    fn class(&self) -> Class {
        Class::Config
    }
}

/// A boolean as Debezium and Connect accept it: `true` or `false`, in any case.
pub(crate) fn boolean(lookup: Lookup<'_>, key: &str, default: bool) -> Result<bool, OptionError> {
    let Some(text) = lookup(key) else { return Ok(default) };
    match text.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(OptionError::new(key, text, "it must be true or false")),
    }
}

/// One of several names, in any case; the first is the default.
pub(crate) fn one_of<T: Copy>(
    lookup: Lookup<'_>,
    key: &str,
    names: &[(&'static str, T)],
    default: T,
) -> Result<T, OptionError> {
    let Some(text) = lookup(key) else { return Ok(default) };
    let wanted = text.trim();
    let found = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        OptionError::new(key, text, format!("it must be one of {}", all.join(", ")))
    })
}
