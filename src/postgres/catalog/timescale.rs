//! TimescaleDB's catalog: which chunk belongs to which hypertable.

use tokio_postgres::Row;

use crate::postgres::Error;
use crate::postgres::connections::sql::Sql;

/// Contents of TimescaleDB's catalog.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TimescaleFacts {
    /// Schema and name of each chunk, and of its hypertable.
    pub(crate) chunks: Vec<[String; 4]>,
    /// Number, schema and name of each hypertable.
    pub(crate) hypertables: Vec<(i32, [String; 2])>,
    /// Schema and name of each hypertable that holds a continuous aggregate, and of that.
    pub(crate) aggregates: Vec<[String; 4]>,
}

const DOING: &str = "reading TimescaleDB's catalog";

const VERSION: &str = "select extversion from pg_extension where extname = 'timescaledb'";

const CHUNKS: &str = "
select c.schema_name::text, c.table_name::text, h.schema_name::text, h.table_name::text
from _timescaledb_catalog.chunk c join _timescaledb_catalog.hypertable h on h.id = c.hypertable_id";

/// Query for 2.29 and later.
const CHUNKS_BY_OID: &str = "
select n.nspname::text, r.relname::text, h.schema_name::text, h.table_name::text
from _timescaledb_catalog.chunk c join pg_class r on r.oid = c.relid join pg_namespace n on n.oid = r.relnamespace
     join _timescaledb_catalog.hypertable h on h.id = c.hypertable_id";

const HYPERTABLES: &str =
    "select id, schema_name::text, table_name::text from _timescaledb_catalog.hypertable";

const AGGREGATES: &str = "
select h.schema_name::text, h.table_name::text, a.user_view_schema::text, a.user_view_name::text
from _timescaledb_catalog.continuous_agg a join _timescaledb_catalog.hypertable h on h.id = a.mat_hypertable_id";

impl Sql {
    /// Reads TimescaleDB's catalog.
    ///
    /// # Errors
    /// When the extension is not installed, its version is unknown, or a query fails.
    pub(crate) async fn timescale(&self) -> Result<TimescaleFacts, Error> {
        let version = self.query(DOING, VERSION, &[]).await?;
        let version: Option<String> = version.first().map(|row| row.try_get(0)).transpose().map_err(get)?;
        let Some(version) = version else {
            return Err(Error::Precondition {
                problem: "transform TimescaleDb needs TimescaleDB, which is not installed in this database"
                    .to_owned(),
                fix:
                    "as a superuser: CREATE EXTENSION timescaledb;\nor take the transform out of `transforms`"
                        .to_owned(),
            });
        };
        let has_oids = has_oids(&version).ok_or_else(|| Error::Precondition {
            problem: format!("TimescaleDB is of version {version:?}, which is no version"),
            fix: "as a superuser: ALTER EXTENSION timescaledb UPDATE;".to_owned(),
        })?;
        let chunks = self.query(DOING, if has_oids { CHUNKS_BY_OID } else { CHUNKS }, &[]).await?;
        let hypertables = self.query(DOING, HYPERTABLES, &[]).await?;
        let aggregates = self.query(DOING, AGGREGATES, &[]).await?;
        let named = |row: &Row| {
            Ok((row.try_get(0).map_err(get)?, [row.try_get(1).map_err(get)?, row.try_get(2).map_err(get)?]))
        };
        Ok(TimescaleFacts {
            chunks: chunks.iter().map(pair).collect::<Result<_, _>>()?,
            hypertables: hypertables.iter().map(named).collect::<Result<_, Error>>()?,
            aggregates: aggregates.iter().map(pair).collect::<Result<_, _>>()?,
        })
    }
}

fn pair(row: &Row) -> Result<[String; 4], Error> {
    let text = |at: usize| row.try_get(at).map_err(get);
    Ok([text(0)?, text(1)?, text(2)?, text(3)?])
}

fn get(error: tokio_postgres::Error) -> Error {
    Error::sql(DOING, error)
}

/// Returns whether chunks are identified by their object ids instead of their names.
fn has_oids(version: &str) -> Option<bool> {
    let mut parts = version.split('.');
    let (major, minor): (u32, u32) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((major, minor) >= (2, 29))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_decides_how_chunks_are_read() {
        let cases = [
            ("2.26.1", Some(false)),
            ("2.29.0", Some(true)),
            ("2.28", Some(false)),
            ("3.0.0-dev", Some(true)),
            ("2", None),
            ("2.x", None),
        ];
        for (version, expected) in cases {
            assert_eq!(has_oids(version), expected, "{version}");
        }
    }
}
