//! Changes that would not be sent without the slot.

use postgres_protocol::escape::escape_identifier;
use serde::Serialize;

use crate::error::chain;
use crate::postgres::{Error, SlotFacts, Sql};
use crate::wal::Lsn;

/// Most changes that are counted. The server reads to the end of the transaction that exceeds it.
const CHANGES_MAX: i32 = 10_000;

/// Changes that would not be sent any more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Loss {
    pub(super) from: Option<String>,
    pub(super) to: String,
    /// Bytes of WAL, also that of other tables.
    pub(super) bytes: Option<u64>,
    /// Publication whose tables' changes are counted. The server does not know which one the readers of a
    /// slot name.
    pub(super) publication: String,
    /// `None` when they cannot be counted, for the reason given.
    pub(super) changes: Option<Changes>,
    pub(super) uncounted_because: Option<String>,
}

/// The changes of published tables.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Changes {
    pub(super) rows: i64,
    pub(super) transactions: i64,
    /// True if there may be more.
    pub(super) at_least: bool,
    /// Commit times of the first and the last of them, as the server shows times.
    pub(super) first: Option<String>,
    pub(super) last: Option<String>,
}

/// Query of the changes. The messages of pgoutput begin with a character for their type; a Begin has its time
/// after the LSN. Peeking does not advance the slot.
const PEEK: &str = "
with seen as (
  select chr(get_byte(data, 0)) as kind, data
  from pg_logical_slot_peek_binary_changes($1, $2::text::pg_lsn, $3, 'proto_version', '1', 'publication_names', $4)),
begun as (
  select timestamptz '2000-01-01 00:00:00+00'
         + ('x' || encode(substring(data from 10 for 8), 'hex'))::bit(64)::bigint * interval '1 microsecond' as at
  from seen where kind = 'B')
select count(*) filter (where kind in ('I', 'U', 'D', 'T')), count(*) filter (where kind = 'C'),
       (select to_char(min(at), 'YYYY-MM-DD HH24:MI:SSOF') from begun),
       (select to_char(max(at), 'YYYY-MM-DD HH24:MI:SSOF') from begun),
       count(*)
from seen";

impl Loss {
    /// Determines what lies between the slot's position and `to`; the end of the WAL when that is not given.
    pub(super) async fn of(
        sql: &Sql,
        slot: &str,
        facts: &SlotFacts,
        publication: &str,
        to: Option<Lsn>,
    ) -> Self {
        let (counted, because) = match peek(sql, slot, publication, to).await {
            Ok(changes) => (Some(changes), None),
            Err(error) => (None, Some(chain(&error))),
        };
        let end = to.unwrap_or(facts.server_lsn);
        Self {
            from: facts.confirmed_flush_lsn.map(|lsn| lsn.to_string()),
            to: end.to_string(),
            bytes: facts.confirmed_flush_lsn.map(|from| end.bytes_since(from)),
            publication: publication.to_owned(),
            changes: counted,
            uncounted_because: because,
        }
    }
}

async fn peek(sql: &Sql, slot: &str, publication: &str, to: Option<Lsn>) -> Result<Changes, Error> {
    const DOING: &str = "counting what the slot has not sent";
    let to = to.map(|lsn| lsn.to_string());
    // A list of names, which the server converts to lower case unless they are quoted.
    let publications = escape_identifier(publication);
    let rows = sql.query(DOING, PEEK, &[&slot, &to, &CHANGES_MAX, &publications]).await?;
    let row = rows.first().ok_or(Error::Unexpected { message: "empty answer".to_owned(), doing: DOING })?;
    let get = |error| Error::sql(DOING, error);
    let messages: i64 = row.try_get(4).map_err(get)?;
    Ok(Changes {
        rows: row.try_get(0).map_err(get)?,
        transactions: row.try_get(1).map_err(get)?,
        at_least: messages >= i64::from(CHANGES_MAX),
        first: row.try_get(2).map_err(get)?,
        last: row.try_get(3).map_err(get)?,
    })
}
