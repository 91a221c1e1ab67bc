//! Output of a command while it waits.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tokio_postgres::Row;

use super::progress::Progress;
use super::sql::open;
use super::text::clean;
use crate::cli::print_message;
use crate::postgres::{Error, ServerOptions, Sql};

/// Time of a wait that is not reported.
pub(in crate::cli) const PATIENCE: Duration = Duration::from_secs(1);

/// Interval in which a changed reason of a wait is reported again.
const AGAIN: Duration = Duration::from_secs(10);

/// `application_name` of the sessions in `pg_stat_activity`.
const APPLICATION: &str = "outboxd waiting";

/// Query of the transactions that a session waits for, the oldest first. The server returns no process of a
/// prepared one.
const HOLDERS: &str = "
select b.pid, coalesce(a.application_name, ''), extract(epoch from now() - a.xact_start)::bigint
from unnest(pg_blocking_pids($1)) as b(pid) left join pg_stat_activity a on a.pid = b.pid
order by a.xact_start limit 1";

/// Query of the oldest transaction, of any database: every snapshot waits for it.
const OLDEST: &str = "
select pid, name, since from (
  select pid, coalesce(application_name, '') as name, extract(epoch from now() - xact_start)::bigint as since, age(backend_xid) as age
  from pg_stat_activity where pid <> pg_backend_pid() and backend_xid is not null
  union all
  select 0, '', extract(epoch from now() - prepared)::bigint, age(transaction) from pg_prepared_xacts) as running
order by age desc limit 1";

/// Wait that may last. After a second its reason is printed: once in a log, permanently at the foot of a
/// terminal.
pub(in crate::cli) struct Waiting {
    since: Instant,
    /// Bar, from the first output on.
    progress: Option<Progress>,
    told: Option<(String, Instant)>,
}

impl Waiting {
    pub(in crate::cli) fn new() -> Self {
        Self { since: Instant::now(), progress: None, told: None }
    }

    /// Creates one on an existing bar.
    pub(in crate::cli) fn on(progress: &Progress) -> Self {
        Self { since: Instant::now(), progress: Some(progress.clone()), told: None }
    }

    /// Reports that the wait continues. What is printed once must not change all the time: that belongs into
    /// `now`.
    pub(in crate::cli) fn report_waiting(&mut self, for_what: &str, now: &str) {
        if self.since.elapsed() < PATIENCE {
            return;
        }
        let progress = self.progress.get_or_insert_with(Progress::new);
        let is_new = |(told, at): &(String, Instant)| told != for_what && at.elapsed() >= AGAIN;
        if self.told.as_ref().is_none_or(is_new) {
            progress.above(|| print_message(&format!("waiting for {for_what}")));
            self.told = Some((for_what.to_owned(), Instant::now()));
        }
        progress.waiting(&format!("waiting for {for_what}{now}, {} s", self.since.elapsed().as_secs()));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(progress) = &self.progress {
            progress.end();
        }
    }
}

/// Does the work of a session, and prints the transactions it waits for when it lasts.
pub(in crate::cli) async fn reporting_waits<T>(
    sql: &Sql,
    server: &ServerOptions,
    doing: &str,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let pid = own(sql, doing).await?;
    let (mut waiting, mut other) = (Waiting::new(), None);
    tokio::pin!(work);
    loop {
        tokio::select! {
            // Finished work needs no wait.
            biased;
            outcome = &mut work => return outcome,
            () = sleep(PATIENCE) => {}
        }
        // A server that cannot be queried for the reason does not end the work.
        if other.is_none() {
            other = open(server, APPLICATION).await.ok();
        }
        let holder = match &other {
            Some(other) => holder(other, pid).await.ok().flatten(),
            None => None,
        };
        let (who, open_for) = holder.unwrap_or_else(|| ("the server".to_owned(), String::new()));
        waiting.report_waiting(&who, &open_for);
    }
}

async fn own(sql: &Sql, doing: &str) -> Result<i32, Error> {
    let rows = sql.query(doing, "select pg_backend_pid()", &[]).await?;
    let pid = rows.first().map_or(Ok(0), |row| row.try_get(0));
    pid.map_err(|error| Error::sql(doing, error))
}

/// Returns the first of the transactions that a session waits for, and how long it has been open.
pub(in crate::cli) async fn holder(sql: &Sql, waits: i32) -> Result<Option<(String, String)>, Error> {
    const DOING: &str = "looking for what the session waits for";
    let rows = sql.query(DOING, HOLDERS, &[&waits]).await?;
    rows.first().map(|row| named(row).map_err(|error| Error::sql(DOING, error))).transpose()
}

/// Returns the oldest transaction that has written something.
pub(in crate::cli) async fn oldest(sql: &Sql) -> Result<Option<(String, String)>, Error> {
    const DOING: &str = "looking for the oldest transaction";
    let rows = sql.query(DOING, OLDEST, &[]).await?;
    rows.first().map(|row| named(row).map_err(|error| Error::sql(DOING, error))).transpose()
}

fn named(row: &Row) -> Result<(String, String), tokio_postgres::Error> {
    let (pid, application, open_for) =
        (row.try_get::<_, i32>(0)?, row.try_get::<_, String>(1)?, row.try_get::<_, Option<i64>>(2)?);
    if pid == 0 {
        return Ok(("a prepared transaction (pg_prepared_xacts)".to_owned(), String::new()));
    }
    let application =
        if application.is_empty() { String::new() } else { format!(" ({})", clean(&application)) };
    // The server returns the time only to roles that may see it.
    let open_for = open_for.map(|seconds| format!(", open for {seconds} s")).unwrap_or_default();
    Ok((format!("the transaction of pid {pid}{application}"), open_for))
}
