//! Positions that are done.

use tokio_postgres::types::Type;

use super::connection::Connection;
use super::error::{DriverError, Error};
use super::session::Row;
use super::statements::{GREATEST, HAS_IDS};
use super::tenancy::Tenancy;
use crate::event::Position;

/// Reads the greatest positions of a partition that are done. Returns `None` if positions are not comparable, or the consumer remembers
/// events by id.
pub(super) async fn greatest(
    connection: &Connection,
    tenancy: &Tenancy,
) -> Result<Option<Vec<Position>>, Error> {
    if tenancy.comparable.is_none() {
        return Ok(None);
    }
    let doing = "read the positions that are done";
    let consumer = &*tenancy.consumer;
    let has_ids = connection.query_one(HAS_IDS, &[(&consumer, Type::TEXT)]).await;
    if has_ids.and_then(|row| row.get(0)).map_err(Error::of(doing))? {
        return Ok(None);
    }
    let rows =
        connection.query(GREATEST, &[(&tenancy.partition, Type::INT4)]).await.map_err(Error::of(doing))?;
    let position = |row: &Row| Ok::<_, DriverError>(Position { source: row.get(0)?, place: row.get(1)? });
    rows.iter().map(position).collect::<Result<_, _>>().map(Some).map_err(Error::of(doing))
}
