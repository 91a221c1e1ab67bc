//! Tables created since the start whose rows are not sent: they would be captured, and are not in the
//! publication.

use std::time::{Duration, Instant};

use super::captured::{CapturedTable, CapturedTables, Look, unpublished};
use crate::postgres::{Error, Sql, Storage, TableFacts, TableVersion};
use crate::relay::parts::RelayParts;
use crate::telemetry::{Status, Unpublished};
use crate::wal::Oid;

/// Interval between two polls for new tables. A poll reads the names of all tables.
const INTERVAL: Duration = Duration::from_secs(5);

/// New tables that were found.
#[derive(Debug, Default)]
pub(in crate::relay) struct Newcomers {
    looked: Option<Instant>,
    /// The names of all tables at the last look.
    names: String,
    /// Captured tables that have come, and of which the stream has brought nothing yet.
    new: Vec<Oid>,
    /// Names quoted for SQL.
    inheriting: Vec<String>,
}

impl Newcomers {
    /// Polls, unless the last poll was a moment ago, and reports what is missing.
    ///
    /// # Errors
    /// When the server does not answer.
    pub(in crate::relay) async fn look(
        &mut self,
        parts: &RelayParts,
        sql: &Sql,
        captured: &CapturedTables,
        version_num: i32,
        status: &Status,
    ) -> Result<(), Error> {
        if self.looked.is_some_and(|looked| looked.elapsed() < INTERVAL) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let names = sql.names_of_tables().await?;
        if names != self.names {
            self.new = new(parts, sql, captured).await?;
            self.inheriting = inheriting(sql, captured).await?;
            self.names = names;
        }
        self.new.retain(|oid| captured.get(*oid).is_none());
        let unsent = unsent(parts, sql, &self.new, version_num).await?;
        status.unpublished(Unpublished { inheriting: self.inheriting.clone(), ..unsent });
        Ok(())
    }
}

/// Returns the tables that are not captured and whose rows a query of a captured one includes.
async fn inheriting(sql: &Sql, captured: &CapturedTables) -> Result<Vec<String>, Error> {
    let parents: Vec<Oid> = captured.list().iter().map(CapturedTable::oid).collect();
    let children = sql.inheriting(&parents).await?;
    let others = children.into_iter().filter(|(oid, _)| captured.get(*oid).is_none());
    Ok(others.map(|(_, name)| name).collect())
}

async fn new(parts: &RelayParts, sql: &Sql, captured: &CapturedTables) -> Result<Vec<Oid>, Error> {
    let all = sql.tables().await?;
    // A start refuses an unlogged one that a list names. Here each is named.
    let all: Vec<_> = all.into_iter().map(|table| TableFacts { logged: true, ..table }).collect();
    let (filter, route) = (&parts.tables, &parts.route);
    let is_taken =
        |table: &TableFacts| route.acts_on(&table.schema, &table.name) && route.fits(&table.columns);
    let found = filter.captured(&all, is_taken)?;
    let is_new = |table: &&&TableFacts| {
        let is_known = |oid| captured.get(oid).is_some();
        is_taken(table) && !is_known(table.oid) && !table.root.is_some_and(is_known)
    };
    Ok(found.iter().filter(is_new).map(|table| table.oid).collect())
}

/// Returns those whose rows are not in the stream.
async fn unsent(parts: &RelayParts, sql: &Sql, new: &[Oid], version_num: i32) -> Result<Unpublished, Error> {
    let name = &parts.postgres.publication.name;
    if new.is_empty() {
        return Ok(Unpublished::none(name));
    }
    let tables = sql.table_versions(new).await?;
    let mut asked = new.to_vec();
    asked.extend(tables.iter().flat_map(|table| table.ancestors.iter().copied().chain([table.oid])));
    let publication = sql.publication_version(name, &asked, version_num).await?;
    let (logged, unlogged): (Vec<_>, Vec<_>) =
        tables.into_iter().partition(|table| table.storage != Storage::Unlogged);
    Ok(Unpublished {
        tables: unpublished(&Look { publication, tables: logged, namesakes: Vec::new() }),
        unlogged: unlogged.iter().map(TableVersion::quoted).collect(),
        ..Unpublished::none(name)
    })
}
