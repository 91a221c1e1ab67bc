use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::delivery::Delivery;
use super::failure::{Failure, chain};
use super::handler::Handler;
use crate::core::{FailureKind, Job, Outcome, PartitionId, Reason, Surrender};
use crate::event::{Event, IdError, IdSource};
use crate::kafka::{DeadLetters, Retention, RetentionQuery};
use crate::postgres::{self, Connection, Connector, Entered, Tenancy};

/// What every task of a consumer needs.
pub(super) struct Context<H> {
    pub(super) connector: Connector,
    pub(super) consumer: Arc<str>,
    pub(super) ids: IdSource,
    pub(super) dead_letters: DeadLetters,
    pub(super) window: Duration,
    pub(super) handler: H,
}

/// A partition, taken, with how often handlers have begun its events without ending them.
pub(super) type Taken = (Tenancy, BTreeMap<i64, u32>);

impl<H: Handler> Context<H> {
    /// Takes a partition. The connection comes back when it can be used again.
    pub(super) async fn take(
        &self,
        connection: Option<Connection>,
        id: &PartitionId,
    ) -> (Option<Taken>, Option<Connection>) {
        let connection = match self.connection(connection).await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(error = chain(&error), "a partition is not taken yet");
                return (None, None);
            }
        };
        match postgres::take(&connection, &self.consumer, id).await {
            Ok(taken) => (Some(taken), Some(connection)),
            Err(error) => {
                tracing::warn!(error = chain(&error), "a partition is not taken yet");
                (None, None)
            }
        }
    }

    /// Warns when events can come again that are forgotten by then.
    pub(super) async fn check_window(&self, query: &RetentionQuery) {
        let topics = match query.ask().await {
            Ok(topics) => topics,
            Err(error) => {
                tracing::warn!(%error, "the topics' retention is not known, and so not compared with the window");
                return;
            }
        };
        for (topic, retention) in topics {
            if retention > Retention::Within(self.window) {
                tracing::warn!(
                    topic,
                    window = ?self.window,
                    ?retention,
                    "Kafka keeps records for longer than events are remembered: whoever reads the topic again applies the \
                     older ones again"
                );
            }
        }
    }

    /// Writes a dead letter.
    pub(super) async fn surrender(
        &self,
        connection: Option<Connection>,
        tenancy: Option<&Tenancy>,
        surrender: &Surrender,
    ) -> Option<Connection> {
        self.dead_letters.write(&self.consumer, surrender).await;
        let (Reason::Crashed, Some(tenancy)) = (surrender.reason, tenancy) else { return connection };
        let connection = self.connection(connection).await.ok()?;
        // Otherwise it counts against another event with this offset, should the topic be made anew.
        if let Err(error) = connection.forget_begun(tenancy, surrender.event.offset).await {
            tracing::warn!(error = chain(&error), "how often an event was begun is not forgotten");
        }
        Some(connection)
    }

    /// Forgets what was done longer ago than the window.
    pub(super) async fn purge(&self, connection: Option<Connection>) -> Option<Connection> {
        let connection = self.connection(connection).await.ok()?;
        match postgres::purge(&connection, &self.consumer, self.window).await {
            Ok(count) => tracing::debug!(count, "old events are forgotten"),
            Err(error) => tracing::warn!(error = chain(&error), "old events are not forgotten yet"),
        }
        Some(connection)
    }

    /// Handles the events of a job in one transaction. The connection comes back when it can be used again.
    pub(super) async fn handle(
        &self,
        connection: Option<Connection>,
        tenancy: &Tenancy,
        job: &Job,
    ) -> (Outcome, Option<Connection>) {
        let deliveries = match self.deliveries(job) {
            Ok(deliveries) => deliveries,
            Err(error) => {
                let outcome = Outcome::Failed { kind: FailureKind::Poison, error: error.to_string() };
                return (outcome, connection);
            }
        };
        let connection = match self.connection(connection).await {
            Ok(connection) => connection,
            Err(error) => return (of_inbox(&error), None),
        };
        match self.in_transaction(&connection, tenancy, job, deliveries).await {
            Ok(outcome) => (outcome, Some(connection)),
            Err(error) => (of_inbox(&error), None),
        }
    }

    /// An error means that the connection cannot be used again.
    async fn in_transaction(
        &self,
        connection: &Connection,
        tenancy: &Tenancy,
        job: &Job,
        deliveries: Vec<Delivery>,
    ) -> Result<Outcome, postgres::Error> {
        let offsets: Vec<i64> = job.events.iter().map(|event| event.offset).collect();
        let mut ids: Vec<&str> = deliveries.iter().map(Delivery::id).collect();
        ids.sort_unstable();
        let mut new = match connection.enter(tenancy, &offsets, job.begun, &ids).await? {
            Entered::Fenced => return Ok(Outcome::Fenced),
            Entered::New(new) => new,
        };
        // The same event twice in a batch: the first one counts.
        let deliveries: Vec<Delivery> =
            deliveries.into_iter().filter(|delivery| new.remove(delivery.id())).collect();
        let handled = match deliveries.is_empty() {
            true => Ok(()),
            false => self.call(connection, deliveries).await,
        };
        if !connection.is_given_back() {
            return Err(postgres::Error::TransactionKept);
        }
        if let Err(failure) = handled {
            connection.roll_back(tenancy, &offsets).await?;
            return Ok(of_handler(&failure));
        }
        match connection.commit(tenancy, &offsets).await {
            Ok(()) => Ok(Outcome::Done),
            Err(error) if error.is_transient() => Err(error),
            Err(error) => {
                connection.roll_back(tenancy, &offsets).await?;
                Ok(of_inbox(&error))
            }
        }
    }

    /// A handler that panics has failed.
    async fn call(&self, connection: &Connection, deliveries: Vec<Delivery>) -> Result<(), Failure> {
        let handled = AssertUnwindSafe(self.handler.handle(connection.transaction(), deliveries));
        let caught = handled.catch_unwind().await;
        caught.unwrap_or_else(|_| Err(Failure::retry("the handler panicked")))
    }

    fn deliveries(&self, job: &Job) -> Result<Vec<Delivery>, IdError> {
        let delivery = |event: &Arc<Event>| {
            let id = Arc::from(self.ids.id(event)?);
            Ok(Delivery { event: Arc::clone(event), id, attempt: job.attempt })
        };
        job.events.iter().map(delivery).collect()
    }

    async fn connection(&self, connection: Option<Connection>) -> Result<Connection, postgres::Error> {
        match connection.filter(Connection::is_usable) {
            Some(connection) => Ok(connection),
            None => self.connector.connect().await,
        }
    }
}

fn of_inbox(error: &postgres::Error) -> Outcome {
    if error.is_transient() {
        tracing::warn!(error = chain(error), "PostgreSQL is not available: the events are begun again");
        return Outcome::Unavailable;
    }
    Outcome::Failed { kind: FailureKind::Retry, error: chain(error) }
}

fn of_handler(failure: &Failure) -> Outcome {
    match failure.postgres() {
        Some(error) if postgres::is_transient(error) => {
            tracing::warn!(
                error = failure.chain(),
                "PostgreSQL is not available: the events are begun again"
            );
            Outcome::Unavailable
        }
        _ => Outcome::Failed { kind: failure.kind(), error: failure.chain() },
    }
}
