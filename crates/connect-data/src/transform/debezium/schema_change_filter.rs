//! Transform `SchemaChangeEventFilter`.

use crate::Refused;
use crate::source_record::SourceRecord;
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::settings::Settings;

const OPTION: &str = "schema.change.event.exclude.list";
const CHANGES: [&str; 5] = ["CREATE", "ALTER", "DROP", "TRUNCATE", "DATABASE"];

/// Transform `SchemaChangeEventFilter`, which drops schema change events. There are none for PostgreSQL, so all records
/// pass.
#[derive(Debug)]
pub(in crate::transform) struct SchemaChangeEventFilter;

impl SchemaChangeEventFilter {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let names = settings.required_list(OPTION)?;
        if names.iter().all(|name| CHANGES.contains(&name.as_str())) {
            return Ok(Self);
        }
        let reason = format!("it must be a list of {}, in capitals", CHANGES.join(", "));
        Err(settings.refuse(OPTION, reason))
    }
}

impl Transform for SchemaChangeEventFilter {
    fn apply<'a>(&'a self, record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        Ok(Some(record))
    }

    fn shares_headers(&self, _record: &SourceRecord<'_>) -> bool {
        true
    }
}
