use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;

use tokio_postgres::Client;

use super::connection::Connection;
use super::error::Error;
use super::statements;
use super::tenancy::Tenancy;

/// The transaction in which an event is remembered as done. What a handler does in it is committed with that, or not at
/// all.
///
/// It is used like a [`Client`]. The inbox commits it, or rolls it back when the handler fails; a handler does neither. It
/// must not be kept.
#[derive(Debug, Clone)]
pub struct Transaction {
    client: Arc<Client>,
}

impl Deref for Transaction {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// How entering a transaction went.
#[derive(Debug)]
pub(crate) enum Entered {
    /// In it. The ids that were not known.
    New(HashSet<String>),
    /// Another consumer has the partition. There is no transaction.
    Fenced,
}

impl Connection {
    /// Begins a transaction and remembers these ids in it, in one round trip. The ids are sorted, so that two batches
    /// cannot wait for each other.
    pub(crate) async fn enter(
        &self,
        tenancy: &Tenancy,
        offsets: &[i64],
        begun: u32,
        ids: &[&str],
    ) -> Result<Entered, Error> {
        let begin = statements::begin(tenancy.partition, tenancy.epoch, offsets, begun);
        let consumer = &*tenancy.consumer;
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&tenancy.partition, &tenancy.epoch, &consumer, &ids];
        // Both are sent before the first is answered.
        let (begun, row) =
            tokio::join!(self.client.batch_execute(&begin), self.client.query_one(&self.enter, &parameters));
        begun.map_err(Error::of("begin"))?;
        let doing = "remember the events";
        let row = row.map_err(Error::of(doing))?;
        if row.try_get(0).map_err(Error::of(doing))? {
            let new: Vec<String> = row.try_get(1).map_err(Error::of(doing))?;
            return Ok(Entered::New(new.into_iter().collect()));
        }
        self.client.batch_execute("ROLLBACK").await.map_err(Error::of("roll back"))?;
        Ok(Entered::Fenced)
    }

    /// The transaction, for the handler.
    pub(crate) fn transaction(&self) -> Transaction {
        Transaction { client: Arc::clone(&self.client) }
    }

    /// Whether the handler has given back its transaction.
    pub(crate) fn is_given_back(&self) -> bool {
        Arc::strong_count(&self.client) == 1
    }

    /// Commits it.
    pub(crate) async fn commit(&self, tenancy: &Tenancy, offsets: &[i64]) -> Result<(), Error> {
        let sql = statements::commit(tenancy.partition, offsets);
        self.client.batch_execute(&sql).await.map_err(Error::of("commit"))
    }

    /// Forgets how often an event was begun: it has been given up.
    pub(crate) async fn forget_begun(&self, tenancy: &Tenancy, offset: i64) -> Result<(), Error> {
        let sql = statements::end(tenancy.partition, &[offset]);
        self.client.batch_execute(&sql).await.map_err(Error::of("forget that an event was begun"))
    }

    /// Undoes it.
    pub(crate) async fn roll_back(&self, tenancy: &Tenancy, offsets: &[i64]) -> Result<(), Error> {
        let sql = statements::roll_back(tenancy.partition, offsets);
        self.client.batch_execute(&sql).await.map_err(Error::of("roll back"))
    }
}
