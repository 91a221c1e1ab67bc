use postgres_protocol::escape::escape_identifier;

use crate::postgres::{Error, Sql, TableFacts};

/// Who makes and drops the partitions of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Manager {
    /// Nobody that we know of.
    Nobody,
    /// `pg_partman`.
    Partman(Partman),
    /// `pg_partman` is there, and we may not read what it does.
    Unknown {
        /// Its schema.
        schema: String,
    },
}

/// What `pg_partman` does with a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partman {
    /// Its table of settings, as SQL wants it.
    pub(crate) config: String,
    /// After this time, or so many numbers, it takes partitions away.
    pub(crate) retention: Option<String>,
    /// It detaches them, or moves them to another schema, and drops nothing.
    pub(crate) keeps_table: bool,
}

/// By its form, wherever it was installed: nothing else has it, and who takes another for it leaves the partitions alone.
const CONFIGS: &str = "
select n.nspname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relname = 'part_config' and c.relkind = 'r'
  and 2 = (select count(*) from pg_attribute a where a.attrelid = c.oid and a.attname in ('parent_table', 'control'))
order by 1";
const INSUFFICIENT_PRIVILEGE: &str = "42501";

impl Manager {
    /// Why outboxd leaves the partitions to it.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Self::Nobody => None,
            Self::Partman(Partman { config, .. }) => {
                Some(format!("pg_partman makes and drops its partitions, as {config} says"))
            }
            Self::Unknown { schema } => Some(format!(
                "pg_partman may make and drop its partitions: the role may not read {schema}.part_config"
            )),
        }
    }

    /// Of this table.
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
