//! Paths of a signal to the relay.

use serde_json::{Value, json};

use super::error::SignalError;
use crate::postgres::Sql;
use crate::relay::{RelayParts, SIGNAL_PREFIX};

/// Path of a signal to the stream of the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Channel {
    /// The signalling table, quoted.
    Table(String),
    /// A logical message, as the relay writes one for the channels `file` and `kafka`.
    Message,
}

impl Channel {
    /// Finds a channel that the relay of this configuration reads.
    pub(super) async fn find(parts: &RelayParts, sql: &Sql) -> Result<Self, SignalError> {
        let options = &parts.relay.signals;
        if !options.is_on() {
            let is_outbox = parts.route.changes().is_none();
            return Err(if is_outbox { SignalError::Outbox } else { SignalError::NoChannel });
        }
        if options.reads_messages() {
            return Ok(Self::Message);
        }
        let tables = sql.tables().await?;
        let table = tables.iter().find(|table| parts.tables.is_signals(table));
        let name = || options.table.clone().unwrap_or_default();
        table.map(|table| Self::Table(table.quoted())).ok_or_else(|| SignalError::NoSignalTable(name()))
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Table(table) => table,
            Self::Message => "the WAL",
        }
    }

    /// Writes the signal and commits it.
    pub(super) async fn write(
        &self,
        sql: &Sql,
        id: &str,
        kind: &str,
        data: Option<&Value>,
    ) -> Result<(), SignalError> {
        let doing = "writing the signal";
        match self {
            Self::Table(table) => {
                let data = data.map(ToString::to_string);
                let statement = format!("INSERT INTO {table} VALUES ($1::text, $2::text, $3::text)");
                sql.query(doing, &statement, &[&id, &kind, &data]).await?;
            }
            Self::Message => {
                let document = json!({ "id": id, "type": kind, "data": data }).to_string();
                let statement = "SELECT pg_logical_emit_message(true, $1, $2::text)::text";
                sql.query(doing, statement, &[&SIGNAL_PREFIX, &document]).await?;
            }
        }
        Ok(())
    }
}
