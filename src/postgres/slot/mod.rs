//! The replication slot: whether it exists and may be used, its creation, and the wait for its old transactions.

mod advance;
pub(super) mod holder;
mod kind;
mod wait;

use std::time::{Duration, Instant};

use postgres_protocol::escape::{escape_identifier, escape_literal};
use sha2::{Digest as _, Sha256};
use tokio::time::{sleep, timeout};

use super::catalog::facts::{ServerFacts, SlotFacts};
use super::connections::connection::Connection;
use super::connections::sql::Sql;
use super::{Error, Peer, SlotHolder, SlotOptions, shown_application};
use crate::replication::{CreateSlot, SlotKind};
use crate::wal::Lsn;

/// Creating a slot waits for every transaction that is running; Debezium's `internal.create.slot.command.timeout`.
const CREATE_TIMEOUT: Duration = Duration::from_secs(90);

/// Text about the wait for a slot on a standby, with its fix.
const ON_STANDBY: &str = " on a standby, which needs the list of the primary's running \
                          transactions (there, as a superuser: SELECT pg_log_standby_snapshot();),";

/// Time for which a slot that the relay's own walsender still uses is retried, and the interval.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
const RELEASE_INTERVAL: Duration = Duration::from_millis(50);

/// SQLSTATE `object_in_use`.
pub(super) const OBJECT_IN_USE: &str = "55006";

/// Limit of PostgreSQL.
const SLOT_NAME_BYTES_MAX: usize = 63;

/// PostgreSQL 17, the first with failover slots.
const FAILOVER_VERSION_NUM: i32 = 170_000;

/// The slot as this start found or created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// `confirmed_flush_lsn`: where the stream begins.
    pub confirmed_flush_lsn: Lsn,
    /// True if this start created it.
    pub created: bool,
}

/// A temporary slot, and the snapshot of exactly what was committed before its consistent point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotSlot {
    pub(super) name: String,
    /// Begin of the stream.
    pub consistent_point: Lsn,
    /// The snapshot's name, for `SET TRANSACTION SNAPSHOT`; none of a snapshot that continues.
    pub snapshot: Option<String>,
}

impl SlotOptions {
    /// Checks an existing slot.
    ///
    /// # Errors
    /// When it is of another kind, is read by another session, or has lost WAL.
    pub fn adopt(&self, slot: &SlotFacts, database: &str) -> Result<Slot, Error> {
        let name = self.name.as_str();
        let another = "give slot.name a name of its own, or drop the slot if it is not needed".to_owned();
        match (&slot.plugin, &slot.database) {
            (Some(plugin), Some(_)) if plugin != "pgoutput" => {
                let problem =
                    format!("replication slot {name:?} belongs to plugin {plugin}, not to pgoutput");
                let copy = format!(
                    "{another}; to keep its position: SELECT pg_copy_logical_replication_slot('{name}', '{name}_pgoutput', \
                     false, 'pgoutput');"
                );
                return Err(Error::Precondition { problem, fix: copy });
            }
            (Some(_), Some(found)) if found != database => {
                let problem =
                    format!("replication slot {name:?} belongs to database {found:?}, not to {database:?}");
                return Err(Error::Precondition { problem, fix: another });
            }
            (Some(_), Some(_)) => {}
            _ => {
                let problem = format!("replication slot {name:?} is a physical slot");
                return Err(Error::Precondition { problem, fix: another });
            }
        }
        if let Some(reason) = slot.invalidation() {
            return Err(self.lost(&reason));
        }
        self.check_two_phase(slot)?;
        self.check_free(slot)?;
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

    /// Refuses a slot that another session has.
    pub(super) fn check_free(&self, slot: &SlotFacts) -> Result<(), Error> {
        match slot.active_pid {
            Some(pid) => Err(Error::SlotActive(slot.holder(self.name.as_str(), pid, &self.peer))),
            None => Ok(()),
        }
    }

    /// Makes the slot.
    ///
    /// # Errors
    /// When the server refuses, or a long transaction keeps it from becoming consistent.
    pub async fn create(
        &self,
        connection: &mut Connection,
        sql: &Sql,
        server: &ServerFacts,
    ) -> Result<Slot, Error> {
        self.check_failover(server)?;
        let kind = SlotKind::Permanent { failover: self.failover };
        let (name, on_standby) = (self.name.as_str(), server.in_recovery);
        let (confirmed_flush_lsn, _) = self.create_slot(name, kind, connection, sql, on_standby).await?;
        Ok(Slot { confirmed_flush_lsn, created: true })
    }

    /// Creates a temporary slot, and the snapshot of exactly what was committed before it.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub async fn create_with_snapshot(
        &self,
        connection: &mut Connection,
        sql: &Sql,
        server: &ServerFacts,
    ) -> Result<SnapshotSlot, Error> {
        self.check_failover(server)?;
        let (name, kind) = (self.temporary_name(connection), SlotKind::TemporaryWithSnapshot);
        let on_standby = server.in_recovery;
        let (consistent_point, snapshot) = self.create_slot(&name, kind, connection, sql, on_standby).await?;
        let snapshot =
            snapshot.ok_or(Error::Unexpected { message: "answer".to_owned(), doing: "creating the slot" })?;
        Ok(SnapshotSlot { name, consistent_point, snapshot: Some(snapshot) })
    }

    /// Copies the temporary slot to the lasting one, at the same position. The lasting slot therefore exists only once
    /// the snapshot has been sent: a crash before leaves nothing, and the next start creates a new snapshot.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn keep(
        &self,
        temporary: &SnapshotSlot,
        connection: &mut Connection,
        sql: &Sql,
    ) -> Result<Slot, Error> {
        let name = self.name.as_str();
        let copy = "select pg_copy_logical_replication_slot($1, $2, false)";
        sql.query("keeping the slot of the snapshot", copy, &[&temporary.name, &name]).await?;
        if self.failover {
            let alter = format!("ALTER_REPLICATION_SLOT {} (FAILOVER true)", escape_identifier(name));
            connection.command("making the slot a failover slot", &alter).await?;
        }
        Ok(Slot { confirmed_flush_lsn: temporary.consistent_point, created: true })
    }

    /// Returns the name of the slot that retains the WAL while a snapshot is interrupted. A snapshot that is
    /// sent has none.
    #[must_use]
    pub fn aside(&self) -> String {
        let name = self.name.as_str();
        let whole = format!("{name}_snapshot");
        if whole.len() <= SLOT_NAME_BYTES_MAX {
            return whole;
        }
        let digest = Sha256::digest(name.as_bytes());
        let digest: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{name:.40}_{digest}_snapshot")
    }

    /// Creates that slot, at the position of the temporary one.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn keep_aside(&self, temporary: &SnapshotSlot, sql: &Sql) -> Result<(), Error> {
        let copy = "select pg_copy_logical_replication_slot($1, $2, false)";
        sql.query(
            "creating the slot from which an interrupted snapshot resumes",
            copy,
            &[&temporary.name, &self.aside()],
        )
        .await
        .map(drop)
    }

    /// Drops that slot, if there is one.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn drop_aside(&self, sql: &Sql) -> Result<(), Error> {
        let drop_it = "select pg_drop_replication_slot(slot_name) from pg_replication_slots
                       where slot_name = $1 and database = current_database() and not active";
        sql.query("dropping the slot of an interrupted snapshot", drop_it, &[&self.aside()]).await.map(drop)
    }

    /// Creates a temporary slot at the position of that slot, for a snapshot that continues.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn reopen(&self, at: Lsn, connection: &mut Connection) -> Result<SnapshotSlot, Error> {
        let name = self.temporary_name(connection);
        let [from, to] = [self.aside(), name.clone()].map(|name| escape_literal(&name));
        let copy = format!("select pg_copy_logical_replication_slot({from}, {to}, true)");
        connection.command("resuming an interrupted snapshot", &copy).await?;
        Ok(SnapshotSlot { name, consistent_point: at, snapshot: None })
    }

    /// Returns the name of a temporary slot. Several instances may try at once, so each has one of its own.
    fn temporary_name(&self, connection: &Connection) -> String {
        format!("{:.40}_snapshot_{}", self.name.as_str(), connection.backend())
    }

    /// Refuses a failover slot if the server has none.
    pub(crate) fn check_failover(&self, server: &ServerFacts) -> Result<(), Error> {
        let (problem, fix) = match server {
            _ if !self.failover => return Ok(()),
            ServerFacts { in_recovery: true, .. } => (
                "slot.failover=true: a slot of a standby cannot be a failover slot",
                "remove slot.failover: the slot continues when this standby is promoted",
            ),
            ServerFacts { version_num: ..FAILOVER_VERSION_NUM, .. } => {
                ("slot.failover=true needs PostgreSQL 17 or later", "remove slot.failover")
            }
            _ => return Ok(()),
        };
        Err(Error::Precondition { problem: problem.to_owned(), fix: fix.to_owned() })
    }

    /// Creates a slot, and returns the consistent point, and the name of the exported snapshot when there is
    /// one.
    async fn create_slot(
        &self,
        name: &str,
        kind: SlotKind,
        connection: &mut Connection,
        sql: &Sql,
        on_standby: bool,
    ) -> Result<(Lsn, Option<String>), Error> {
        let command = CreateSlot { slot: name, kind }.text();
        let mut doing = format!("creating replication slot {:?}", self.name.as_str());
        if on_standby {
            doing += ON_STANDBY;
            tracing::info!(
                slot = %self.name,
                "the slot is created once the standby has received the list of the primary's running \
                 transactions: there, SELECT pg_log_standby_snapshot(); sends it at once, and the server itself sends it \
                 each 15 s in which anything was written"
            );
        }
        let backend = connection.backend();
        let making = timeout(CREATE_TIMEOUT, connection.command(&doing, &command));
        let Ok(outcome) = wait::log_if_slow(self.name.as_str(), sql, backend, making).await else {
            // Dropping the connection alone would leave the server waiting; cancelled, it leaves no slot.
            sql.query("cancelling the creation of the slot", "select pg_cancel_backend($1)", &[&backend])
                .await?;
            return Err(Error::Timeout { doing, seconds: CREATE_TIMEOUT.as_secs() });
        };
        let mut columns = outcome?.into_iter().next().unwrap_or_default().into_iter().skip(1);
        let consistent_point = columns.next().flatten().and_then(|text| text.parse().ok());
        let lsn = consistent_point
            .ok_or(Error::Unexpected { message: "answer".to_owned(), doing: "creating the slot" })?;
        Ok((lsn, columns.next().flatten()))
    }

    /// Drops the slot (`slot.drop.on.stop`, or after a later step of this start failed). Our walsender may need a
    /// moment to leave it.
    ///
    /// # Errors
    /// When the server refuses, or the slot stays in use.
    pub async fn drop_slot(&self, sql: &Sql) -> Result<(), Error> {
        let name = self.name.as_str();
        let deadline = Instant::now() + RELEASE_TIMEOUT;
        loop {
            let drop_it = "select pg_drop_replication_slot($1)";
            match sql.query("dropping the replication slot", drop_it, &[&name]).await {
                Err(error) if error.sqlstate() == Some(OBJECT_IN_USE) && Instant::now() < deadline => {
                    sleep(RELEASE_INTERVAL).await;
                }
                outcome => return outcome.map(drop),
            }
        }
    }

    /// Returns the error for a slot beyond `acknowledged`, which was as far as this process ever confirmed.
    #[must_use]
    pub fn moved_ahead(&self, confirmed: Lsn, acknowledged: Lsn) -> Error {
        let reason = format!(
            "another client has moved it ahead, from {acknowledged} to {confirmed} ({} bytes), with \
             pg_replication_slot_advance or by reading from it: rows that were written in between would not \
             be sent",
            confirmed.bytes_since(acknowledged)
        );
        self.lost_unless(reason, &format!("start with -X outboxd.position.accept={confirmed}"))
    }

    /// Returns the error for a slot beyond `from`, which was as far as it was confirmed when outboxd ran
    /// last. `age` is the number of seconds since the last transaction before that committed; `accept` is the
    /// value that continues nevertheless.
    #[must_use]
    pub fn moved_while_away(&self, from: Lsn, to: Lsn, age: Option<u64>, accept: Option<Lsn>) -> Error {
        let reason = format!(
            "outboxd had confirmed it up to {from}, and it stands at {to}: while this outboxd did not \
             run, another client has moved it, read from it or created it again (or an outboxd ran \
             that stored no position). Rows that were written in between would not be sent: {} bytes of WAL{}",
            to.bytes_since(from),
            since(age)
        );
        let without = match accept {
            Some(accept) => format!("start with -X outboxd.position.accept={accept}"),
            None => format!(
                "{to} was accepted once already: SELECT pg_drop_replication_slot('{name}'); SELECT \
                 pg_create_logical_replication_slot('{name}', 'pgoutput'); and start: outboxd names the \
                 value of outboxd.position.accept that this needs",
                name = self.name
            ),
        };
        self.lost_unless(reason, &without)
    }

    /// Returns the error for a slot that existed when outboxd ran last, and does not any more. Without a
    /// value that accepts that, a slot must be created by hand; its position can be accepted.
    #[must_use]
    pub fn vanished_while_away(&self, from: Option<Lsn>, age: Option<u64>, accept: Option<Lsn>) -> Error {
        let Some(from) = from else { return self.vanished() };
        let reason = format!(
            "it was dropped. outboxd had confirmed it up to {from}; a new slot begins with rows that are \
             written from now on, and rows that were written since then would not be sent{}",
            since(age)
        );
        let without = match accept {
            Some(accept) => {
                format!("start with -X snapshot.mode=no_data -X outboxd.position.accept={accept}")
            }
            None => format!(
                "SELECT pg_create_logical_replication_slot('{}', 'pgoutput'); and start: outboxd names the \
                 value of outboxd.position.accept that this needs. {from} was accepted once already",
                self.name
            ),
        };
        self.lost_unless(reason, &without)
    }

    /// Returns the error for a slot that existed earlier in this process and does not any more.
    #[must_use]
    pub fn vanished(&self) -> Error {
        self.lost("it was dropped while outboxd used it; a new slot would begin after a gap")
    }

    /// Returns the error for a slot that has become unusable.
    #[must_use]
    pub fn lost(&self, reason: &str) -> Error {
        let drop = format!(
            "SELECT pg_drop_replication_slot('{}'); and start with -X snapshot.mode=no_data; that start names the \
             value of outboxd.position.accept that it needs besides",
            self.name
        );
        self.lost_unless(reason.to_owned(), &drop)
    }

    /// Returns that error, with the way to restart without the missing rows.
    fn lost_unless(&self, reason: String, without: &str) -> Error {
        let fix = format!(
            "rows that were written since are no longer in the stream. Of an outbox, to send those that Kafka has not, and \
             none twice: outboxd move plan -c FILE. To send all rows that are still in the table (those that were sent come \
             again) and go on from there: start with -X slot.recovery=snapshot. To go on without them: {without}"
        );
        Error::SlotLost { slot: self.name.to_string(), reason, fix }
    }
}

/// Settings that protect a standby from losing a slot so.
const KEEP_ROWS: &str = "on the standby, ALTER SYSTEM SET hot_standby_feedback = on; and primary_slot_name prevent \
                         the primary from removing them";

fn since(age: Option<u64>) -> String {
    let told = |seconds| format!("; the last event that was sent committed {seconds} s ago");
    age.map_or_else(String::new, told)
}

impl SlotFacts {
    /// Returns the reason for which the slot is unusable; `None` while it is usable.
    #[must_use]
    pub fn invalidation(&self) -> Option<String> {
        match self.invalidation_reason.as_deref() {
            None if self.wal_status.as_deref() != Some("lost") => None,
            None | Some("wal_removed") => Some(
                "the server removed WAL that it still needed (wal_status = lost); max_slot_wal_keep_size limits \
                 how much a slot may retain"
                    .to_owned(),
            ),
            Some("idle_timeout") => Some(
                "no client read it for idle_replication_slot_timeout (invalidation_reason = idle_timeout)".to_owned(),
            ),
            Some("rows_removed") => Some(format!(
                "the standby had to remove rows of the catalog that it still needed (invalidation_reason = \
                 rows_removed); {KEEP_ROWS}"
            )),
            Some("wal_level_insufficient") => Some(
                "wal_level was lowered on the primary (invalidation_reason = wal_level_insufficient); there, ALTER SYSTEM \
                 SET wal_level = 'logical'; and restart"
                    .to_owned(),
            ),
            Some("conflict") => Some(format!(
                "it was in conflict with what the standby had to replay (conflicting); {KEEP_ROWS}, and wal_level on the \
                 primary must stay logical"
            )),
            Some(other) => Some(format!("the server has invalidated it (invalidation_reason = {other})")),
        }
    }

    fn holder(&self, slot: &str, pid: i32, peer: &Peer) -> SlotHolder {
        let application = self.application.clone().unwrap_or_else(|| "unknown program".to_owned());
        SlotHolder {
            slot: slot.to_owned(),
            pid,
            other: peer.other(&application),
            application: shown_application(&application).to_owned(),
            client: self.client.as_ref().map_or_else(String::new, |client| format!(" at {client}")),
            has_slot: true,
        }
    }
}
