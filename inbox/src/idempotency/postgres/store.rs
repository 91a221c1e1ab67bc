//! Store in PostgreSQL.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{GenericClient, Row};

use super::super::answer::Answer;
use super::super::claim::{BeginOutcome, BeginRequest, Claim, ExtendOutcome, Fence, FinishOutcome, Outcome};
use super::super::key::Key;
use super::super::records::Records;
use super::super::store::{Store, StoreError};
use super::connections::Connections;
use super::purge::Purger;
use super::statements::{FINISH, SCHEMA};
use crate::postgres::Connector;

const STORE: &str = "PostgreSQL";

/// Maximum number of attempts at a begin, if the row changes between its two statements.
const ASKS_MAX: u32 = 3;

/// Default number of connections.
const CONNECTIONS_MAX: usize = 4;

/// Default interval of the deletion of expired records.
const PURGE_EVERY: Duration = Duration::from_secs(60);

/// Records in PostgreSQL. [`PostgresStore::finish_in`] stores the answer in the transaction of the effect: both are committed, or neither
/// is.
#[derive(Debug)]
pub struct PostgresStore {
    connections: Arc<Connections>,
    purger: Purger,
}

impl PostgresStore {
    /// Creates a store with up to four connections of its own.
    #[must_use]
    pub fn new(connector: Connector) -> Self {
        Self::with_connections(connector, NonZeroUsize::new(CONNECTIONS_MAX).unwrap_or(NonZeroUsize::MIN))
    }

    /// Creates a store with up to this number of connections of its own.
    #[must_use]
    pub fn with_connections(connector: Connector, connections: NonZeroUsize) -> Self {
        let connections = Arc::new(Connections::new(connector, connections));
        let purger = Purger::new(Arc::clone(&connections), PURGE_EVERY);
        Self { connections, purger }
    }

    /// Sets the interval at which expired records are deleted, one minute by default. The deletion starts with the first request that
    /// begins, and ends when this store is dropped.
    #[must_use]
    pub fn purge_every(mut self, every: Duration) -> Self {
        self.purger = Purger::new(Arc::clone(&self.connections), every);
        self
    }

    /// Creates the tables, unless they exist.
    ///
    /// # Errors
    ///
    /// When PostgreSQL cannot be reached, or the role has no right to create tables.
    pub async fn create_tables(&self) -> Result<(), crate::Error> {
        Ok(self.connections.connector().create(SCHEMA, "make the tables of the records").await?)
    }

    /// Finishes a claim in a transaction of the service. If it returns [`FinishOutcome::Fenced`], the claim has ended, and the transaction
    /// must be rolled back, because another owner may do the same work.
    ///
    /// # Errors
    ///
    /// When PostgreSQL does not answer. Then the transaction is lost anyway.
    pub async fn finish_in<C: GenericClient + Sync>(
        &self,
        transaction: &C,
        claim: &Claim,
        ending: &Outcome,
        keep: Duration,
    ) -> Result<FinishOutcome, StoreError> {
        finish(transaction, FINISH, claim, ending, keep).await
    }

    /// Deletes expired records, a thousand at a time, and returns the number of deleted records. The store also does this in the
    /// background.
    ///
    /// # Errors
    ///
    /// When PostgreSQL does not answer.
    pub async fn purge(&self) -> Result<u64, StoreError> {
        self.connections.purge().await.map_err(failed("purge"))
    }

    /// Attempts to begin once. Returns `None` if the row has changed in between.
    async fn try_begin(&self, key: &Key, entry: &BeginRequest) -> Result<Option<BeginOutcome>, StoreError> {
        let doing = "begin";
        let open = self.connections.get().await.map_err(failed(doing))?;
        let (scope, name, owner) = (key.scope(), key.name(), entry.owner.to_string());
        let fingerprint = entry.fingerprint.as_bytes();
        let (lease, keep) = (entry.lease.as_secs_f64(), entry.keep.as_secs_f64());
        let begin: [&(dyn ToSql + Sync); 6] = [&scope, &name, &owner, &fingerprint, &lease, &keep];
        let find: [&(dyn ToSql + Sync); 3] = [&scope, &name, &fingerprint];
        let client = open.session.client();
        // Both are sent before the first answer arrives.
        let (begun, found) =
            tokio::join!(client.query_opt(&open.begin, &begin), client.query_opt(&open.find, &find));
        if let Some(row) = begun.map_err(failed(doing))? {
            return Ok(Some(BeginOutcome::Run(claim(&row, key, entry).map_err(failed(doing))?)));
        }
        let Some(row) = found.map_err(failed(doing))? else { return Ok(None) };
        let found = Found::read(&row).map_err(failed(doing))?;
        found.judge().ok_or(StoreError::Unreadable { store: STORE })
    }
}

impl Store for PostgresStore {
    async fn begin(&self, key: &Key, entry: &BeginRequest) -> Result<BeginOutcome, StoreError> {
        self.purger.start();
        for _ in 0..ASKS_MAX {
            if let Some(begun) = self.try_begin(key, entry).await? {
                return Ok(begun);
            }
        }
        // Other owners changed the row during each attempt.
        Ok(BeginOutcome::InFlight { left: Duration::ZERO })
    }

    async fn extend(&self, claim: &Claim, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        let doing = "extend";
        let open = self.connections.get().await.map_err(failed(doing))?;
        let (scope, name, owner) = (claim.key.scope(), claim.key.name(), claim.owner.to_string());
        let (fence, lease) = (claim.fence.get(), lease.as_secs_f64());
        let extend: [&(dyn ToSql + Sync); 5] = [&scope, &name, &owner, &fence, &lease];
        let held: [&(dyn ToSql + Sync); 4] = [&scope, &name, &owner, &fence];
        let client = open.session.client();
        let (extended, held) =
            tokio::join!(client.execute(&open.extend, &extend), client.query_opt(&open.held, &held));
        if extended.map_err(failed(doing))? > 0 {
            return Ok(ExtendOutcome::Extended);
        }
        let Some(row) = held.map_err(failed(doing))? else { return Ok(ExtendOutcome::Fenced) };
        let state: String = row.try_get(0).map_err(failed(doing))?;
        match state.as_str() {
            "started" => Err(failed(doing)("it is just being finished")),
            _ => Ok(ExtendOutcome::AlreadyFinished),
        }
    }

    async fn finish(
        &self,
        claim: &Claim,
        ending: &Outcome,
        keep: Duration,
    ) -> Result<FinishOutcome, StoreError> {
        let open = self.connections.get().await.map_err(failed("finish"))?;
        finish(open.session.client(), &open.finish, claim, ending, keep).await
    }
}

async fn finish<C, T>(
    client: &C,
    statement: &T,
    claim: &Claim,
    ending: &Outcome,
    keep: Duration,
) -> Result<FinishOutcome, StoreError>
where
    C: GenericClient + Sync,
    T: ?Sized + tokio_postgres::ToStatement + Sync + Send,
{
    let (state, answer) = match ending {
        Outcome::Completed(answer) => ("completed", Some(answer.to_bytes())),
        Outcome::Failed(answer) => ("failed", Some(answer.to_bytes())),
        Outcome::Retryable => ("open", None),
    };
    let (scope, name, owner) = (claim.key.scope(), claim.key.name(), claim.owner.to_string());
    let (fence, keep) = (claim.fence.get(), keep.as_secs_f64());
    let parameters: [&(dyn ToSql + Sync); 7] = [&scope, &name, &owner, &fence, &state, &answer, &keep];
    let row = client.query_opt(statement, &parameters).await.map_err(failed("finish"))?;
    let Some(row) = row else { return Ok(FinishOutcome::Fenced) };
    let before: String = row.try_get(0).map_err(failed("finish"))?;
    Ok(if before == "started" || before == state {
        FinishOutcome::Written
    } else {
        FinishOutcome::AlreadyFinished
    })
}

fn claim(row: &Row, key: &Key, entry: &BeginRequest) -> Result<Claim, tokio_postgres::Error> {
    let (fence, attempts): (i64, i32) = (row.try_get(0)?, row.try_get(1)?);
    let attempt = u32::try_from(attempts).unwrap_or_default();
    Ok(Claim { key: key.clone(), owner: entry.owner, fence: Fence::from(fence), attempt })
}

/// Record that could not be begun.
struct Found {
    state: String,
    same: bool,
    answer: Option<Vec<u8>>,
    left: f64,
}

impl Found {
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            state: row.try_get(0)?,
            same: row.try_get(1)?,
            answer: row.try_get(2)?,
            left: row.try_get(3)?,
        })
    }

    /// Returns the outcome of a begin. The outer `None` means that the record cannot be read, the inner one that it can be begun by now.
    fn judge(self) -> Option<Option<BeginOutcome>> {
        let answer = || Answer::from_bytes(self.answer.as_deref()?);
        let left = Duration::try_from_secs_f64(self.left).ok();
        Some(match (self.same, self.state.as_str()) {
            (false, _) => Some(BeginOutcome::Mismatch),
            (true, "completed") => Some(BeginOutcome::Completed(answer()?)),
            (true, "failed") => Some(BeginOutcome::Failed(answer()?)),
            (true, "started") => left.map(|left| BeginOutcome::InFlight { left }),
            (true, "open") => None,
            _ => return None,
        })
    }
}

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    doing: &'static str,
) -> impl FnOnce(E) -> StoreError {
    move |source| StoreError::Failed { store: STORE, doing, source: source.into() }
}

impl Records<PostgresStore> {
    /// Finishes a claim in a transaction of the service, with [`PostgresStore::finish_in`].
    ///
    /// # Errors
    ///
    /// When PostgreSQL does not answer. Then the transaction is lost anyway.
    pub async fn finish_in<C: GenericClient + Sync>(
        &self,
        transaction: &C,
        claim: &Claim,
        ending: &Outcome,
    ) -> Result<FinishOutcome, StoreError> {
        self.store().finish_in(transaction, claim, ending, self.keep).await
    }
}
