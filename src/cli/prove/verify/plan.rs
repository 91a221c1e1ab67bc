//! Plan of what is read, and how: decided before the first row.

use postgres_protocol::escape::{escape_identifier, escape_literal};

use super::clock::{Clock, Order, TimeColumn, Window};
use super::error::VerifyError;
use crate::cli::args::{Sample, VerifyArgs};
use crate::cli::prove::check::tables;
use crate::cli::prove::check::tables::Outbox;
use crate::connect::column::ColumnDescription;
use crate::outbox::{EventRouter, OutboxTable};
use crate::postgres::{Sql, TableFacts};
use crate::relay::{Capture, RelayParts, relation_of};
use crate::verification::TraceHeaders;

/// A table, and the statements that read it.
#[derive(Debug)]
pub(super) struct TablePlan {
    pub(super) facts: TableFacts,
    pub(super) bound: OutboxTable,
    /// The columns of a row that are the table's own; others follow.
    pub(super) columns: usize,
    pub(super) clock: Clock,
    pub(super) order: Order,
    condition: String,
    select: String,
}

/// Everything that is read.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) tables: Vec<TablePlan>,
    pub(super) window: Window,
    /// Record timestamp from which on the topics are read; none is from their beginning.
    pub(super) topics_since_ms: Option<i64>,
    /// The share of all identities that is looked at, of 2^32.
    pub(super) share: Option<u64>,
    pub(super) traces: TraceHeaders,
}

/// Request.
#[derive(Debug, Clone, Copy, Default)]
struct Asked<'a> {
    window: Window,
    keeps_commit_times: bool,
    time_column: Option<&'a str>,
    order_by: Option<&'a str>,
    sample: Option<Sample>,
    /// Ids of the only rows to read.
    ids: Option<&'a [String]>,
}

/// Records are sent after their row was written. The clocks of the machines differ by less than this.
const CLOCKS_DIFFER_MS: i64 = 600_000;

impl Plan {
    pub(super) async fn new(
        sql: &Sql,
        parts: &RelayParts,
        capture: Capture,
        args: &VerifyArgs,
    ) -> Result<Self, VerifyError> {
        let window = window(sql, args).await?;
        let keeps_commit_times = keeps_commit_times(sql).await?;
        let args = Asked {
            window,
            keeps_commit_times,
            time_column: args.time_column.as_deref(),
            order_by: args.order_by.as_deref(),
            sample: args.sample,
            ids: None,
        };
        Self::of(sql, parts, capture, args).await
    }

    /// Plans the rows with these ids.
    pub(super) async fn of_ids(
        sql: &Sql,
        parts: &RelayParts,
        capture: Capture,
        ids: &[String],
    ) -> Result<Self, VerifyError> {
        Self::of(sql, parts, capture, Asked { ids: Some(ids), ..Asked::default() }).await
    }

    /// Plans all rows.
    pub(super) async fn whole(sql: &Sql, parts: &RelayParts, capture: Capture) -> Result<Self, VerifyError> {
        Self::of(sql, parts, capture, Asked::default()).await
    }

    async fn of(
        sql: &Sql,
        parts: &RelayParts,
        capture: Capture,
        args: Asked<'_>,
    ) -> Result<Self, VerifyError> {
        let window = args.window;
        let mut tables = Vec::new();
        for facts in capture.tables {
            let columns = sql.describe(facts.oid).await?;
            tables.push(TablePlan::new(parts, facts, &columns, args)?);
        }
        let topics_since_ms = topics_since(window, &tables);
        let share = share_of(sql, args.sample, tables.iter().map(TablePlan::count)).await?;
        let has_spans = parts.route.outbox().is_some_and(EventRouter::has_spans);
        let traces = if has_spans { TraceHeaders::Skipped } else { TraceHeaders::Compared };
        Ok(Self { tables, window, topics_since_ms, share, traces })
    }

    /// Returns whether every row and every record is read.
    pub(super) fn is_whole(&self) -> bool {
        self.window == Window::default() && self.share.is_none()
    }

    /// Returns the server's estimate of the number of rows.
    pub(super) async fn estimate(&self, sql: &Sql) -> Option<u64> {
        let tables = self.tables.iter().map(|table| &table.facts);
        estimate(sql, tables).await.filter(|_| self.window == Window::default())
    }
}

/// Returns the server's estimate of the number of rows of tables.
pub(super) async fn estimate(sql: &Sql, tables: impl Iterator<Item = &TableFacts>) -> Option<u64> {
    const ROWS: &str = "
        select sum(greatest(c.reltuples, 0))::bigint from pg_class c
        where c.relkind <> 'p' and (c.oid = any($1) or c.oid in (select p.relid from unnest($1::oid[]) t, pg_partition_tree(t) p where p.isleaf))";
    let oids: Vec<u32> = tables.map(|table| table.oid.0).collect();
    let rows = sql.query("estimating the number of rows", ROWS, &[&oids]).await.ok()?;
    let count: i64 = rows.first()?.try_get::<_, Option<i64>>(0).ok()??;
    u64::try_from(count).ok().filter(|count| *count > 0)
}

/// Returns the requested share of all rows; `counts` are the statements that count them.
pub(super) async fn share_of(
    sql: &Sql,
    sample: Option<Sample>,
    counts: impl Iterator<Item = String>,
) -> Result<Option<u64>, VerifyError> {
    let wanted = match sample {
        None => return Ok(None),
        Some(Sample::Share(share)) => return Ok(Some(share)),
        Some(Sample::Rows(rows)) => rows,
    };
    let mut all = 0_u64;
    for count in counts {
        let rows = sql.query("counting rows", &count, &[]).await?;
        let count: i64 = rows.first().and_then(|row| row.try_get(0).ok()).unwrap_or_default();
        all = all.saturating_add(u64::try_from(count).unwrap_or_default());
    }
    let share = u128::from(wanted).saturating_mul(1 << 32).checked_div(u128::from(all));
    Ok(share.filter(|share| *share < 1 << 32).and_then(|share| u64::try_from(share).ok()))
}

impl TablePlan {
    fn new(
        parts: &RelayParts,
        facts: TableFacts,
        columns: &[ColumnDescription],
        args: Asked<'_>,
    ) -> Result<Self, VerifyError> {
        let Asked { window, keeps_commit_times, time_column, order_by, .. } = args;
        let router = parts.route.outbox().ok_or(VerifyError::NothingIsSent)?;
        let bound = router.bind(&relation_of(&facts, columns), columns).map_err(crate::relay::Error::from)?;
        let of_commit = |clock| if keeps_commit_times { clock } else { Clock::Unknown };
        let time_column = time_column.map(|name| named(&bound, columns, name, "--time-column"));
        let clock = match time_column.transpose()? {
            Some(column) => {
                Clock::Column(TimeColumn::new(column).ok_or_else(|| no_time(&bound, &column.name))?)
            }
            None => {
                let column =
                    columns.iter().find(|column| Some(column.name.as_str()) == bound.timestamp_column());
                column.and_then(TimeColumn::new).map_or_else(|| of_commit(Clock::CommitTime), Clock::Column)
            }
        };
        let order = match order_by {
            Some(name) => Order::by(named(&bound, columns, name, "--order-by")?)?,
            None if keeps_commit_times => Order::CommitTime,
            None => Order::Unknown,
        };
        let condition = clock.condition(window);
        if condition.is_none() && window != Window::default() {
            return Err(no_clock(&bound));
        }
        let condition = match args.ids {
            Some(ids) => Some(has_id(router, &facts, columns, ids)),
            None => condition,
        };
        let condition = condition.map_or_else(String::new, |condition| format!(" WHERE {condition}"));
        let quote = escape_identifier;
        let own = columns.iter().map(|column| quote(&column.name));
        let added =
            ["tableoid::oid::text".to_owned(), "ctid::text".to_owned(), order.number(), clock.millis()];
        let all: Vec<_> = own.chain(added).collect();
        let select = format!("SELECT {} FROM {}{condition}", all.join(", "), facts.quoted());
        Ok(Self { columns: columns.len(), facts, bound, clock, order, condition, select })
    }

    /// Reads its rows.
    pub(super) fn select(&self) -> &str {
        &self.select
    }

    fn count(&self) -> String {
        format!("SELECT count(*) FROM {}{}", self.facts.quoted(), self.condition)
    }
}

/// Returns the condition that a row has one of these ids.
fn has_id(router: &EventRouter, facts: &TableFacts, columns: &[ColumnDescription], ids: &[String]) -> String {
    let (outbox, _) = tables::bind(router, facts, columns.to_vec());
    let column = outbox.as_ref().and_then(Outbox::id_column).map(escape_identifier);
    let ids: Vec<String> = ids.iter().map(|id| escape_literal(id)).collect();
    match column {
        Some(column) if !ids.is_empty() => format!("{column}::text IN ({})", ids.join(", ")),
        _ => "false".to_owned(),
    }
}

/// Returns the time from which on a row of the window can be in the topics. That is known when the record's
/// timestamp is the column that the window is about, or the time of sending.
fn topics_since(window: Window, tables: &[TablePlan]) -> Option<i64> {
    let since = window.since_ms?;
    let of_table = |table: &TablePlan| match (table.bound.timestamp_column(), &table.clock) {
        (None, _) => Some(since.saturating_sub(CLOCKS_DIFFER_MS)),
        (Some(decides), Clock::Column(column)) if column.name == decides => Some(since),
        _ => None,
    };
    let all: Option<Vec<_>> = tables.iter().map(of_table).collect();
    all?.into_iter().min()
}

fn named<'c>(
    bound: &OutboxTable,
    columns: &'c [ColumnDescription],
    name: &str,
    option: &str,
) -> Result<&'c ColumnDescription, VerifyError> {
    columns.iter().find(|column| column.name == name).ok_or_else(|| VerifyError::Usage {
        problem: format!("{option}: table {} has no column \"{name}\"", bound.name()),
        fix: format!(
            "its columns are: {}",
            columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
        ),
    })
}

fn no_time(bound: &OutboxTable, column: &str) -> VerifyError {
    VerifyError::Usage {
        problem: format!("--time-column: column \"{column}\" of table {} is not a time", bound.name()),
        fix: "name a column of type timestamp, timestamptz, or bigint (milliseconds since 1970)".to_owned(),
    }
}

fn no_clock(bound: &OutboxTable) -> VerifyError {
    VerifyError::Usage {
        problem: format!(
            "--since, --until: no column has the time at which a row of table {} was written",
            bound.name()
        ),
        fix: "name a column that does: --time-column COLUMN".to_owned(),
    }
}

async fn window(sql: &Sql, args: &VerifyArgs) -> Result<Window, VerifyError> {
    Ok(Window {
        since_ms: moment(sql, "--since", args.since.as_deref()).await?,
        until_ms: moment(sql, "--until", args.until.as_deref()).await?,
    })
}

/// Parses a time: the server reads the text as a time, or as a time before now.
async fn moment(sql: &Sql, option: &str, text: Option<&str>) -> Result<Option<i64>, VerifyError> {
    const TIME: &str = "select (extract(epoch from $1::text::timestamptz) * 1000)::bigint";
    const AGO: &str = "select (extract(epoch from now() - $1::text::interval) * 1000)::bigint";
    let Some(text) = text else { return Ok(None) };
    for query in [TIME, AGO] {
        match sql.query("reading a time", query, &[&text]).await {
            Ok(rows) => return Ok(rows.first().and_then(|row| row.try_get(0).ok())),
            // "Data exception": it is no text of that type.
            Err(error) if error.sqlstate().is_some_and(|code| code.starts_with("22")) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(VerifyError::Usage {
        problem: format!("{option}: {text:?} is not a time"),
        fix: format!("{option} '2026-01-31 12:00+00', or how long ago: {option} '2 hours'"),
    })
}

/// Returns whether the server stores when each transaction has committed.
pub(in crate::cli) async fn keeps_commit_times(sql: &Sql) -> Result<bool, crate::postgres::Error> {
    const SETTING: &str = "select current_setting('track_commit_timestamp')";
    let rows = sql.query("reading a setting", SETTING, &[]).await?;
    Ok(rows.first().and_then(|row| row.try_get::<_, String>(0).ok()).is_some_and(|value| value == "on"))
}
