use std::fmt;
use std::sync::Arc;

use super::binding::{Binding, twin_of};
use super::error::{BindError, TopicProblem};
use super::options::EventRouterOptions;
use super::table::OutboxTable;
use super::topic::TopicError;
use super::topic_name::check_topic_name;
use crate::connect::column::{ColumnDescription, ColumnOptions};
use crate::connect::converter::{Converter, Converters};
use crate::connect::{Kind, OptionError, Schema, Value};
use crate::pgoutput::Relation;

/// The EventRouter (`io.debezium.transforms.outbox.EventRouter`), with the converters behind it.
#[derive(Debug, Clone)]
pub struct EventRouter(Arc<Router>);

/// What the records tell of the connector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventContext {
    /// What stands before the transform's options in the user's configuration, for errors: `transforms.outbox.`.
    pub option_prefix: String,
    /// `topic.prefix`: begins the names of value schemas, and is the header `__debezium.context.connectorLogicalName`.
    pub topic_prefix: String,
    /// The id of this run for the `__debezium.context` headers; `None` leaves them out
    /// (`extended.headers.enabled=false`).
    pub run_id: Option<String>,
    /// How columns are shown.
    pub columns: ColumnOptions,
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
    /// When the header converter does not take text, which the context headers are.
    pub fn new(
        options: EventRouterOptions,
        converters: Converters,
        context: EventContext,
    ) -> Result<Self, OptionError> {
        let headers = context_headers(&context, &converters.header)?;
        Ok(Self(Arc::new(Router { options, converters, context, headers })))
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
        let has = |wanted: &str| columns.iter().any(|column| column == wanted);
        self.required_columns().iter().all(|(_, column)| has(column) || twin_of(column).is_some_and(has))
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
        let encoded = converter.convert(Some(&schema), &Value::str(text), &mut scratch);
        let refuse = |error| OptionError::new("header.converter", converter.name(), format!("{error}"));
        Ok(ContextHeader { name, value: encoded.map_err(refuse)?.resolve(&scratch).map(<[u8]>::to_vec) })
    };
    headers.into_iter().map(convert).collect()
}
