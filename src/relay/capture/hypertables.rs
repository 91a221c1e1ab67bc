//! Catalog queries for the transform TimescaleDb, made before a record of a chunk reaches the transform.

use super::route::Route;
use crate::change::ChangeEvents;
use crate::connect::transform::debezium::timescale::{Catalog, TableName};
use crate::postgres::{Error, Sql, TimescaleFacts};

/// Reads the catalog if the route has such a transform.
///
/// # Errors
/// When TimescaleDB is not there, or the catalog cannot be read.
pub(crate) async fn learn(sql: &Sql, route: &Route) -> Result<(), Error> {
    let Some(changes) = route.changes() else { return Ok(()) };
    if changes.hypertables().next().is_some() {
        read(sql, route).await?;
    }
    Ok(())
}

/// Does the same as [`learn`] if the table may be a chunk that is not known yet.
///
/// # Errors
/// As [`learn`].
pub(crate) async fn learn_chunk(sql: &Sql, route: &Route, schema: &str, table: &str) -> Result<(), Error> {
    let Some(changes) = route.changes() else { return Ok(()) };
    let chunk = TableName { schema: schema.to_owned(), name: table.to_owned() };
    if !changes.hypertables().any(|hypertables| hypertables.lacks(&chunk)) {
        return Ok(());
    }
    read(sql, route).await?;
    if changes.hypertables().any(|hypertables| hypertables.lacks(&chunk) && !hypertables.knows(&chunk)) {
        tracing::warn!(
            schema,
            table,
            "the hypertable of this table is unknown: its events are sent unchanged"
        );
    }
    Ok(())
}

async fn read(sql: &Sql, route: &Route) -> Result<(), Error> {
    let facts = sql.timescale().await?;
    for hypertables in route.changes().into_iter().flat_map(ChangeEvents::hypertables) {
        hypertables.learn(catalog(&facts));
    }
    Ok(())
}

fn catalog(facts: &TimescaleFacts) -> Catalog {
    let table = |[schema, name]: &[String; 2]| TableName { schema: schema.clone(), name: name.clone() };
    let pair = |[schema, name, owners_schema, owner]: &[String; 4]| {
        (
            TableName { schema: schema.clone(), name: name.clone() },
            TableName { schema: owners_schema.clone(), name: owner.clone() },
        )
    };
    Catalog {
        chunks: facts.chunks.iter().map(pair).collect(),
        hypertables: facts.hypertables.iter().map(|(number, name)| (*number, table(name))).collect(),
        aggregates: facts.aggregates.iter().map(pair).collect(),
    }
}
