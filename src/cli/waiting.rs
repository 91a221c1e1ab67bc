//! What a command says while it waits.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tokio_postgres::Row;

use super::progress::Progress;
use super::say;
use super::sql::open;
use super::text::clean;
use crate::postgres::{Error, ServerOptions, Sql};

/// So long nobody wonders.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Who is waited for may change all the time; that is said so often.
const AGAIN: Duration = Duration::from_secs(10);

/// How our sessions are named in `pg_stat_activity`.
const APPLICATION: &str = "outboxd waiting";

/// Whose transactions a session waits for, the oldest first. Of a prepared one the server tells no process.
const HOLDERS: &str = "
select b.pid, coalesce(a.application_name, ''), extract(epoch from now() - a.xact_start)::bigint
from unnest(pg_blocking_pids($1)) as b(pid) left join pg_stat_activity a on a.pid = b.pid
order by a.xact_start limit 1";

/// Who holds the oldest transaction, of whatever database: every snapshot waits for it.
const OLDEST: &str = "
select pid, name, since from (
  select pid, coalesce(application_name, '') as name, extract(epoch from now() - xact_start)::bigint as since, age(backend_xid) as age
  from pg_stat_activity where pid <> pg_backend_pid() and backend_xid is not null
  union all
  select 0, '', extract(epoch from now() - prepared)::bigint, age(transaction) from pg_prepared_xacts) as running
order by age desc limit 1";

/// Something that may last. After a second it says for what: once in a log, all the time at the foot of a terminal.
pub(super) struct Waiting {
    since: Instant,
    /// From the first word on.
    progress: Option<Progress>,
    told: Option<(String, Instant)>,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), progress: None, told: None }
    }

    /// The same on a bar that is there already.
    pub(super) fn on(progress: &Progress) -> Self {
        Self { since: Instant::now(), progress: Some(progress.clone()), told: None }
    }

    /// It still lasts. What is said once must not change all the time: that belongs into `now`.
    pub(super) fn goes_on(&mut self, for_what: &str, now: &str) {
        if self.since.elapsed() < PATIENCE {
            return;
        }
        let progress = self.progress.get_or_insert_with(Progress::new);
        let is_new = |(told, at): &(String, Instant)| told != for_what && at.elapsed() >= AGAIN;
        if self.told.as_ref().is_none_or(is_new) {
            progress.above(|| say(&format!("waiting for {for_what}")));
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

/// Does the work of a session, and says for which transactions it waits when it lasts.
pub(super) async fn telling<T>(
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
            // What is done needs nobody to wait for it.
            biased;
            outcome = &mut work => return outcome,
            () = sleep(PATIENCE) => {}
        }
        // Who cannot be asked is no reason to give the work up.
        if other.is_none() {
            other = open(server, APPLICATION).await.ok();
        }
        let holder = match &other {
            Some(other) => holder(other, pid).await.ok().flatten(),
            None => None,
        };
        let (who, open_for) = holder.unwrap_or_else(|| ("the server".to_owned(), String::new()));
        waiting.goes_on(&who, &open_for);
    }
}

async fn own(sql: &Sql, doing: &str) -> Result<i32, Error> {
    let rows = sql.query(doing, "select pg_backend_pid()", &[]).await?;
    let pid = rows.first().map_or(Ok(0), |row| row.try_get(0));
    pid.map_err(|error| Error::sql(doing, error))
}

/// The first of those that a session waits for, and how long its transaction has been open.
pub(super) async fn holder(sql: &Sql, waits: i32) -> Result<Option<(String, String)>, Error> {
    const DOING: &str = "looking for what the session waits for";
    let rows = sql.query(DOING, HOLDERS, &[&waits]).await?;
    rows.first().map(|row| named(row).map_err(|error| Error::sql(DOING, error))).transpose()
}

/// The oldest transaction that has written something.
pub(super) async fn oldest(sql: &Sql) -> Result<Option<(String, String)>, Error> {
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
    // Since when, the server tells only to who may know it.
    let open_for = open_for.map(|seconds| format!(", open for {seconds} s")).unwrap_or_default();
    Ok((format!("the transaction of pid {pid}{application}"), open_for))
}
