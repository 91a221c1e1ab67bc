//! Filter of printed records.

use super::args::TailArgs;
use crate::cli::shell::text::says;
use crate::kafka::ScannedRecord;

/// The headers in which an event's type usually stands; the EventRouter has it where `table.fields.additional.placement` puts it.
pub(super) const TYPE_HEADERS: [&str; 3] = ["eventType", "event_type", "type"];

/// Filter of the records that are shown.
#[derive(Debug)]
pub(super) struct Filter {
    key: Option<String>,
    event_type: Option<String>,
}

impl Filter {
    pub(super) fn of(args: &TailArgs) -> Self {
        Self { key: args.key.clone(), event_type: args.event_type.clone() }
    }

    /// Returns whether a record with this key is shown.
    pub(super) fn takes(&self, record: &ScannedRecord<'_>, key: Option<&[u8]>) -> bool {
        let key = |wanted: &String| key.is_some_and(|key| says(key, wanted));
        let of_type = |wanted: &String| event_type(record).is_some_and(|found| says(found, wanted));
        self.key.as_ref().is_none_or(key) && self.event_type.as_ref().is_none_or(of_type)
    }
}

/// Returns the event's type, as far as headers have it.
pub(super) fn event_type<'r>(record: &'r ScannedRecord<'_>) -> Option<&'r [u8]> {
    record.headers().find(|header| TYPE_HEADERS.contains(&header.name))?.value
}
