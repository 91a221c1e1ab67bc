//! The catalog in a bundle.

use serde_json::{Map, Value};

use super::error::BundleError;
use crate::cli::shell::sql::open;
use crate::config::{DatabaseConfig, Sources};
use crate::error::{Diagnose, Diagnosis};
use crate::postgres;

const APPLICATION: &str = "outboxd debug";

/// Name and query of each part. No query reads a row of a user's table.
const PARTS: [(&str, &str); 6] = [
    ("server", "SELECT version(), pg_is_in_recovery() AS in_recovery, current_database() AS database"),
    (
        "settings",
        "SELECT name, setting, unit, source FROM pg_settings WHERE name LIKE 'wal\\_%' OR name LIKE 'max\\_%wal%'
         OR name LIKE '%replication%' OR name LIKE '%standby%' OR name IN ('max_wal_senders', 'TimeZone',
         'server_encoding', 'statement_timeout', 'idle_in_transaction_session_timeout') ORDER BY name",
    ),
    ("slots", "SELECT *, pg_current_wal_lsn_if_any.lsn AS server_lsn FROM pg_replication_slots,
         (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS lsn)
             AS pg_current_wal_lsn_if_any"),
    ("publications", "SELECT * FROM pg_publication"),
    ("publication_tables", "SELECT * FROM pg_publication_tables ORDER BY 1, 2, 3"),
    (
        "tables",
        "SELECT n.nspname AS schema, c.relname AS table, c.oid, c.relkind, c.relreplident, c.relpersistence,
                (SELECT jsonb_agg(jsonb_build_array(a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull)
                                  ORDER BY a.attnum)
                 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
         FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE c.relkind IN ('r', 'p') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
         ORDER BY 1, 2 LIMIT 500",
    ),
];

/// Reads slots, publications, tables and settings, as one JSON object.
pub(super) async fn read(sources: &Sources) -> Result<String, CatalogError> {
    let config = DatabaseConfig::load(sources).map_err(|error| BundleError::Config(Box::new(error)))?;
    let sql = open(&config.options.server, APPLICATION).await?;
    let mut parts = Map::new();
    for (name, query) in PARTS {
        let all =
            format!("SELECT coalesce(jsonb_agg(to_jsonb(part)), '[]'::jsonb)::text FROM ({query}) AS part");
        let text =
            sql.texts("reading the catalog", &all).await?.and_then(|row| row.into_iter().next().flatten());
        let value = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
        parts.insert(name.to_owned(), value);
    }
    Ok(format!("{:#}", Value::Object(parts)))
}

/// Reasons why the catalog is not in the bundle.
#[derive(Debug, thiserror::Error)]
pub(super) enum CatalogError {
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
}

impl Diagnose for CatalogError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Bundle(error) => error.diagnosis(),
            Self::Postgres(error) => error.diagnosis(),
        }
    }
}
