//! Tables that have come since the start, and whose rows nobody sends: they are captured, and the publication has not got them.

use std::time::{Duration, Instant};

use super::capture::{CapturedTables, Look, unpublished};
use super::parts::RelayParts;
use crate::postgres::{Error, Sql, TableFacts};
use crate::telemetry::Status;
use crate::wal::Oid;

/// How often new tables are looked for. A look reads the names of all tables.
const INTERVAL: Duration = Duration::from_secs(5);

/// What has been found of them.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    looked: Option<Instant>,
    /// The names of all tables at the last look.
    names: String,
    /// Those that are not published, as SQL wants their names.
    missing: Vec<String>,
}

impl Newcomers {
    /// Looks, unless that was done a moment ago, and says what is missing.
    ///
    /// # Errors
    /// When the server does not answer.
    pub(super) async fn look(
        &mut self,
        parts: &RelayParts,
        sql: &Sql,
        known: (&CapturedTables, i32),
        status: &Status,
    ) -> Result<(), Error> {
        if self.looked.is_some_and(|looked| looked.elapsed() < INTERVAL) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let names = sql.names_of_tables().await?;
        if names == self.names && self.missing.is_empty() {
            return Ok(());
        }
        self.missing = missing(parts, sql, known).await?;
        self.names = names;
        status.unpublished(&parts.postgres.publication.name, &self.missing);
        Ok(())
    }
}

async fn missing(
    parts: &RelayParts,
    sql: &Sql,
    (captured, version_num): (&CapturedTables, i32),
) -> Result<Vec<String>, Error> {
    let all = sql.tables().await?;
    // A start refuses an unlogged one. Here it is missing wherever the publication names its tables: it cannot be added.
    let all: Vec<_> = all.into_iter().map(|table| TableFacts { logged: true, ..table }).collect();
    let (filter, route) = (&parts.tables, &parts.route);
    let is_taken =
        |table: &TableFacts| route.acts_on(&table.schema, &table.name) && route.fits(&table.columns);
    let found = filter.captured(&all, is_taken)?;
    let is_new = |table: &&&TableFacts| {
        let is_known = |oid| captured.get(oid).is_some();
        is_taken(table) && !is_known(table.oid) && !table.root.is_some_and(is_known)
    };
    let new: Vec<Oid> = found.iter().filter(is_new).map(|table| table.oid).collect();
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let tables = sql.table_versions(&new).await?;
    let mut asked = new;
    asked.extend(tables.iter().flat_map(|table| table.ancestors.iter().copied().chain([table.oid])));
    let publication = sql.publication_version(&parts.postgres.publication.name, &asked, version_num).await?;
    Ok(unpublished(&Look { publication, tables, namesakes: Vec::new() }))
}
