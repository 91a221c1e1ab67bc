//! `outboxd migrate finish` from a poller.

use std::time::Duration;

use postgres_protocol::escape::escape_identifier;
use tokio::time::sleep;

use super::phase::Phase;
use super::site::Site;
use super::{drain, steps};
use crate::cli::change::migrate::args::{FinishArgs, From};
use crate::cli::change::migrate::error::MigrateError;
use crate::cli::change::migrate::outcome::Outcome;
use crate::cli::print_message;
use crate::cli::shell::ask::{Answer, confirmed};
use crate::cli::shell::progress::Progress;
use crate::cli::shell::steps::CompletedSteps;
use crate::error::Exit;
use crate::postgres::Error;

/// Query for the last session that searched for rows by the mark, within the last minute.
const POLLERS: &str = "
select pid, application_name from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
  and application_name not like 'outboxd%' and query_start > now() - interval '1 minute'
  and strpos(lower(query), lower($1)) > 0 and strpos(lower(query), lower($2)) > 0
  and query !~* '^\\s*(insert|alter|create|comment)'
order by query_start desc limit 1";

/// Query for the number of scans of the table and of its partitions.
const SCANS: &str = "
select coalesce(sum(coalesce(seq_scan, 0) + coalesce(idx_scan, 0)), 0)::bigint
from pg_stat_user_tables
where relid = $1 or relid in (select relid from pg_partition_tree($1::oid::regclass))";

/// Runs `outboxd migrate finish`.
pub(in crate::cli::change::migrate) async fn finish(args: &FinishArgs) -> Result<Exit, MigrateError> {
    let site = Site::look(&args.target).await?;
    let (table, mut doing) = (site.name(), CompletedSteps::default());
    let outcome = |doing| Outcome::new("finish", From::Poller, site.name(), doing);
    match site.phase() {
        Phase::Finished => {
            return Ok(outcome(doing)
                .said(format!("the migration of {table} is finished"))
                .report(args.json));
        }
        Phase::NotBegun | Phase::Foreign => return Err(MigrateError::NotBegun(table)),
        Phase::Returned => return Err(MigrateError::Past { table, why: "its rows are the poller's again" }),
        Phase::Published | Phase::Slotted | Phase::Draining => {
            return Err(MigrateError::NotSoFar {
                table,
                why: "the poller still has rows of its own to send",
            });
        }
        Phase::Drained | Phase::Finishing => {}
    }
    site.check_slot()?;
    site.check_unmarked()?;
    if site.phase() == Phase::Drained && site.unsent.rows > 0 {
        return Err(MigrateError::Unsent { table, rows: site.unsent.shown() });
    }
    if !args.poller_is_stopped {
        polled(&site, args.look).await?;
    }
    // A running outboxd would end: it cannot know the state of a publication between two checks.
    site.check_stopped()?;
    print_message(&format!(
        "new rows of {table} will have no mark any more: a poller that still runs, or is started again, would send all of them a \
         second time"
    ));
    if confirmed(&table, args.yes, "finishes").await == Answer::No {
        return Ok(outcome(doing).declined(args.json));
    }
    // This is the first step, so that the publication includes every row without a mark.
    drain::with_lock(&site, &mut doing, steps::widen(&site)).await?;
    // Until these transactions end, they may insert rows that the old publication excludes.
    drain::older_transactions(&site).await?;
    drain::with_lock(&site, &mut doing, steps::untrigger(&site)).await?;
    let said = format!("the migration of {table} is finished");
    let exit = outcome(doing).said(said).next("start outboxd again").report(args.json);
    print_message(&left(&site));
    Ok(exit)
}

/// Searches for a poller, first in the queries of the sessions, then in the scans of the table during the time `look`.
async fn polled(site: &Site, look: Duration) -> Result<(), MigrateError> {
    const DOING: &str = "looking for the poller";
    let get = |error| Error::sql(DOING, error);
    let (name, mark) = (site.table.name.as_str(), site.mark.column());
    let rows = site.sql.query(DOING, POLLERS, &[&name, &mark]).await?;
    let Some(row) = rows.first() else { return read(site, look).await };
    let (pid, application) = (row.try_get(0).map_err(get)?, row.try_get::<_, String>(1).map_err(get)?);
    Err(MigrateError::Polled {
        mark: mark.to_owned(),
        pid,
        application: crate::cli::shell::text::clean(&application),
    })
}

/// Checks that the table is not scanned during the time `look`. Only a poller needs to read an outbox, so its queries
/// show as scans.
async fn read(site: &Site, look: Duration) -> Result<(), MigrateError> {
    // This session's own scans are counted from the next statement on.
    site.sql.execute("looking for the poller", "SELECT pg_stat_force_next_flush()").await?;
    let before = scans(site).await?;
    let progress = Progress::new();
    progress.waiting("checking for programs that still poll");
    sleep(look).await;
    progress.end();
    match scans(site).await?.saturating_sub(before) {
        0 => Ok(()),
        scans => Err(MigrateError::Scanned { table: site.name(), scans, seconds: look.as_secs() }),
    }
}

async fn scans(site: &Site) -> Result<i64, Error> {
    const DOING: &str = "counting how often the table was read";
    let rows = site.sql.query(DOING, SCANS, &[&site.table.oid.0]).await?;
    let row = rows.first().ok_or(Error::Unexpected { message: "empty answer".to_owned(), doing: DOING })?;
    row.try_get(0).map_err(|error| Error::sql(DOING, error))
}

/// Returns the steps that remain for the user.
fn left(site: &Site) -> String {
    let (table, column) = (site.table.quoted(), escape_identifier(site.mark.column()));
    format!(
        "  later, when the application does not name the column any more: ALTER TABLE {table} DROP COLUMN \
         {column};\n  until then the poller's index grows with each row: DROP INDEX CONCURRENTLY …"
    )
}
