use std::time::Duration;

use tokio::time::timeout;

use super::catalog::SlotFacts;
use super::connection::Connection;
use super::sql::Sql;
use super::{Error, SlotHolder, SlotOptions};
use crate::replication::CreateSlot;
use crate::wal::Lsn;

/// Creating a slot waits for every transaction that is running; Debezium's `internal.create.slot.command.timeout`.
const CREATE_TIMEOUT: Duration = Duration::from_secs(90);

/// PostgreSQL 17, the first with failover slots.
const FAILOVER_VERSION_NUM: i32 = 170_000;

/// The slot as this start found or made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// `confirmed_flush_lsn`: where the stream begins.
    pub confirmed_flush_lsn: Lsn,
    /// Whether this start made it.
    pub created: bool,
}

impl SlotOptions {
    /// Checks an existing slot.
    ///
    /// # Errors
    /// When it belongs to something else, is held by another session, or has lost WAL.
    pub fn adopt(&self, slot: &SlotFacts, database: &str) -> Result<Slot, Error> {
        let name = self.name.as_str();
        let another = "give slot.name a name of its own, or drop the slot if nobody needs it".to_owned();
        match (&slot.plugin, &slot.database) {
            (Some(plugin), Some(_)) if plugin != "pgoutput" => {
                let problem =
                    format!("replication slot {name:?} belongs to plugin {plugin}, not to pgoutput");
                let copy = format!(
                    "{another}; to keep its position: SELECT pg_copy_logical_replication_slot('{name}', '{name}_pgoutput', \
                     false, 'pgoutput');"
                );
                return Err(Error::Precondition { problem, cure: copy });
            }
            (Some(_), Some(found)) if found != database => {
                let problem =
                    format!("replication slot {name:?} belongs to database {found:?}, not to {database:?}");
                return Err(Error::Precondition { problem, cure: another });
            }
            (Some(_), Some(_)) => {}
            _ => {
                let problem = format!("replication slot {name:?} is a physical slot");
                return Err(Error::Precondition { problem, cure: another });
            }
        }
        if slot.wal_status.as_deref() == Some("lost") {
            return Err(self.lost("the server removed WAL that it still needed (wal_status = lost)"));
        }
        if let Some(pid) = slot.active_pid {
            return Err(Error::SlotActive(slot.holder(name, pid)));
        }
        let confirmed_flush_lsn = slot.confirmed_flush_lsn.unwrap_or_default();
        if confirmed_flush_lsn > slot.server_lsn {
            let reason = format!(
                "its confirmed_flush_lsn {confirmed_flush_lsn} lies beyond the end of the WAL at {}: everything up to \
                 there would be skipped",
                slot.server_lsn
            );
            return Err(self.lost(&reason));
        }
        Ok(Slot { confirmed_flush_lsn, created: false })
    }

    /// Makes the slot.
    ///
    /// # Errors
    /// When the server refuses, or a long transaction keeps it from becoming consistent.
    pub async fn create(
        &self,
        connection: &mut Connection,
        sql: &Sql,
        version_num: i32,
    ) -> Result<Slot, Error> {
        let name = self.name.as_str();
        if self.failover && version_num < FAILOVER_VERSION_NUM {
            return Err(Error::Precondition {
                problem: "slot.failover=true needs PostgreSQL 17 or later".to_owned(),
                cure: "remove slot.failover".to_owned(),
            });
        }
        let command = CreateSlot { slot: name, failover: self.failover }.text();
        let doing = format!("creating replication slot {name:?}");
        let backend = connection.backend();
        let Ok(outcome) = timeout(CREATE_TIMEOUT, connection.command(&doing, &command)).await else {
            // Dropping the connection alone would leave the server waiting; cancelled, it leaves no slot behind.
            sql.query("cancelling the creation of the slot", "select pg_cancel_backend($1)", &[&backend])
                .await?;
            return Err(Error::Timeout { doing, seconds: CREATE_TIMEOUT.as_secs() });
        };
        let rows = outcome?;
        let consistent_point = rows.first().and_then(|row| row.get(1)).and_then(Option::as_deref);
        let confirmed_flush_lsn = consistent_point
            .and_then(|text| text.parse().ok())
            .ok_or(Error::Unexpected { message: "answer".to_owned(), doing: "creating the slot" })?;
        Ok(Slot { confirmed_flush_lsn, created: true })
    }

    /// Drops the slot (`slot.drop.on.stop`, or after a later step of this start failed).
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn drop_slot(&self, sql: &Sql) -> Result<(), Error> {
        let name = self.name.as_str();
        sql.query("dropping the replication slot", "select pg_drop_replication_slot($1)", &[&name])
            .await
            .map(drop)
    }

    /// The error for a slot that was there earlier in this process and is not any more.
    #[must_use]
    pub fn vanished(&self) -> Error {
        self.lost("it was dropped while outboxd used it; a new one would begin behind a gap")
    }

    fn lost(&self, reason: &str) -> Error {
        let slot = self.name.to_string();
        let cure = format!(
            "what was written since is not in the stream any more. Drop the slot and start anew, then send what is \
             missing from the table: SELECT pg_drop_replication_slot('{slot}');"
        );
        Error::SlotLost { slot, reason: reason.to_owned(), cure }
    }
}

impl SlotFacts {
    fn holder(&self, slot: &str, pid: i32) -> SlotHolder {
        SlotHolder {
            slot: slot.to_owned(),
            pid,
            application: self.application.clone().unwrap_or_else(|| "unknown program".to_owned()),
            client: self.client.as_ref().map_or_else(String::new, |client| format!(" at {client}")),
        }
    }
}
