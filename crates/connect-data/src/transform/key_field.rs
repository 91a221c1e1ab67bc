//! The field that distinguishes the keys of several tables.

use std::borrow::Cow;

use super::error::Problem;
use super::expression::Renaming;
use super::settings::Settings;
use crate::Refused;

/// Default name of the field, except for `ToLogicalTopicRouter`.
pub(crate) const PHYSICAL_TABLE: &str = "__dbz__physicalTableIdentifier";
/// Default name of the field for `ToLogicalTopicRouter`.
pub(super) const SOURCE: &str = "__dbz__sourceIdentifier";

/// Field that distinguishes the keys of several tables with a common topic: `key.field.name`, and the rule for its content,
/// which is derived from the table's own topic.
#[derive(Debug)]
pub(crate) struct KeyField {
    name: String,
    content: Option<Renaming>,
}

impl KeyField {
    /// Reads the field, whose default name is `name`; none when `key.enforce.uniqueness` is false.
    pub(crate) fn read(settings: &mut Settings<'_, '_>, name: &str) -> Result<Option<Self>, Refused> {
        let is_unique = settings.boolean("key.enforce.uniqueness", true);
        let name = settings.text("key.field.name").unwrap_or_else(|| name.to_owned());
        // A replacement alone is ignored, as by Debezium.
        let [regex, _] = ["key.field.regex", "key.field.replacement"].map(|option| settings.text(option));
        let content = match regex.filter(|text| !text.trim().is_empty()) {
            Some(_) => Some(Renaming::read(settings, "key.field.regex", "key.field.replacement")?),
            None => None,
        };
        Ok(is_unique.then_some(Self { name, content }))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the content of the field for a table with this topic.
    pub(crate) fn content<'a>(&self, topic: &Cow<'a, str>) -> Result<Cow<'a, str>, Problem> {
        let content = match &self.content {
            Some(renaming) => renaming.rename(topic)?,
            None => None,
        };
        Ok(content.map_or_else(|| topic.clone(), Cow::Owned))
    }
}
