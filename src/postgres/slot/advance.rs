//! Move of an existing slot to the position of a snapshot, which is sent before the stream.

use postgres_protocol::escape::escape_identifier;

use super::OBJECT_IN_USE;
use crate::postgres::connections::connection::Connection;
use crate::postgres::connections::sql::Sql;
use crate::postgres::{Error, Slot, SlotOptions, SnapshotSlot};

impl SlotOptions {
    /// Moves a slot that was there before to where the rows of a snapshot were read.
    ///
    /// # Errors
    /// When the server refuses, or another session has the slot.
    pub async fn advance_to(&self, temporary: &SnapshotSlot, sql: &Sql) -> Result<Slot, Error> {
        const DOING: &str = "advancing the slot to the snapshot";
        let (name, to) = (self.name.as_str(), temporary.consistent_point);
        let advance = "select pg_replication_slot_advance($1::text::name, $2::text::pg_lsn)::text";
        match sql.query(DOING, advance, &[&name, &to.to_string()]).await {
            Err(error) if error.sqlstate() == Some(OBJECT_IN_USE) => {
                if let Some(facts) = sql.slot(&self.name).await? {
                    self.check_free(&facts)?;
                }
                Err(error)
            }
            outcome => outcome.map(|_| Slot { confirmed_flush_lsn: to, created: false }),
        }
    }

    /// Drops the slot of a snapshot that is sent.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn drop_temporary(
        &self,
        temporary: &SnapshotSlot,
        connection: &mut Connection,
    ) -> Result<(), Error> {
        let drop = format!("DROP_REPLICATION_SLOT {}", escape_identifier(&temporary.name));
        connection.command("dropping the temporary slot", &drop).await.map(|_| ())
    }
}
