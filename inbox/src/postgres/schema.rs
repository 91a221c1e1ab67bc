//! Version of the inbox's tables, and the check that they are as the statements expect.

use tokio_postgres::error::SqlState;

use super::connection::{Connection, Connector, Opener};
use super::error::{DriverError, Error};
use super::{SCHEMA, VERSION};

/// Statements that read no row of each table. They fail when a table or one of its columns is missing.
const PROBE: &str = "SELECT consumer, source, message_id, processed_at, content FROM inbox_message LIMIT 0; \
     SELECT id, consumer, topic, partition, epoch, begun_from, begun_until, consumer_group, next_offset FROM inbox_partition LIMIT 0; \
     SELECT partition_id, \"offset\", begun FROM inbox_attempt LIMIT 0; \
     SELECT partition_id, \"offset\", key, value, attempts, error, not_before, is_dead, number, begun FROM inbox_parked LIMIT 0; \
     SELECT consumer, topic, key, next, first FROM inbox_sequence LIMIT 0; \
     SELECT consumer, topic, key, number FROM inbox_sequence_dead LIMIT 0; \
     SELECT partition_id, source, first, last, message_ids, done_at FROM inbox_done LIMIT 0; \
     SELECT consumer, topic, partitions, source, by_ids FROM inbox_topic LIMIT 0";

/// Query for the newest version of the tables. It returns NULL if no version is stored.
const FIND_VERSION: &str = "SELECT max(version) FROM inbox_version";

impl<T> Connector<T> {
    /// Creates the inbox's tables, or migrates those of an older version to this one. The right to CREATE is needed only when there is
    /// something to change. Stop the consumers of an older version first.
    ///
    /// # Errors
    ///
    /// When PostgreSQL cannot be reached or refuses a statement, and when another program has a table with one of these names.
    pub async fn create_tables(&self) -> Result<(), crate::Error> {
        Ok(self.ensure_tables().await?)
    }

    pub(crate) async fn ensure_tables(&self) -> Result<(), Error> {
        let connection = self.opener().connect().await?;
        if connection.version().await? != Some(VERSION) {
            self.create(SCHEMA, "create the inbox's tables").await.map_err(of_creating)?;
        }
        connection.check_tables().await
    }
}

impl Opener {
    /// Checks that the tables are what the statements of the inbox expect.
    pub(crate) async fn check_tables(&self) -> Result<(), Error> {
        self.connect().await?.check_tables().await
    }
}

/// Converts an error of creating the tables. A column that is missing then belongs to a table of another program.
fn of_creating(error: Error) -> Error {
    match error {
        Error::Statement { source, .. } if is_undefined(&source) => Error::OtherTables { source },
        error => error,
    }
}

/// Reports whether a table or a column does not exist.
fn is_undefined(error: &DriverError) -> bool {
    let code = error.code();
    [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN]
        .iter()
        .any(|state| code.as_deref() == Some(state.code()))
}

impl Connection {
    /// Returns the version of the tables, if they have one.
    async fn version(&self) -> Result<Option<i32>, Error> {
        let doing = "read the version of the inbox's tables";
        let is_versioned = "SELECT to_regclass('inbox_version') IS NOT NULL";
        let row = self.query_one(is_versioned, &[]).await.map_err(Error::of(doing))?;
        if !row.get::<bool>(0).map_err(Error::of(doing))? {
            return Ok(None);
        }
        let row = self.query_one(FIND_VERSION, &[]).await.map_err(Error::of(doing))?;
        row.get(0).map_err(Error::of(doing))
    }

    async fn check_tables(&self) -> Result<(), Error> {
        match self.version().await? {
            Some(found) if found > VERSION => return Err(Error::NewerTables { found }),
            Some(VERSION) => {}
            found => return Err(Error::OldTables { found }),
        }
        match self.batch(PROBE).await {
            Ok(()) => Ok(()),
            Err(source) if is_undefined(&source) => Err(Error::OtherTables { source }),
            Err(source) => Err(Error::of("check the inbox's tables")(source)),
        }
    }
}
