use super::key::{KeyColumns, MESSAGE_KEY_COLUMNS};
use super::placeholder::Placeholder;
use super::reselect::Reselect;
use super::transaction::TransactionTopic;
use crate::connect::{OptionReader, Refused};
use crate::outbox::{EventRouter, MessagePrefixes};

/// What change events are like. The defaults are Debezium's.
#[derive(Debug)]
pub(crate) struct ChangeOptions {
    /// `outboxd.debezium.version` (3.7.0.Final): what `source.version` says.
    pub(crate) version: String,
    /// `tombstones.on.delete` (true): a delete is followed by a record of the same key without a value.
    pub(crate) tombstones: bool,
    /// `skip.messages.without.change` (false): an update that changes no captured column makes no event.
    pub(crate) skip_unchanged: bool,
    /// `unavailable.value.placeholder` (`__debezium_unavailable_value`): what stands for a TOASTed value that an update did
    /// not change.
    pub(crate) placeholder: Placeholder,
    /// `message.key.columns`: keys of other columns than the primary key's.
    pub(super) keys: KeyColumns,
    /// `provide.transaction.metadata` (false), `topic.transaction` (transaction)
    pub(super) transactions: Option<TransactionTopic>,
    /// `message.prefix.include.list`, `message.prefix.exclude.list`: which logical messages are events.
    pub(crate) messages: MessagePrefixes,
    /// `post.processors`: which values are read from the table.
    pub(crate) reselect: Option<Reselect>,
    /// The EventRouters that stand among the transforms, by name.
    pub(crate) routers: Vec<(String, EventRouter)>,
}

impl ChangeOptions {
    /// Reads the options. `topic_prefix` is what the connector's own topics begin with, its delimiter behind it.
    ///
    /// # Errors
    /// When a key's columns cannot be understood.
    pub(crate) fn read(options: &mut OptionReader<'_>, topic_prefix: &str) -> Result<Self, Refused> {
        let text = |options: &mut OptionReader<'_>, key: &str, default: &str| {
            options.text(key).unwrap_or_else(|| default.to_owned())
        };
        Ok(Self {
            version: text(options, "outboxd.debezium.version", "3.7.0.Final"),
            tombstones: options.boolean("tombstones.on.delete", true),
            skip_unchanged: options.boolean("skip.messages.without.change", false),
            placeholder: Placeholder::read(options)?,
            transactions: TransactionTopic::read(options, topic_prefix),
            keys: KeyColumns::read(options, MESSAGE_KEY_COLUMNS)?,
            messages: MessagePrefixes::default(),
            reselect: Reselect::read(options)?,
            routers: Vec::new(),
        })
    }
}
