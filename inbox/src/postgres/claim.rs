//! Claim of an event by an existing consumer of any broker, which checks in its own transaction whether the event is new.

use tokio_postgres::types::Type;

use super::error::Error;

/// Function of the schema, which other languages call too.
const CLAIM: &str = "SELECT inbox_claim($1, $2, $3)";

/// Result of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The event is new, and remembered if the transaction is committed.
    New,
    /// The event was handled before: nothing must be done.
    Repeat,
}

/// Remembers an event in a transaction of the service, in one round trip. All changes that the event causes belong into the same
/// transaction. `source` is the scope of the id: a topic, a queue, or the source of a CloudEvent. If another transaction is handling the
/// event, the call waits for its end. The consumer itself is responsible for the order of the events of a key.
///
/// # Errors
///
/// When PostgreSQL refuses the statement, for example because the tables do not exist ([`super::SCHEMA`]).
pub async fn claim(
    transaction: &tokio_postgres::Transaction<'_>,
    consumer: &str,
    source: &str,
    id: &str,
) -> Result<Claim, crate::Error> {
    let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&consumer, Type::TEXT), (&source, Type::TEXT), (&id, Type::TEXT)];
    let rows = transaction.query_typed(CLAIM, &parameters).await;
    let is_new = rows.and_then(|rows| rows.first().map_or(Ok(false), |row| row.try_get(0)));
    Ok(is_new.map(Claim::of).map_err(Error::of("claim an event"))?)
}

/// Remembers an event as [`claim`] does, with sqlx. A `Transaction` gives its connection by `&mut *transaction`.
///
/// # Errors
///
/// As [`claim`].
#[cfg(feature = "sqlx")]
pub async fn claim_with_sqlx(
    transaction: &mut sqlx::PgConnection,
    consumer: &str,
    source: &str,
    id: &str,
) -> Result<Claim, crate::Error> {
    let query = sqlx::query_scalar::<_, bool>(CLAIM).bind(consumer).bind(source).bind(id);
    Ok(query.fetch_one(transaction).await.map(Claim::of).map_err(Error::of("claim an event"))?)
}

impl Claim {
    const fn of(is_new: bool) -> Self {
        if is_new { Self::New } else { Self::Repeat }
    }
}
