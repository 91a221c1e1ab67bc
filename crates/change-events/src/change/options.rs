//! Options of change events.

use super::envelope::transaction::TransactionTopic;
use super::table::key::{KeyColumns, MESSAGE_KEY_COLUMNS};
use super::table::placeholder::Placeholder;
use super::table::reselect::Reselect;
use crate::outbox::{EventRouter, MessagePrefixes};
use connect_data::{OptionReader, Refused, debezium_version};

/// Options of change events. The defaults are Debezium's.
#[derive(Debug)]
pub struct ChangeOptions {
    /// `outboxd.debezium.version` (3.7.0.Final): the value of `source.version`.
    pub version: String,
    /// `tombstones.on.delete` (true): a delete is followed by a record of the same key without a value.
    pub tombstones: bool,
    /// `skip.messages.without.change` (false): an update that changes no captured column makes no event.
    pub skip_unchanged: bool,
    /// `unavailable.value.placeholder` (`__debezium_unavailable_value`): the value that replaces a TOASTed
    /// value that an update did not change.
    pub placeholder: Placeholder,
    /// `message.key.columns`: keys of columns other than those of the primary key.
    pub(super) keys: KeyColumns,
    /// `provide.transaction.metadata` (false), `topic.transaction` (transaction)
    pub(super) transactions: Option<TransactionTopic>,
    /// `message.prefix.include.list`, `message.prefix.exclude.list`: filter of the logical messages that
    /// become events.
    pub messages: MessagePrefixes,
    /// `post.processors`: filter of the values that are read from the table.
    pub reselect: Option<Reselect>,
    /// The EventRouters among the transforms, by name.
    pub routers: Vec<(String, EventRouter)>,
}

impl ChangeOptions {
    /// Reads the options. `topic_prefix` is the prefix of the connector's own topics, with its delimiter.
    ///
    /// # Errors
    /// When an option has an invalid value.
    pub fn read(options: &mut OptionReader<'_>, topic_prefix: &str) -> Result<Self, Refused> {
        let text = |options: &mut OptionReader<'_>, key: &str, default: &str| {
            options.text(key).unwrap_or_else(|| default.to_owned())
        };
        Ok(Self {
            version: text(options, debezium_version::KEY, debezium_version::DEFAULT),
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
