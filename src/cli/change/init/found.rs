//! Search for the outbox.

use super::error::InitError;
use super::shape::{Named, Shape};
use crate::connect::column::ColumnDescription;
use crate::postgres::{Sql, TableFacts};

/// Table, and the meaning of its columns.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) table: TableFacts,
    pub(super) shape: Shape,
}

/// Searches for the outbox; `None` if no table resembles one.
pub(super) async fn find(
    sql: &Sql,
    database: &str,
    wanted: Option<&str>,
    preset: Option<&str>,
) -> Result<Option<Found>, InitError> {
    if let Some(preset) = preset.filter(|preset| !Shape::names().contains(preset)) {
        return Err(InitError::NoPreset(preset.to_owned()));
    }
    let all = sql.tables().await?;
    let partman: Vec<_> =
        all.iter().filter(|table| is_partman(table)).map(|table| table.schema.clone()).collect();
    // Partitions are covered by their root. Archives and templates of `pg_partman` have the columns of their outbox.
    let is_template =
        |table: &TableFacts| partman.contains(&table.schema) && table.name.starts_with("template_");
    let whole = all.into_iter().filter(|table| table.root.is_none() && !is_template(table));
    let mut candidates: Vec<_> = whole
        .filter(|table| match wanted {
            Some(wanted) => wanted == table.name || wanted == name(table),
            None => !table.name.ends_with("_archive") && looks_like_one(table, preset),
        })
        .collect();
    let table = match (candidates.len(), wanted) {
        (0, Some(wanted)) => {
            return Err(InitError::NoTable { table: wanted.to_owned(), database: database.to_owned() });
        }
        (0 | 1, _) => candidates.pop(),
        _ => return Err(InitError::Several { tables: candidates.iter().map(name).collect() }),
    };
    let Some(table) = table else { return Ok(None) };
    let columns = sql.describe(table.oid).await?;
    match Shape::of(&table.name, &named(&columns), preset) {
        Some(shape) => Ok(Some(Found { table, shape })),
        None => Err(InitError::NoShape { table: name(&table), preset: preset.map(str::to_owned) }),
    }
}

/// Returns the table's name for messages.
pub(super) fn name(table: &TableFacts) -> String {
    format!("{}.{}", table.schema, table.name)
}

/// Returns whether the schema is that of `pg_partman`, which is recognised by its table of settings.
fn is_partman(table: &TableFacts) -> bool {
    let has = |name: &str| table.columns.iter().any(|column| column == name);
    table.name == "part_config" && has("parent_table") && has("control")
}

fn looks_like_one(table: &TableFacts, preset: Option<&str>) -> bool {
    let untyped: Vec<_> = table.columns.iter().map(|column| (column.clone(), String::new())).collect();
    Shape::of(&table.name, &untyped, preset).is_some()
}

fn named(columns: &[ColumnDescription]) -> Vec<Named> {
    columns.iter().map(|column| (column.name.clone(), column.kind.underlying().pg_name())).collect()
}
