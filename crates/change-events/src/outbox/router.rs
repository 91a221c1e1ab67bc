//! The EventRouter.

use std::fmt;
use std::sync::Arc;

use super::error::{BindError, TopicProblem};
use super::expand::LOSSLESS;
use super::message::{MessageOutbox, MessagePrefixes};
use super::options::EventRouterOptions;
use super::predicate::Condition;
use super::table::OutboxTable;
use super::table::binding::{Binding, twin_of};
use super::topic::TopicError;
use super::topic::name::check_topic_name;
use connect_data::TopicNaming;
use connect_data::column::{ColumnDescription, ColumnOptions, ColumnRules};
use connect_data::converter::registered::SchemaIds;
use connect_data::converter::{Converter, Converters, Destination};
use connect_data::{Heartbeat, Kind, NameAdjustment, OptionError, OptionReader, Schema, Value};
use pg_replication::pgoutput::Relation;

/// A route value that no row has. It shows the text around the route value in a topic's name, which is the
/// same for all values.
const UNUSED_ROUTE: &str = "Q9nobody9Q";

/// The EventRouter (`io.debezium.transforms.outbox.EventRouter`), with the converters behind it.
#[derive(Debug, Clone)]
pub struct EventRouter(Arc<Router>);

/// The parts of records that depend on the connector.
#[derive(Debug, Clone)]
pub struct EventContext {
    /// The prefix of the transform's options in the user's configuration, for errors: `transforms.outbox.`.
    pub option_prefix: String,
    /// `topic.prefix`: the first part of the names of value schemas, and the header
    /// `__debezium.context.connectorLogicalName`.
    pub topic_prefix: String,
    /// `topic.delimiter` (`.`): separates the parts of the connector's own topics, and so of schema names.
    pub topic_delimiter: String,
    /// `topic.naming.strategy`: the naming of the connector's own topics of tables.
    pub naming: TopicNaming,
    /// The id of this run for the `__debezium.context` headers; `None` if they are disabled
    /// (`extended.headers.enabled=false`).
    pub run_id: Option<String>,
    /// The options for the values of columns.
    pub columns: ColumnOptions,
    /// `transforms.<alias>.predicate`: the condition of the events that the router routes; without one it
    /// routes all.
    pub condition: Option<Condition>,
    /// The rules that exclude or change columns.
    pub rules: ColumnRules,
    /// `schema.name.adjustment.mode`, for the names of value schemas.
    pub schema_names: NameAdjustment,
    /// `field.name.adjustment.mode`: the options name columns as it adjusts them.
    pub field_names: NameAdjustment,
}

/// A column that is used because the default one does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assumption {
    /// The table, with its schema.
    pub table: String,
    /// The option that names the column.
    pub option: &'static str,
    /// The column that does not exist.
    pub absent: String,
    /// The column that is used instead.
    pub used: String,
}

/// The settings to which a table is bound.
#[derive(Debug)]
pub(super) struct Router {
    pub(super) options: EventRouterOptions,
    pub(super) converters: Converters,
    pub(super) context: EventContext,
    /// The headers of each record.
    pub(super) headers: Vec<ContextHeader>,
    /// True if no transform follows the router, so that its records go to the converters.
    pub(super) is_last: bool,
}

/// A converter, and the option that names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedConverter<'c> {
    pub(super) option: &'static str,
    pub(super) converter: &'c Converter,
}

/// A converted header of each record.
#[derive(Debug)]
pub(super) struct ContextHeader {
    pub(super) name: &'static str,
    pub(super) value: Option<Vec<u8>>,
}

impl Router {
    pub(super) const fn key_converter(&self) -> NamedConverter<'_> {
        NamedConverter { option: "key.converter", converter: &self.converters.key }
    }

    pub(super) const fn value_converter(&self) -> NamedConverter<'_> {
        NamedConverter { option: "value.converter", converter: &self.converters.value }
    }

    pub(super) const fn header_converter(&self) -> NamedConverter<'_> {
        NamedConverter { option: "header.converter", converter: &self.converters.header }
    }
}

impl EventRouter {
    /// Builds the transform from its parts.
    ///
    /// # Errors
    /// When the header converter does not accept text, which the context headers need, or lossless JSON would
    /// need a schema.
    pub fn new(
        options: EventRouterOptions,
        converters: Converters,
        context: EventContext,
    ) -> Result<Self, OptionError> {
        if options.expand_json.is_some_and(|expansion| expansion.lossless)
            && converters.value.writes_schemas()
        {
            let reason = format!(
                "a schema cannot describe it: set value.converter.schemas.enable=false, or take {LOSSLESS} out"
            );
            return Err(OptionError::new("value.converter", converters.value.name(), reason));
        }
        let headers = context_headers(&context, &converters.header)?;
        Ok(Self(Arc::new(Router { options, converters, context, headers, is_last: true })))
    }

    /// Reports whether records have span headers, which differ each time a record is made.
    #[must_use]
    pub fn has_spans(&self) -> bool {
        self.0.options.tracer.is_some()
    }

    /// Builds a router among other transforms. The converters need not accept its records.
    #[must_use]
    pub fn among_transforms(
        options: EventRouterOptions,
        converters: Converters,
        context: EventContext,
    ) -> Self {
        Self(Arc::new(Router { options, converters, context, headers: Vec::new(), is_last: false }))
    }

    /// Returns the outbox of logical messages that `DecodeLogicalDecodingMessageContent` has decoded.
    /// `options` are that transform's own.
    #[must_use]
    pub fn read_messages(&self, prefixes: MessagePrefixes, options: &mut OptionReader<'_>) -> MessageOutbox {
        MessageOutbox::read(Arc::clone(&self.0), prefixes, options)
    }

    /// Returns the same outbox. `lookup` returns the text of an option.
    ///
    /// # Errors
    /// When an option cannot be used; the first such option is returned.
    pub fn messages(
        &self,
        prefixes: MessagePrefixes,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<MessageOutbox, OptionError> {
        OptionReader::alone(lookup, |options| Ok(self.read_messages(prefixes, options)))
    }

    /// Returns the connector's heartbeat to `topic`, which the router does not change.
    #[must_use]
    pub fn heartbeat(&self, topic: String) -> Heartbeat {
        Heartbeat::new(topic, &self.0.context.topic_prefix, &self.0.converters)
    }

    /// Reports whether the router's predicate selects the rows of a table. Debezium sends the rows of other
    /// tables as change events.
    #[must_use]
    pub fn acts_on(&self, schema: &str, table: &str) -> bool {
        let Some(condition) = &self.0.context.condition else { return true };
        let topic = self.0.context.source_topic(schema, table);
        condition.holds(&topic, self.0.headers.iter().map(|header| header.name))
    }

    /// Reports whether the router's predicate selects logical messages.
    #[must_use]
    pub fn acts_on_messages(&self) -> bool {
        let condition = self.0.context.condition.as_ref();
        condition.is_none_or(|condition| condition.holds(&self.message_topic(), std::iter::empty()))
    }

    /// Returns the topic of Debezium's connector for logical messages, before they are routed.
    #[must_use]
    pub fn message_topic(&self) -> String {
        format!("{}.message", self.0.context.topic_prefix)
    }

    /// Returns the options.
    pub(super) fn options(&self) -> &EventRouterOptions {
        &self.0.options
    }

    /// Returns the converters of key, value and headers.
    #[must_use]
    pub fn converters(&self) -> &Converters {
        &self.0.converters
    }

    /// Finds the columns of a table. A column without description has the description of its pgoutput
    /// relation message.
    ///
    /// # Errors
    /// When columns are missing or of an unsuitable type; the error lists all of them.
    pub fn bind(&self, relation: &Relation, columns: &[ColumnDescription]) -> Result<OutboxTable, BindError> {
        Binding::new(Arc::clone(&self.0), relation, columns).finish()
    }

    /// Returns the columns that a table must have, each with the option that names it.
    #[must_use]
    pub fn required_columns(&self) -> Vec<(&'static str, &str)> {
        let options = &self.0.options;
        let mapped = [&options.event_id, &options.event_key, &options.payload, &options.route_by];
        let mut columns: Vec<_> =
            mapped.iter().map(|mapped| (mapped.option, mapped.column.as_str())).collect();
        columns.extend(
            options.event_timestamp.iter().map(|column| ("table.field.event.timestamp", column.as_str())),
        );
        columns.extend(
            options.schema_version.iter().map(|column| ("table.field.event.schema.version", column.as_str())),
        );
        let additional = options.additional.iter().map(|field| field.column.as_str());
        columns.extend(additional.map(|column| ("table.fields.additional.placement", column)));
        columns
    }

    /// Reports whether a table with these columns can be an outbox, judged by names alone.
    #[must_use]
    pub fn fits(&self, columns: &[String]) -> bool {
        self.missing(columns).is_empty()
    }

    /// Returns the required columns that are not among these, each with the option that names it, judged by
    /// names alone.
    #[must_use]
    pub fn missing(&self, columns: &[String]) -> Vec<(&'static str, &str)> {
        let names = self.0.context.field_names;
        let has = |wanted: &str| columns.iter().any(|column| names.field_name(column) == wanted);
        let mut required = self.required_columns();
        required.retain(|(_, column)| !has(column) && !twin_of(column).is_some_and(has));
        required
    }

    /// Returns the topic of a route value.
    ///
    /// # Errors
    /// When Kafka does not allow its name, or `route.topic.regex` exceeds the backtracking limit.
    pub fn topic(&self, route_value: &str) -> Result<String, TopicProblem> {
        let topic = self.0.options.topic.topic(route_value)?;
        check_topic_name(&topic).map_err(TopicError::from)?;
        Ok(topic.into_owned())
    }

    /// Returns true if some route value may lead to this topic; always if the router changes more than one place of a value.
    #[must_use]
    pub fn may_lead_to(&self, topic: &str) -> bool {
        let Ok(unused) = self.topic(UNUSED_ROUTE) else { return true };
        match unused.split_once(UNUSED_ROUTE) {
            Some((before, after)) => topic.starts_with(before) && topic.ends_with(after),
            None => topic == unused,
        }
    }
}

impl EventContext {
    /// Returns the topic of Debezium's connector for a table's rows, before they are routed. Characters that
    /// Kafka does not allow become underscores.
    #[must_use]
    pub fn source_topic(&self, schema: &str, table: &str) -> String {
        self.naming.topic(&self.topic_prefix, &self.topic_delimiter, schema, table)
    }

    /// Returns the name and the value of the additional field of a change event's key, if tables share a
    /// topic.
    pub fn key_field(&self, schema: &str, table: &str) -> Option<(&str, String)> {
        self.naming.key_field(&self.topic_prefix, &self.topic_delimiter, schema, table)
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, option, absent, used } = self;
        write!(f, "table {table} has no column \"{absent}\"; {option} is read as \"{used}\"")
    }
}

/// Converts the headers of `io.debezium.connector.common.DebeziumHeaderProducer`.
fn context_headers(context: &EventContext, converter: &Converter) -> Result<Vec<ContextHeader>, OptionError> {
    let Some(run_id) = &context.run_id else { return Ok(Vec::new()) };
    let headers = [
        ("__debezium.context.connectorLogicalName", context.topic_prefix.as_str()),
        ("__debezium.context.taskId", "0"),
        ("__debezium.context.connectorName", "postgresql"),
        ("__debezium.context.runId", run_id),
    ];
    let schema = Schema::new(Kind::String);
    let convert = |(name, text)| {
        let mut scratch = Vec::new();
        let mut into = Destination { scratch: &mut scratch, topic: "", schemas: &mut SchemaIds::default() };
        let encoded = converter.convert(Some(&schema), &Value::str(text), &mut into);
        let refuse = |error| OptionError::new("header.converter", converter.name(), format!("{error}"));
        Ok(ContextHeader { name, value: encoded.map_err(refuse)?.resolve(&scratch).map(<[u8]>::to_vec) })
    };
    headers.into_iter().map(convert).collect()
}
