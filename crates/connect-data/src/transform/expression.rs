//! Java expressions for topics' names.

use std::borrow::Cow;

use fancy_regex::Regex;

use super::error::Problem;
use super::fields::schemas::PerText;
use super::settings::Settings;
use crate::Refused;
use crate::java;
use crate::java::replacement::Replacement;

/// Java expression that is matched against topics' names.
#[derive(Debug)]
pub(super) struct Expression {
    whole: Regex,
    verdicts: PerText<bool>,
}

/// Java expression, and the replacement of the text that it matches.
#[derive(Debug)]
pub(crate) struct Renaming {
    find: Regex,
    whole: Regex,
    replacement: Replacement,
    names: PerText<Option<String>>,
}

impl Expression {
    /// Reads a required expression.
    pub(super) fn read(settings: &mut Settings<'_, '_>, option: &str) -> Result<Self, Refused> {
        let (_, whole) = compile(settings, option)?;
        Ok(Self { whole, verdicts: PerText::default() })
    }

    /// Reports whether the whole of a name matches.
    pub(super) fn matches(&self, name: &str) -> Result<bool, Problem> {
        self.verdicts.get(name, |name| self.whole.is_match(name).map_err(|_| Problem::Expression))
    }
}

impl Renaming {
    /// Reads an expression and its replacement; both are required.
    pub(crate) fn read(
        settings: &mut Settings<'_, '_>,
        expression: &str,
        replacement: &str,
    ) -> Result<Self, Refused> {
        let compiled = compile(settings, expression);
        let text = settings.required(replacement);
        let (find, whole) = compiled?;
        let replacement = Replacement::parse(&text?, &find)
            .map_err(|error| settings.refuse(replacement, error.to_string()))?;
        Ok(Self { find, whole, replacement, names: PerText::default() })
    }

    /// Returns the new name; none when the expression does not match the whole of the old one.
    pub(crate) fn rename(&self, name: &str) -> Result<Option<String>, Problem> {
        self.names.get(name, |name| self.replaced(name))
    }

    fn replaced(&self, name: &str) -> Result<Option<String>, Problem> {
        if !self.whole.is_match(name).map_err(|_| Problem::Expression)? {
            return Ok(None);
        }
        // Like Java's `replaceFirst`, which searches for the expression once more, anywhere in the name.
        let Some(captures) = self.find.captures(name).map_err(|_| Problem::Expression)? else {
            return Ok(None);
        };
        let range = captures.get(0).map(|found| found.range()).unwrap_or_default();
        let mut renamed = name.get(..range.start).unwrap_or_default().to_owned();
        self.replacement.expand(&captures, &mut renamed);
        renamed.push_str(name.get(range.end..).unwrap_or_default());
        Ok(Some(renamed))
    }

    /// Renames a record's topic, and returns whether it matched.
    pub(super) fn route(&self, topic: &mut Cow<'_, str>) -> Result<bool, Problem> {
        let Some(renamed) = self.rename(topic)? else { return Ok(false) };
        *topic = Cow::Owned(renamed);
        Ok(true)
    }
}

fn compile(settings: &mut Settings<'_, '_>, option: &str) -> Result<(Regex, Regex), Refused> {
    let text = settings.required(option)?;
    java::regex::compile(&text)
        .map_err(|error| settings.refuse(option, format!("it is no regular expression: {error}")))
}
