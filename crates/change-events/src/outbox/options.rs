//! Options of the EventRouter.

use super::expand::JsonExpansion;
use super::table::placement::{self, AdditionalField, Placement};
use super::topic::TopicRouting;
use connect_data::trace::{SpanRules, Tracer};
use connect_data::{OptionError, OptionReader, Refused};

/// The EventRouter's options. The defaults are Debezium's.
#[derive(Debug, Clone)]
pub struct EventRouterOptions {
    /// `table.op.invalid.behavior` (warn): the reaction to an UPDATE of an outbox row.
    pub invalid_operation: InvalidOperation,
    /// `table.field.event.id` (id): the column of the header `id`.
    pub event_id: MappedColumn,
    /// `table.field.event.key` (aggregateid): the column of the record's key.
    pub event_key: MappedColumn,
    /// `table.field.event.type` (type): documents a column; it is in the event only where
    /// `table.fields.additional.placement` puts it.
    pub event_type: MappedColumn,
    /// `table.field.event.timestamp`: the column of the record's timestamp; the default is the time of
    /// reading.
    pub event_timestamp: Option<String>,
    /// `table.field.event.payload` (payload): the column of the record's value.
    pub payload: MappedColumn,
    /// `table.fields.additional.placement`: further columns.
    pub additional: Vec<AdditionalField>,
    /// `table.field.additional.missing` (error), or as a boolean before 3.6
    /// `table.fields.additional.error.on.missing` (true): the reaction to a placed column that the table
    /// lacks.
    pub additional_missing: AdditionalMissing,
    /// `table.field.event.schema.version`: the column of the value schema's version.
    pub schema_version: Option<String>,
    /// `table.expand.json.payload` (false): expansion of JSON text in the payload to a structure.
    pub expand_json: Option<JsonExpansion>,
    /// `route.by.field` (aggregatetype): the column that decides the topic.
    pub route_by: MappedColumn,
    /// `route.topic.regex` (`(?<routedByValue>.*)`) and `route.topic.replacement` (`outbox.event.${routedByValue}`).
    pub topic: TopicRouting,
    /// `route.tombstone.on.empty.payload` (false): a NULL or blank payload becomes a tombstone.
    pub tombstone_on_empty_payload: bool,
    /// `tracing.*`: the rules for the spans of rows.
    pub spans: SpanRules,
    /// The tracer; without one there are no spans.
    pub tracer: Option<Tracer>,
}

/// `table.op.invalid.behavior`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidOperation {
    /// A warning is logged, and the relay continues.
    Warn,
    /// An error is logged, and the relay continues.
    Error,
    /// The relay stops.
    Fatal,
}

/// `table.field.additional.missing`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdditionalMissing {
    /// The table is refused.
    Error,
    /// The column is ignored.
    Ignore,
}

/// A column that an option names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedColumn {
    /// The option's key.
    pub option: &'static str,
    /// The column.
    pub column: String,
    /// True if the user named the column, false if it is the default.
    pub explicit: bool,
}

impl EventRouterOptions {
    /// Reads the options. `lookup` returns the text of a key.
    ///
    /// # Errors
    /// As [`Self::read`]; the first error is returned.
    pub fn parse(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, OptionError> {
        OptionReader::alone(lookup, Self::read)
    }

    /// Reads the options, by their names behind `transforms.<alias>.`. Errors are the values that Debezium
    /// refuses, and those that it detects only at the first row: an unknown placement, a group that the
    /// expression does not have, a name that is twice in the envelope.
    ///
    /// # Errors
    /// When the options of the topic are invalid.
    pub fn read(options: &mut OptionReader<'_>) -> Result<Self, Refused> {
        let operations = [
            ("warn", InvalidOperation::Warn),
            ("error", InvalidOperation::Error),
            ("fatal", InvalidOperation::Fatal),
        ];
        Ok(Self {
            invalid_operation: options.one_of(
                "table.op.invalid.behavior",
                &operations,
                InvalidOperation::Warn,
            ),
            event_id: mapped(options, "table.field.event.id", "id"),
            event_key: mapped(options, "table.field.event.key", "aggregateid"),
            event_type: mapped(options, "table.field.event.type", "type"),
            event_timestamp: column(options, "table.field.event.timestamp"),
            payload: mapped(options, "table.field.event.payload", "payload"),
            additional: additional(options),
            additional_missing: additional_missing(options),
            schema_version: column(options, "table.field.event.schema.version"),
            expand_json: JsonExpansion::read(options),
            route_by: mapped(options, "route.by.field", "aggregatetype"),
            tombstone_on_empty_payload: options.boolean("route.tombstone.on.empty.payload", false),
            spans: SpanRules::new(
                column(options, SpanRules::FIELD),
                options.filled(SpanRules::OPERATION),
                options.boolean(SpanRules::ONLY_WITH_CONTEXT, true),
            ),
            tracer: None,
            // Last, because only this one ends the reading.
            topic: TopicRouting::read(options)?,
        })
    }
}

impl EventRouterOptions {
    /// Reports whether the value is an envelope of the payload and further columns.
    pub(super) fn is_enveloped(&self) -> bool {
        self.additional.iter().any(|field| field.placement == Placement::Envelope)
    }
}

fn mapped(options: &mut OptionReader<'_>, option: &'static str, default: &str) -> MappedColumn {
    let given = column(options, option);
    let explicit = given.is_some();
    MappedColumn { option, column: given.unwrap_or_else(|| default.to_owned()), explicit }
}

fn column(options: &mut OptionReader<'_>, key: &'static str) -> Option<String> {
    let text = options.text(key)?;
    if text.trim().is_empty() {
        options.refuse(key, text, "it must name a column");
        return None;
    }
    Some(text.trim().to_owned())
}

fn additional(options: &mut OptionReader<'_>) -> Vec<AdditionalField> {
    let Some(text) = options.text("table.fields.additional.placement") else { return Vec::new() };
    options.keep(placement::parse(&text)).unwrap_or_default()
}

fn additional_missing(options: &mut OptionReader<'_>) -> AdditionalMissing {
    let behaviors = [("error", AdditionalMissing::Error), ("ignore", AdditionalMissing::Ignore)];
    let before_3_6 = match options.boolean("table.fields.additional.error.on.missing", true) {
        true => AdditionalMissing::Error,
        false => AdditionalMissing::Ignore,
    };
    options.one_of("table.field.additional.missing", &behaviors, before_3_6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[(&str, &str)]) -> Result<EventRouterOptions, OptionError> {
        let find =
            |key: &str| options.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned());
        EventRouterOptions::parse(&find)
    }

    #[test]
    fn nothing_given_means_debeziums_defaults() {
        let options = parse(&[]).unwrap();
        let columns =
            [&options.event_id, &options.event_key, &options.event_type, &options.payload, &options.route_by];
        let names: Vec<&str> = columns.iter().map(|mapped| mapped.column.as_str()).collect();
        assert_eq!(names, ["id", "aggregateid", "type", "payload", "aggregatetype"]);
        assert!(columns.iter().all(|mapped| !mapped.explicit));
        assert_eq!(options.invalid_operation, InvalidOperation::Warn);
        assert_eq!(options.additional_missing, AdditionalMissing::Error);
        assert!(options.expand_json.is_none() && !options.tombstone_on_empty_payload);
    }

    #[test]
    fn both_spellings_of_a_missing_column_are_read() {
        let missing = |options: &[(&str, &str)]| parse(options).unwrap().additional_missing;
        let (old, new) = ("table.fields.additional.error.on.missing", "table.field.additional.missing");
        assert_eq!(missing(&[(old, "false")]), AdditionalMissing::Ignore);
        assert_eq!(missing(&[(new, "IGNORE")]), AdditionalMissing::Ignore);
        assert_eq!(missing(&[(old, "false"), (new, "error")]), AdditionalMissing::Error);
    }

    /// With what `EventRouterTest.shouldFailOnInvalidConfigurationForTopicRegex`,
    /// `EventRouterTest.shouldFailOnInvalidConfigurationForAdditionalFields`,
    /// `EventRouterTest.shouldFailOnInvalidConfigurationForAdditionalFieldsEmpty` and
    /// `EventRouterTest.shouldFailOnInvalidConfigurationForOperationBehavior` refuse.
    #[test]
    fn what_debezium_refuses_is_refused() {
        let cases = [
            ("table.op.invalid.behavior", "invalidOption", "must be one of warn, error, fatal"),
            ("table.fields.additional.placement", "", "is not column:placement"),
            ("table.fields.additional.placement", "type", "is not column:placement"),
            ("route.tombstone.on.empty.payload", "yes", "must be true or false"),
            ("table.json.payload.null.behavior", "zzz", "must be one of ignore, optional_bytes"),
            ("route.topic.regex", " [[a-z]", "not a regular expression"),
            ("table.expand.json.lossless", "true", "table.expand.json.payload=true must be set"),
            ("route.by.field", " ", "must name a column"),
            ("field.name.adjustment.mode", "latin", "one of none, avro, avro_unicode"),
        ];
        for (key, value, reason) in cases {
            let error = parse(&[(key, value)]).unwrap_err();
            assert_eq!(error.key, key);
            assert!(error.to_string().contains(reason), "{error}");
        }
        assert_eq!(
            parse(&[("table.op.invalid.behavior", "FATAL")]).unwrap().invalid_operation,
            InvalidOperation::Fatal
        );
    }
}
