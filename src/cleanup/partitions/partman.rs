//! Tables whose partitions another program manages.

use postgres_protocol::escape::escape_identifier;

use crate::postgres::{Error, Sql, TableFacts};

/// Program that creates and drops the partitions of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Manager {
    /// None that is known.
    Nobody,
    /// `pg_partman`.
    Partman(Partman),
    /// `pg_partman` is there, and we may not read what it does.
    Unknown {
        /// Its schema.
        schema: String,
    },
}

/// Settings of `pg_partman` for a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partman {
    /// Its table of settings, quoted for SQL.
    pub(crate) config: String,
    /// Time, or number, after which it removes partitions.
    pub(crate) retention: Option<String>,
    /// True if it detaches them, or moves them to another schema, and drops nothing.
    pub(crate) keeps_table: bool,
}

/// Query that finds it by its form, wherever it was installed: no other table has that form, and a mistake
/// only leaves the partitions unchanged.
const CONFIGS: &str = "
select n.nspname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relname = 'part_config' and c.relkind = 'r'
  and 2 = (select count(*) from pg_attribute a where a.attrelid = c.oid and a.attname in ('parent_table', 'control'))
order by 1";
const INSUFFICIENT_PRIVILEGE: &str = "42501";

impl Manager {
    /// Returns why outboxd leaves the partitions to it.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Self::Nobody => None,
            Self::Partman(Partman { config, .. }) => {
                Some(format!("pg_partman creates and drops its partitions, as {config} requires"))
            }
            Self::Unknown { schema } => Some(format!(
                "pg_partman may make and drop its partitions: the role may not read {schema}.part_config"
            )),
        }
    }

    /// Finds the manager of this table.
    pub(crate) async fn find(sql: &Sql, table: &TableFacts) -> Result<Self, Error> {
        const DOING: &str = "reading what pg_partman does";
        let get = |error| Error::sql(DOING, error);
        let name = format!("{}.{}", table.schema, table.name);
        for row in sql.query(DOING, CONFIGS, &[]).await? {
            let schema: String = row.try_get(0).map_err(get)?;
            let config = format!("{}.part_config", escape_identifier(&schema));
            // Other versions have other columns.
            let text = format!(
                "select to_jsonb(p)->>'retention',
                        coalesce(to_jsonb(p)->>'retention_keep_table', 'true') = 'true' or to_jsonb(p)->>'retention_schema' is not null
                 from {config} p where p.parent_table = $1"
            );
            match sql.query(DOING, &text, &[&name]).await {
                Ok(rows) => {
                    let Some(row) = rows.first() else { continue };
                    let (retention, keeps_table) =
                        (row.try_get(0).map_err(get)?, row.try_get(1).map_err(get)?);
                    return Ok(Self::Partman(Partman { config, retention, keeps_table }));
                }
                Err(error) if error.sqlstate() == Some(INSUFFICIENT_PRIVILEGE) => {
                    return Ok(Self::Unknown { schema });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self::Nobody)
    }
}
