use std::fmt;
use std::sync::Arc;

use super::binding::{Binding, twin_of};
use super::error::{BindError, TopicProblem};
use super::expand::LOSSLESS;
use super::message::{MessageOutbox, MessagePrefixes};
use super::options::EventRouterOptions;
use super::predicate::Condition;
use super::table::OutboxTable;
use super::topic::TopicError;
use super::topic_name::check_topic_name;
use crate::connect::TopicNaming;
use crate::connect::column::{ColumnDescription, ColumnOptions, ColumnRules};
use crate::connect::converter::registered::SchemaIds;
use crate::connect::converter::{Converter, Converters, Destination};
use crate::connect::{Heartbeat, Kind, NameAdjustment, OptionError, OptionReader, Schema, Value};
use crate::pgoutput::Relation;

/// The EventRouter (`io.debezium.transforms.outbox.EventRouter`), with the converters behind it.
#[derive(Debug, Clone)]
pub struct EventRouter(Arc<Router>);

/// What the records tell of the connector.
#[derive(Debug, Clone)]
pub struct EventContext {
    /// What stands before the transform's options in the user's configuration, for errors: `transforms.outbox.`.
    pub option_prefix: String,
    /// `topic.prefix`: begins the names of value schemas, and is the header `__debezium.context.connectorLogicalName`.
    pub topic_prefix: String,
    /// `topic.delimiter` (`.`): stands between the parts of the connector's own topics, and so in schema names.
    pub topic_delimiter: String,
    /// `topic.naming.strategy`: what the connector's own topics of tables are named.
    pub naming: TopicNaming,
    /// The id of this run for the `__debezium.context` headers; `None` leaves them out
    /// (`extended.headers.enabled=false`).
    pub run_id: Option<String>,
    /// How columns are shown.
    pub columns: ColumnOptions,
    /// `transforms.<alias>.predicate`: on which events the router acts; without one on all.
    pub condition: Option<Condition>,
    /// Which are, and which otherwise.
    pub rules: ColumnRules,
    /// `schema.name.adjustment.mode`, for the names of value schemas.
    pub schema_names: NameAdjustment,
    /// `field.name.adjustment.mode`: the options name columns as it leaves them.
    pub field_names: NameAdjustment,
}

/// A column that was taken because the default one is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assumption {
    /// The table, with its schema.
    pub table: String,
    /// The option that names the column.
    pub option: &'static str,
    /// The column that is not there.
    pub absent: String,
    /// The column that is used instead.
    pub used: String,
}

/// What a table is bound to.
#[derive(Debug)]
pub(super) struct Router {
    pub(super) options: EventRouterOptions,
    pub(super) converters: Converters,
    pub(super) context: EventContext,
    /// The headers that every record has.
    pub(super) headers: Vec<ContextHeader>,
    /// Whether the converters are given what the router makes: no transform stands behind it.
    pub(super) is_last: bool,
}

/// A header that every record has, converted.
#[derive(Debug)]
pub(super) struct ContextHeader {
    pub(super) name: &'static str,
    pub(super) value: Option<Vec<u8>>,
}

impl EventRouter {
    /// Puts the transform together.
    ///
    /// # Errors
    /// When the header converter does not take text, which the context headers are, or lossless JSON would need a schema.
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

    /// Whether records tell spans, which are others each time a record is made.
    #[must_use]
    pub(crate) fn has_spans(&self) -> bool {
        self.0.options.tracer.is_some()
    }

    /// One that stands among other transforms: what it makes need not be what the converters take.
    #[must_use]
    pub(crate) fn among_transforms(
        options: EventRouterOptions,
        converters: Converters,
        context: EventContext,
    ) -> Self {
        Self(Arc::new(Router { options, converters, context, headers: Vec::new(), is_last: false }))
    }

    /// The outbox that logical messages are, once `DecodeLogicalDecodingMessageContent` has decoded them. `options` are
    /// that transform's own.
    #[must_use]
    pub fn read_messages(&self, prefixes: MessagePrefixes, options: &mut OptionReader<'_>) -> MessageOutbox {
        MessageOutbox::read(Arc::clone(&self.0), prefixes, options)
    }

    /// The same; `lookup` gives the options.
    ///
    /// # Errors
    /// When an option cannot be used; the first one.
    pub fn messages(
        &self,
        prefixes: MessagePrefixes,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<MessageOutbox, OptionError> {
        OptionReader::alone(lookup, |options| Ok(self.read_messages(prefixes, options)))
    }

    /// The connector's heartbeat to `topic`, which the router lets pass.
    #[must_use]
    pub fn heartbeat(&self, topic: String) -> Heartbeat {
        Heartbeat::new(topic, &self.0.context.topic_prefix, &self.0.converters)
    }

    /// Whether the router's predicate lets it act on the rows of a table. Those of other tables Debezium sends as plain
    /// change events.
    #[must_use]
    pub fn acts_on(&self, schema: &str, table: &str) -> bool {
        let Some(condition) = &self.0.context.condition else { return true };
        let topic = self.0.context.source_topic(schema, table);
        condition.holds(&topic, self.0.headers.iter().map(|header| header.name))
    }

    /// Whether the router's predicate lets it act on logical messages.
    #[must_use]
    pub fn acts_on_messages(&self) -> bool {
        let condition = self.0.context.condition.as_ref();
        condition.is_none_or(|condition| condition.holds(&self.message_topic(), std::iter::empty()))
    }

    /// The topic on which Debezium's connector has logical messages, before they are routed.
    #[must_use]
    pub fn message_topic(&self) -> String {
        format!("{}.message", self.0.context.topic_prefix)
    }

    /// The options.
    pub(super) fn options(&self) -> &EventRouterOptions {
        &self.0.options
    }

    /// The converters of key, value and headers.
    #[must_use]
    pub fn converters(&self) -> &Converters {
        &self.0.converters
    }

    /// Finds the columns of a table. A column without description is taken as pgoutput alone describes it.
    ///
    /// # Errors
    /// When columns are missing or of a type that cannot be used; all of them are told at once.
    pub fn bind(&self, relation: &Relation, columns: &[ColumnDescription]) -> Result<OutboxTable, BindError> {
        Binding::new(Arc::clone(&self.0), relation, columns).finish()
    }

    /// The columns that a table must have, each with the option that names it.
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

    /// Whether a table with these columns can be an outbox, as far as names tell.
    #[must_use]
    pub fn fits(&self, columns: &[String]) -> bool {
        self.missing(columns).is_empty()
    }

    /// The columns that a table with these columns lacks, each with the option that names it, as far as names tell.
    #[must_use]
    pub fn missing(&self, columns: &[String]) -> Vec<(&'static str, &str)> {
        let names = self.0.context.field_names;
        let has = |wanted: &str| columns.iter().any(|column| names.field_name(column) == wanted);
        let mut required = self.required_columns();
        required.retain(|(_, column)| !has(column) && !twin_of(column).is_some_and(has));
        required
    }

    /// The topic that a route value leads to.
    ///
    /// # Errors
    /// When it leads to none that Kafka accepts.
    pub fn topic(&self, route_value: &str) -> Result<String, TopicProblem> {
        let topic = self.0.options.topic.topic(route_value)?;
        check_topic_name(&topic).map_err(TopicError::from)?;
        Ok(topic.into_owned())
    }
}

impl EventContext {
    /// The topic that Debezium's connector has for a table's rows before they are routed. An underscore stands for what
    /// Kafka does not take.
    #[must_use]
    pub(crate) fn source_topic(&self, schema: &str, table: &str) -> String {
        self.naming.topic(&self.topic_prefix, &self.topic_delimiter, schema, table)
    }

    /// The field that keys of a table's change events have besides its columns, where tables share a topic, and what it holds.
    pub(crate) fn key_field(&self, schema: &str, table: &str) -> Option<(&str, String)> {
        self.naming.key_field(&self.topic_prefix, &self.topic_delimiter, schema, table)
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, option, absent, used } = self;
        write!(f, "table {table} has no column \"{absent}\"; {option} is taken to mean \"{used}\"")
    }
}

/// The headers of `io.debezium.connector.common.DebeziumHeaderProducer`.
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
