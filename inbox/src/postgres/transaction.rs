//! Transactions in which events are remembered as done.

use std::collections::HashSet;
use std::sync::Arc;

use tokio_postgres::types::Type;

use super::connection::Connection;
use super::error::{DriverError, Error};
use super::session::Parameter;
use super::statements::{self, Mark};
use super::tenancy::Tenancy;
use crate::event::Identity;

/// Result of entering a transaction.
#[derive(Debug)]
pub(crate) enum Entered {
    /// The transaction has begun; with the sources and ids that are new.
    New(HashSet<(Arc<str>, Arc<str>)>),
    /// Another consumer has the partition. There is no transaction.
    Fenced,
}

/// Returns the identities as columns: sources, ids, contents.
fn columns<'i>(identities: &[&'i Identity]) -> (Vec<&'i str>, Vec<&'i str>, Vec<i64>) {
    let row = |identity: &&'i Identity| (&*identity.source, (&*identity.id, identity.content));
    let (sources, rest): (Vec<_>, Vec<(_, _)>) = identities.iter().map(row).unzip();
    let (ids, contents) = rest.into_iter().unzip();
    (sources, ids, contents)
}

impl Connection {
    /// Stores the mark, begins a transaction and remembers these ids in it, in one round trip.
    pub(crate) async fn enter(
        &self,
        tenancy: &Tenancy,
        mark: Mark,
        identities: &[&Identity],
    ) -> Result<Entered, Error> {
        let begin = tenancy.begin(mark);
        let (consumer, doing) = (&*tenancy.consumer, "remember the events");
        // Sorted, so that two batches cannot wait for each other. Of two events with the same id, the first one counts.
        let mut identities = identities.to_vec();
        identities.sort_by(|one, other| (&one.source, &one.id).cmp(&(&other.source, &other.id)));
        let (sources, ids, contents) = columns(&identities);
        let parameters: [Parameter<'_>; 6] = [
            (&tenancy.partition, Type::INT4),
            (&tenancy.epoch, Type::INT8),
            (&consumer, Type::TEXT),
            (&sources, Type::TEXT_ARRAY),
            (&ids, Type::TEXT_ARRAY),
            (&contents, Type::INT8_ARRAY),
        ];
        let enter = if tenancy.has_unscoped { statements::ENTER_UNSCOPED } else { statements::ENTER };
        let answers = self.begin_and_queries(begin, [(enter, &parameters)]).await;
        let [mut rows] = answers.map_err(Error::of(doing))?;
        let row = rows.pop().ok_or(DriverError::NoRow).map_err(Error::of(doing))?;
        if row.get(0).map_err(Error::of(doing))? {
            tenancy.set_marked(mark);
            let sources: Vec<String> = row.get(1).map_err(Error::of(doing))?;
            let ids: Vec<String> = row.get(2).map_err(Error::of(doing))?;
            let new = sources.into_iter().zip(ids).map(|(source, id)| (Arc::from(source), Arc::from(id)));
            return Ok(Entered::New(new.collect()));
        }
        self.batch(statements::ROLL_BACK).await.map_err(Error::of("roll back"))?;
        Ok(Entered::Fenced)
    }

    /// Reports whether one of these repeats has other content than the event that is remembered with its id.
    pub(crate) async fn has_other_content(
        &self,
        tenancy: &Tenancy,
        repeats: &[&Identity],
    ) -> Result<bool, Error> {
        if repeats.is_empty() {
            return Ok(false);
        }
        let (consumer, doing) = (&*tenancy.consumer, "compare repeats");
        let (sources, ids, contents) = columns(repeats);
        let parameters: [Parameter<'_>; 4] = [
            (&consumer, Type::TEXT),
            (&sources, Type::TEXT_ARRAY),
            (&ids, Type::TEXT_ARRAY),
            (&contents, Type::INT8_ARRAY),
        ];
        let row = self.query_one(statements::OTHER_CONTENT, &parameters).await;
        row.and_then(|row| row.get(0)).map_err(Error::of(doing))
    }

    /// Commits the transaction. It succeeds only when all changes since [`Self::enter`] are committed: not after a statement that failed,
    /// and not when the handler has ended the transaction.
    pub(crate) async fn commit(&self, tenancy: &Tenancy, mark: Mark) -> Result<(), Error> {
        let sql = statements::commit(tenancy.partition, mark);
        self.batch(&sql).await.map_err(Error::of_fence(super::error::COMMIT))
    }

    /// Reports whether the transaction of a handler that has failed is still the one that was entered.
    pub(crate) async fn is_fenced_in(&self) -> Result<bool, Error> {
        match self.batch(statements::CLOSE_FENCE).await.map_err(Error::of_fence("check the transaction")) {
            Ok(()) | Err(Error::StatementFailed) => Ok(true),
            Err(Error::TransactionEnded) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the cause of an error of the inbox's own statement that followed the handlers: these may have ended the transaction.
    pub(crate) async fn cause_of(&self, error: Error) -> Error {
        match self.is_fenced_in().await {
            Ok(false) => Error::TransactionEnded,
            Ok(true) | Err(_) => error,
        }
    }

    /// Reports whether nothing can be written to this database now.
    pub(crate) async fn is_read_only(&self) -> Result<bool, Error> {
        let doing = "check whether the database is read-only";
        let row = self.query_one(statements::IS_READ_ONLY, &[]).await;
        row.and_then(|row| row.get(0)).map_err(Error::of(doing))
    }

    /// Deletes the number of times that an event was begun, after it became a dead letter.
    pub(crate) async fn forget_begun(&self, tenancy: &Tenancy, offset: i64) -> Result<(), Error> {
        let sql = statements::end(tenancy.partition, offset);
        self.batch(&sql).await.map_err(Error::of("forget that an event was begun"))
    }

    /// Rolls the transaction back.
    pub(crate) async fn roll_back(&self, tenancy: &Tenancy, mark: Mark) -> Result<(), Error> {
        let sql = statements::roll_back(tenancy.partition, mark);
        self.batch(&sql).await.map_err(Error::of("roll back"))
    }
}
