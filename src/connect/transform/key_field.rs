use std::borrow::Cow;

use super::error::Problem;
use super::expression::Renaming;
use super::settings::Settings;
use crate::connect::Refused;

/// How the field is called, but by `ToLogicalTopicRouter`.
pub(in crate::connect) const PHYSICAL_TABLE: &str = "__dbz__physicalTableIdentifier";
/// How `ToLogicalTopicRouter` calls it.
pub(super) const SOURCE: &str = "__dbz__sourceIdentifier";

/// The field by which keys of several tables are told apart that share a topic: `key.field.name`, and what of the table's own
/// topic it holds.
#[derive(Debug)]
pub(in crate::connect) struct KeyField {
    name: String,
    content: Option<Renaming>,
}

impl KeyField {
    /// Reads the field, which is called `name` unless something else is said; none when `key.enforce.uniqueness` is false.
    pub(in crate::connect) fn read(
        settings: &mut Settings<'_, '_>,
        name: &str,
    ) -> Result<Option<Self>, Refused> {
        let is_unique = settings.boolean("key.enforce.uniqueness", true);
        let name = settings.text("key.field.name").unwrap_or_else(|| name.to_owned());
        // A replacement alone is passed over, as Debezium does.
        let [regex, _] = ["key.field.regex", "key.field.replacement"].map(|option| settings.text(option));
        let content = match regex.filter(|text| !text.trim().is_empty()) {
            Some(_) => Some(Renaming::read(settings, "key.field.regex", "key.field.replacement")?),
            None => None,
        };
        Ok(is_unique.then_some(Self { name, content }))
    }

    pub(in crate::connect) fn name(&self) -> &str {
        &self.name
    }

    /// What the field holds for a table with this topic.
    pub(in crate::connect) fn content<'a>(&self, topic: &Cow<'a, str>) -> Result<Cow<'a, str>, Problem> {
        let content = match &self.content {
            Some(renaming) => renaming.rename(topic)?,
            None => None,
        };
        Ok(content.map_or_else(|| topic.clone(), Cow::Owned))
    }
}
