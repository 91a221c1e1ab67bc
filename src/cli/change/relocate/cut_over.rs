//! `outboxd move cut-over`.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use postgres_protocol::escape::escape_identifier;

use super::args::CutOverArgs;
use super::compare::{Comparison, compare};
use super::error::MoveError;
use super::report;
use super::rights::{self, let_readers_read};
use super::site::Site;
use crate::cli::prove::verify::keeps_commit_times;
use crate::cli::shell::progress::Progress;
use crate::cli::shell::typed::quoted;
use crate::cli::{print, print_message};
use crate::error::Exit;
use crate::postgres::Error;
use crate::relay::{self, stored_position};

/// The table of the ids that are in Kafka, beside the outbox.
pub(super) const TABLE: &str = "outboxd_moved";

/// The first line of a file that we have written.
const MADE: &str = "# written by outboxd move cut-over, for one start";

/// Number of ids in one write.
const BATCH: usize = 10_000;

/// Time that the brokers may take to report whether a slot of this name was read before.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `outboxd move cut-over`.
pub(super) async fn cut_over(args: &CutOverArgs) -> Result<Exit, MoveError> {
    check_file(&args.into)?;
    let progress = Progress::new();
    let site = Site::look(&args.target, &progress).await?;
    site.obstacles().into_iter().next().map_or(Ok(()), Err)?;
    let found = compare(&site, &args.target, &progress).await?;
    site.check_arrived(&args.target, &found, &progress).await?;
    keep(&site, &found.sent, &progress).await?;
    progress.end();
    let order = order(&site, args.order_by.as_deref()).await?;
    let told = first_configuration(&site, args, &order).await?;
    write(&args.into, &told)?;
    print_message(&format!("wrote table {} and {}", table(&site), args.into.display()));
    if let Some(doubt) = order.doubt(&found) {
        print_message(&format!("warning: {doubt}"));
    }
    if let rows @ 1.. = found.without_id.sent {
        print_message(&format!(
            "warning: {rows} rows without an id are in Kafka, and will be sent again: the first start recognizes rows by their ids"
        ));
    }
    if args.target.json {
        print(&report::object(&site, &found));
    } else {
        print(&report::moved(&site, &found));
    }
    let now = format!(
        "  now: outboxd run -c FILE -c {into}   once; then without it\n  then: outboxd move verify TARGET",
        into = quoted(&args.into.display().to_string())
    );
    print_message(&args.target.in_commands(&now));
    print_message(&format!("  at the end: DROP TABLE {};", table(&site)));
    Ok(Exit::Ok)
}

/// Stores the ids that are sent. Those of an earlier run may be outdated.
async fn keep(site: &Site, sent: &[String], progress: &Progress) -> Result<(), Error> {
    const DOING: &str = "storing the ids of rows that were sent";
    let table = table(site);
    // CREATE TABLE IF NOT EXISTS needs the right to create also where the table exists.
    let is_there = site.sql.query(DOING, "select to_regclass($1) is not null", &[&table]).await?;
    let is_there = is_there.first().is_some_and(|row| row.try_get(0).unwrap_or(false));
    let create =
        if is_there { String::new() } else { format!("CREATE TABLE {table} (id text PRIMARY KEY); ") };
    site.sql.execute(DOING, &format!("BEGIN; {create}TRUNCATE {table}")).await?;
    if !is_there {
        let_readers_read(&site.sql, &site.outbox.table).await?;
    }
    let insert = format!(
        "INSERT INTO {table} SELECT DISTINCT id FROM unnest($1::text[]) AS id ON CONFLICT DO NOTHING"
    );
    progress.begin("writing ids", u64::try_from(sent.len()).ok());
    for batch in sent.chunks(BATCH) {
        site.sql.query(DOING, &insert, &[&batch]).await?;
        progress.advance(u64::try_from(batch.len()).unwrap_or_default());
    }
    site.sql.execute(DOING, "COMMIT").await
}

fn table(site: &Site) -> String {
    rights::quoted(&site.outbox.table)
}

/// Returns the configuration of the first start: its snapshot sends the rows that are not in Kafka. A row
/// that was written since is not in the table of sent ids.
async fn first_configuration(
    site: &Site,
    args: &CutOverArgs,
    order: &SendOrder,
) -> Result<String, MoveError> {
    let (id, name) = (site.id_column()?, site.name());
    let known =
        args.target.sent.as_deref().map(|sent| format!(" AND ({sent}) IS NOT TRUE")).unwrap_or_default();
    let order = order.terms();
    let select = format!(
        "SELECT * FROM {} AS moved WHERE NOT EXISTS (SELECT FROM {} AS sent WHERE sent.id OPERATOR(pg_catalog.=) moved.{id}::pg_catalog.text){known} ORDER BY {order}",
        site.outbox.table.quoted(),
        table(site)
    );
    let mut settings = vec![
        ("snapshot.mode".to_owned(), "initial".to_owned()),
        ("snapshot.select.statement.overrides".to_owned(), name.clone()),
        (format!("snapshot.select.statement.overrides.{name}"), select),
    ];
    // There was such a slot, on the other server or here: the start is configured to accept that.
    let kept = stored_position(std::sync::Arc::clone(&site.parts), PATIENCE).await?;
    if let Some(kept) = kept.filter(|kept| kept.phase == relay::Phase::Streaming) {
        settings.push(("outboxd.position.accept".to_owned(), kept.lsn.to_string()));
    }
    let settings = settings.iter().map(|(key, value)| format!("{key}={}\n", value.replace('\\', "\\\\")));
    Ok(format!("{MADE}\n{}", settings.collect::<String>()))
}

/// Order in which the missing rows are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SendOrder {
    /// By this column.
    Column(String),
    /// In the order of their transactions' commits.
    Commits,
    /// In the order in which their transactions began to write.
    Begins,
}

/// Returns the order. The server has that of the commits only with `track_commit_timestamp=on`.
pub(super) async fn order(site: &Site, column: Option<&str>) -> Result<SendOrder, Error> {
    Ok(match column {
        Some(column) => SendOrder::Column(column.to_owned()),
        None if keeps_commit_times(&site.sql).await? => SendOrder::Commits,
        None => SendOrder::Begins,
    })
}

impl SendOrder {
    /// Returns the SQL terms. Rows of one transaction are ordered by their commands, those of one COPY by
    /// their places in the table.
    fn terms(&self) -> String {
        const IN_TRANSACTION: &str =
            "pg_catalog.age(moved.xmin) DESC, moved.cmin::pg_catalog.text::bigint, moved.ctid";
        match self {
            Self::Column(column) => format!("moved.{}", escape_identifier(column)),
            // A row from before the setting was on has no time: it is older than all that have one.
            Self::Commits => format!(
                "CASE WHEN moved.xmin::pg_catalog.text OPERATOR(pg_catalog.<>) '0' THEN pg_catalog.pg_xact_commit_timestamp(moved.xmin) END NULLS FIRST, {IN_TRANSACTION}"
            ),
            Self::Begins => IN_TRANSACTION.to_owned(),
        }
    }

    /// Returns the doubt about it, if there is one.
    pub(super) fn doubt(&self, found: &Comparison) -> Option<&'static str> {
        (*self == Self::Begins && found.unsent_count() > 1).then_some(
            "the rows will be sent in the order in which their transactions began to write. Where transactions ran side by side, the \
             order of their commits may have been another one: this server does not store it (track_commit_timestamp is off). If \
             events of one key were written by such transactions, name a column that grows with each event of a key: --order-by COLUMN",
        )
    }
}

/// Checks the file: one of an earlier run is overwritten, any other stays.
fn check_file(path: &Path) -> Result<(), MoveError> {
    match std::fs::read_to_string(path) {
        Ok(text) if text.starts_with(MADE) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // Also what is no text.
        Ok(_) => Err(MoveError::FileThere(path.display().to_string())),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            Err(MoveError::FileThere(path.display().to_string()))
        }
        Err(source) => Err(MoveError::File { path: path.display().to_string(), source }),
    }
}

fn write(path: &Path, text: &str) -> Result<(), MoveError> {
    std::fs::write(path, text).map_err(|source| MoveError::File { path: path.display().to_string(), source })
}

/// Returns the rows that will be sent first.
pub(super) fn first(found: &Comparison) -> Vec<String> {
    found.unsent.iter().take(report::SHOWN_MAX).cloned().collect()
}
