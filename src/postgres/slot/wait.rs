//! The wait for old transactions while a slot is created, and the log lines that name them.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;
use tokio_postgres::Row;

use crate::postgres::Error;
use crate::postgres::connections::sql::Sql;

/// Time after which the reason of the wait is logged. A slot is usually created within milliseconds.
const LOGGED_AFTER: Duration = Duration::from_secs(3);

/// Query for the sessions that a session waits for. A transaction that was prepared for a two-phase commit
/// has no session any more.
const BLOCKING: &str = "
select b.pid, a.application_name, coalesce(extract(epoch from now() - a.xact_start)::bigint, 0), null::text
from unnest(pg_blocking_pids($1)) b(pid) left join pg_stat_activity a on a.pid = b.pid where b.pid <> 0
union
select 0, null, extract(epoch from now() - p.prepared)::bigint, p.gid
from pg_locks l join pg_prepared_xacts p on p.transaction = l.transactionid
where l.pid = $1 and l.locktype = 'transactionid' and not l.granted";

/// Transaction that delays the creation of a slot: PostgreSQL waits until all transactions have ended that
/// run when it begins.
#[derive(Debug, PartialEq, Eq)]
struct OldTransaction {
    holder: Holder,
    seconds: i64,
}

#[derive(Debug, PartialEq, Eq)]
enum Holder {
    Session { pid: i32, application: String },
    Prepared { gid: String },
}

/// Creates the slot with this command of that session, and logs the reason if it has to wait long.
pub(in crate::postgres) async fn log_if_slow<T>(
    slot: &str,
    sql: &Sql,
    backend: i32,
    command: impl Future<Output = T>,
) -> T {
    let mut command = pin!(command);
    tokio::select! {
        biased;
        outcome = &mut command => return outcome,
        () = sleep(LOGGED_AFTER) => {}
    }
    // A role without the privilege to query them waits without a reason.
    for old in blocking(sql, backend).await.unwrap_or_default() {
        tracing::warn!(
            slot, waits_for = %old, to_end_it = old.holder.end(),
            "the slot is made once the transactions have ended that ran when the server began with it"
        );
    }
    command.await
}

async fn blocking(sql: &Sql, backend: i32) -> Result<Vec<OldTransaction>, Error> {
    const DOING: &str = "asking what the slot waits for";
    let rows = sql.query(DOING, BLOCKING, &[&backend]).await?;
    rows.iter().map(|row| OldTransaction::read(row).map_err(|error| Error::sql(DOING, error))).collect()
}

impl OldTransaction {
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        let holder = match row.try_get::<_, Option<String>>(3)? {
            Some(gid) => Holder::Prepared { gid },
            None => Holder::Session {
                pid: row.try_get(0)?,
                application: row.try_get::<_, Option<String>>(1)?.unwrap_or_default(),
            },
        };
        Ok(Self { holder, seconds: row.try_get(2)? })
    }
}

impl Holder {
    /// Returns the statement that ends the transaction.
    fn end(&self) -> String {
        match self {
            Self::Session { pid, .. } => format!("SELECT pg_terminate_backend({pid});"),
            Self::Prepared { gid } => {
                format!(
                    "ROLLBACK PREPARED {}; or COMMIT PREPARED",
                    postgres_protocol::escape::escape_literal(gid)
                )
            }
        }
    }
}

impl fmt::Display for OldTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            Holder::Session { pid, application } => {
                write!(f, "a transaction of process {pid} ({application}), {} s old", self.seconds)
            }
            Holder::Prepared { gid } => {
                write!(f, "the transaction that was prepared as {gid}, {} s ago", self.seconds)
            }
        }
    }
}
