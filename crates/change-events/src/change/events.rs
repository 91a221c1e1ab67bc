//! Change events of tables.

use std::sync::Arc;

use super::envelope::headers;
use super::envelope::headers::ContextBytes;
use super::envelope::shape::EnvelopeShape;
use super::envelope::transaction::{End, TransactionTopic};
use super::message::MessageEvents;
use super::notification::NotificationSchemas;
use super::options::ChangeOptions;
use super::record::ChangeRecords;
use super::table::ChangeTable;
use crate::outbox::{EventContext, EventRouter, RouteError};
use crate::signal::Notification;
use connect_data::column::ColumnDescription;
use connect_data::converter::{Converters, Destination};
use connect_data::transform::chain::Chain;
use connect_data::transform::debezium::timescale::Hypertables;
use connect_data::{Heartbeat, Kind, OptionError, OptionReader, Schema};
use pg_replication::pgoutput::{Begin, Relation};
use pg_replication::wal::Lsn;

/// Factory of the change events of tables.
#[derive(Debug, Clone)]
pub struct ChangeEvents(pub(super) Arc<Connector>);

/// Settings, transforms and converters that all tables share.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) options: ChangeOptions,
    pub(super) chain: Chain,
    pub(super) converters: Converters,
    pub(super) context: EventContext,
    /// `database.dbname`, the value of `source.db`.
    pub(super) database: String,
    pub(super) shape: EnvelopeShape,
    pub(super) transactions: Option<TransactionTopic>,
    pub(super) text: Arc<Schema>,
    pub(super) notifications: NotificationSchemas,
    pub(super) messages: MessageEvents,
    pub(super) context_bytes: ContextBytes,
}

impl ChangeEvents {
    /// Reads the options of the connector, its transforms and its converters.
    ///
    /// # Errors
    /// When an option cannot be used; the first such option is returned.
    pub fn parse(
        lookup: &dyn Fn(&str) -> Option<String>,
        context: EventContext,
        database: &str,
    ) -> Result<Self, OptionError> {
        OptionReader::alone(lookup, |options| {
            let topic_prefix = format!("{}{}", context.topic_prefix, context.topic_delimiter);
            let made = ChangeOptions::read(options, &topic_prefix)?;
            let chain = Chain::read(options)?;
            let converters = Converters::read_or(options, Converters::of_changes())?;
            Ok(Self::new(made, chain, converters, context, database.to_owned()))
        })
    }

    /// Builds the factory from its parts.
    #[must_use]
    pub fn new(
        mut options: ChangeOptions,
        chain: Chain,
        converters: Converters,
        mut context: EventContext,
        database: String,
    ) -> Self {
        context.columns.keeps_accidents = true;
        let transactions = options.transactions.take();
        let prefixes = std::mem::take(&mut options.messages);
        let messages = MessageEvents::new(prefixes, &options.version, &context, &database);
        let shape = EnvelopeShape::new();
        let text = Arc::new(Schema::new(Kind::String));
        let context_bytes = headers::convert(&context, &converters.header, &text);
        Self(Arc::new(Connector {
            options,
            transactions,
            chain,
            converters,
            context,
            database,
            shape,
            text,
            notifications: NotificationSchemas::new(),
            messages,
            context_bytes,
        }))
    }

    /// Binds a table. A column without description has the description of its pgoutput relation message; a
    /// column whose type has no codec is skipped, as in Debezium.
    #[must_use]
    pub fn bind(&self, relation: &Relation, columns: &[ColumnDescription]) -> ChangeTable {
        super::table::binding::bind(Arc::clone(&self.0), relation, columns)
    }

    /// Returns the transforms in their order, each as its name and class.
    pub fn transforms(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.chain.transforms()
    }

    /// Returns the connector's logical name (`topic.prefix`).
    pub fn connector_name(&self) -> &str {
        &self.0.context.topic_prefix
    }

    /// Returns the prefix of the topics of tables, before a transform renames them.
    pub fn topic_prefix(&self) -> String {
        let context = &self.0.context;
        format!("{}{}", context.topic_prefix, context.topic_delimiter)
    }

    /// Returns the topic of a table's records, or `None` if a transform chooses the topic of each record.
    pub fn topic_of(&self, schema: &str, table: &str) -> Option<String> {
        let topic = self.0.context.source_topic(schema, table);
        let renamed = self.0.chain.renamed(&topic);
        renamed.or_else(|| self.renaming_transform().is_none().then_some(topic))
    }

    /// Returns the name of the first transform that may send records of a table to another topic.
    pub fn renaming_transform(&self) -> Option<&str> {
        let others = self.transforms().filter(|(_, class)| !class.ends_with(".EventRouter"));
        let renames = |class: &str| {
            ["Router", "RouteByExpression", "TimescaleDb"].iter().any(|end| class.ends_with(end))
        };
        others.filter(|(_, class)| renames(class)).map(|(alias, _)| alias).next()
    }

    /// Reports whether all transforms are EventRouters.
    pub fn has_routers_only(&self) -> bool {
        self.0.chain.event_routers().count() == self.transforms().count()
    }

    /// Returns the TimescaleDB lookups of the transforms.
    pub fn hypertables(&self) -> impl Iterator<Item = &Hypertables> {
        self.0.chain.hypertables()
    }

    /// Returns the EventRouters among the transforms.
    pub fn event_routers(&self) -> impl Iterator<Item = &EventRouter> {
        self.0.options.routers.iter().map(|(_, router)| router)
    }

    /// Reports whether `message.key.columns` names the key of a table.
    #[must_use]
    pub fn chooses_key(&self, schema: &str, table: &str) -> bool {
        self.0.options.keys.names(schema, table)
    }

    /// Returns the columns of a table's key, in the key's order; empty if its events have no key.
    pub fn key_columns<'c>(
        &self,
        schema: &str,
        table: &str,
        columns: &'c [ColumnDescription],
    ) -> Vec<&'c str> {
        let positions = self.0.options.keys.of(schema, table, columns);
        positions.into_iter().filter_map(|at| Some(columns.get(at)?.name.as_str())).collect()
    }

    /// Reports whether transaction metadata is enabled.
    #[must_use]
    pub fn tells_transactions(&self) -> bool {
        self.0.transactions.is_some()
    }

    /// Builds the record of the begin or the end of a transaction, read at `lsn` and at `now_ms`
    /// (milliseconds since the Unix epoch). Returns `None` if transaction metadata is disabled or a transform
    /// drops the record.
    ///
    /// # Errors
    /// When a transform or a converter fails, or a converter first needs the id of its schema.
    pub fn transaction_record(
        &self,
        end: End<'_>,
        begin: &Begin,
        lsn: Lsn,
        now_ms: i64,
        into: &mut Destination<'_>,
    ) -> Result<Option<ChangeRecords<'_>>, RouteError> {
        self.0.transaction_record(end, begin, lsn, now_ms, into)
    }

    /// Builds the record of a notification with this id, which happened at `now_ms` (milliseconds since the
    /// Unix epoch). Returns `None` if a transform drops it.
    ///
    /// # Errors
    /// When a transform or a converter fails, or a converter first needs the id of its schema.
    pub fn notification_record<'a>(
        &'a self,
        topic: &'a str,
        id: &'a str,
        notification: &'a Notification,
        now_ms: i64,
        into: &mut Destination<'_>,
    ) -> Result<Option<ChangeRecords<'a>>, RouteError> {
        self.0.notification_record(topic, id, notification, now_ms, into)
    }

    /// Returns the topic of transaction metadata, or an empty text if it is disabled.
    #[must_use]
    pub fn transaction_topic(&self) -> &str {
        self.0.transactions.as_ref().map_or("", TransactionTopic::name)
    }

    /// Returns the connector's heartbeat to `topic`.
    #[must_use]
    pub fn heartbeat(&self, topic: String) -> Heartbeat {
        let heartbeat = Heartbeat::new(topic, &self.0.context.topic_prefix, &self.0.converters);
        heartbeat.through(self.0.chain.clone())
    }
}
