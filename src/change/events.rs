use std::sync::Arc;

use super::headers::{self, ContextBytes};
use super::message::MessageEvents;
use super::notification::NotificationSchemas;
use super::options::ChangeOptions;
use super::record::ChangeRecords;
use super::shape::EnvelopeShape;
use super::table::ChangeTable;
use super::transaction::{End, TransactionTopic};
use crate::connect::column::ColumnDescription;
use crate::connect::converter::{Converters, Destination};
use crate::connect::transform::chain::Chain;
use crate::connect::transform::timescale::Hypertables;
use crate::connect::{Heartbeat, Kind, OptionError, OptionReader, Schema};
use crate::outbox::{EventContext, EventRouter, RouteError};
use crate::pgoutput::{Begin, Relation};
use crate::signal::Notification;
use crate::wal::Lsn;

/// What makes change events of tables.
#[derive(Debug, Clone)]
pub struct ChangeEvents(pub(super) Arc<Connector>);

/// What all tables share.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) options: ChangeOptions,
    pub(super) chain: Chain,
    pub(super) converters: Converters,
    pub(super) context: EventContext,
    /// `database.dbname`, as `source.db` says it.
    pub(super) database: String,
    pub(super) shape: EnvelopeShape,
    pub(super) transactions: Option<TransactionTopic>,
    pub(super) text: Arc<Schema>,
    pub(super) notifications: NotificationSchemas,
    pub(super) messages: MessageEvents,
    pub(super) context_bytes: ContextBytes,
}

impl ChangeEvents {
    /// Reads the options of connector, transforms and converters.
    ///
    /// # Errors
    /// When an option cannot be used; the first one.
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

    /// Puts it together.
    #[must_use]
    pub(crate) fn new(
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

    /// Makes a table ready. A column without description is taken as pgoutput alone describes it; one whose type has no form is
    /// left out, as Debezium does.
    #[must_use]
    pub fn bind(&self, relation: &Relation, columns: &[ColumnDescription]) -> ChangeTable {
        super::binding::bind(Arc::clone(&self.0), relation, columns)
    }

    /// The transforms, in their order, by name and class.
    pub(crate) fn transforms(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.chain.transforms()
    }

    /// The connector's logical name (`topic.prefix`).
    pub(crate) fn connector_name(&self) -> &str {
        &self.0.context.topic_prefix
    }

    /// What the topics of tables begin with, unless a transform renames them.
    pub(crate) fn topic_prefix(&self) -> String {
        let context = &self.0.context;
        format!("{}{}", context.topic_prefix, context.topic_delimiter)
    }

    /// The topic of a table's records; `None` where a transform says it of each.
    pub(crate) fn topic_of(&self, schema: &str, table: &str) -> Option<String> {
        let topic = self.0.context.source_topic(schema, table);
        let renamed = self.0.chain.renamed(&topic);
        renamed.or_else(|| self.renaming_transform().is_none().then_some(topic))
    }

    /// The first transform that may give a record of a table another topic.
    pub(crate) fn renaming_transform(&self) -> Option<&str> {
        let others = self.transforms().filter(|(_, class)| !class.ends_with(".EventRouter"));
        let renames = |class: &str| {
            ["Router", "RouteByExpression", "TimescaleDb"].iter().any(|end| class.ends_with(end))
        };
        others.filter(|(_, class)| renames(class)).map(|(alias, _)| alias).next()
    }

    /// Whether records are in the topics that EventRouters have given them: there is no other transform.
    pub(crate) fn has_routers_only(&self) -> bool {
        self.0.chain.event_routers().count() == self.transforms().count()
    }

    /// What they must know of TimescaleDB's catalog.
    pub(crate) fn hypertables(&self) -> impl Iterator<Item = &Hypertables> {
        self.0.chain.hypertables()
    }

    /// The EventRouters that stand among them.
    pub(crate) fn event_routers(&self) -> impl Iterator<Item = &EventRouter> {
        self.0.options.routers.iter().map(|(_, router)| router)
    }

    /// Whether `message.key.columns` names the key of a table.
    #[must_use]
    pub(crate) fn chooses_key(&self, schema: &str, table: &str) -> bool {
        self.0.options.keys.names(schema, table)
    }

    /// The columns of a table's key, in the key's order; none when its events have no key.
    pub(crate) fn key_columns<'c>(
        &self,
        schema: &str,
        table: &str,
        columns: &'c [ColumnDescription],
    ) -> Vec<&'c str> {
        let positions = self.0.options.keys.of(schema, table, columns);
        positions.into_iter().filter_map(|at| Some(columns.get(at)?.name.as_str())).collect()
    }

    /// Whether transactions are told.
    #[must_use]
    pub(crate) fn tells_transactions(&self) -> bool {
        self.0.transactions.is_some()
    }

    /// The record of one end of a transaction, read at `lsn` and at `now_ms`; none when they are not asked for.
    ///
    /// # Errors
    /// When a converter does not take it, or first needs the id of its schema.
    pub(crate) fn transaction_record(
        &self,
        end: End<'_>,
        begin: &Begin,
        at: (Lsn, i64),
        into: &mut Destination<'_>,
    ) -> Result<Option<ChangeRecords<'_>>, RouteError> {
        self.0.transaction_record(end, begin, at, into)
    }

    /// The record of a notification with this id, which happened at `now_ms`; none when a transform drops it.
    ///
    /// # Errors
    /// When a converter does not take it, or first needs the id of its schema.
    pub(crate) fn notification_record<'a>(
        &'a self,
        topic: &'a str,
        notification: (&'a str, &'a Notification),
        now_ms: i64,
        into: &mut Destination<'_>,
    ) -> Result<Option<ChangeRecords<'a>>, RouteError> {
        self.0.notification_record(topic, notification, now_ms, into)
    }

    /// The topic that transactions are told in.
    #[must_use]
    pub(crate) fn transaction_topic(&self) -> &str {
        self.0.transactions.as_ref().map_or("", TransactionTopic::name)
    }

    /// The connector's heartbeat to `topic`.
    #[must_use]
    pub(crate) fn heartbeat(&self, topic: String) -> Heartbeat {
        let heartbeat = Heartbeat::new(topic, &self.0.context.topic_prefix, &self.0.converters);
        heartbeat.through(self.0.chain.clone())
    }
}
