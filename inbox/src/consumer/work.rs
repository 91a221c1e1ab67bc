//! Transactions of the handlers.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::dedupe::Dedupe;
use super::delivery::Delivery;
use super::failure::{Failure, chain};
use super::handler::Handler;
use super::telemetry::{self, End, Telemetry};
use crate::core::{FailureKind, Job, JobId, Order, Outcome, PartitionId, Uncharged};
use crate::event::{Event, IdError, IdScope, IdSource, Identity};
use crate::kafka::{DeadLetters, InboxContext, Partitions, Retention, RetentionQuery};
use crate::postgres::{self, Connection, Doubts, Entered, Mark, Opener, Remembers, Taken, Tenancy};
use crate::retry_topic::RetryTopics;

/// Settings and connections that every task of a consumer needs.
pub(super) struct Context<H> {
    pub(super) opener: Opener,
    pub(super) consumer: Arc<str>,
    pub(super) ids: IdSource,
    pub(super) id_scope: IdScope,
    pub(super) dedupe: Dedupe,
    /// First number of each key, if it is configured.
    pub(super) first_number: Option<i64>,
    /// Transactions of broken connections, which may still be committed without an answer.
    pub(super) doubts: Doubts,
    #[cfg_attr(not(feature = "position"), allow(dead_code, reason = "only positions depend on it"))]
    pub(super) order: Order,
    pub(super) parked_max: usize,
    pub(super) handler_within: Duration,
    pub(super) retry_topics: Option<RetryTopics>,
    pub(super) dead_letters: DeadLetters,
    pub(super) window: Duration,
    pub(super) telemetry: Telemetry,
    /// Sender that notifies the loop of a job whose transaction is being committed.
    pub(super) committing: mpsc::Sender<JobId>,
    pub(super) handler: H,
}

impl<H: Handler> Context<H> {
    /// Takes a partition. Returns the connection if it can be used again.
    pub(super) async fn take<C: InboxContext>(
        &self,
        connection: Option<Connection>,
        id: &PartitionId,
        partitions: Partitions<C>,
        group: Option<&str>,
    ) -> (Option<Taken>, Option<Connection>) {
        let Some(remembers) = self.remembers(id, partitions).await else { return (None, connection) };
        let connection = match self.connection(connection).await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(error = chain(&error), "a partition is not taken yet");
                return (None, None);
            }
        };
        match postgres::take(&connection, &self.consumer, id, remembers, group).await {
            Ok(taken) => {
                if let Some(other) = &taken.other_group {
                    tracing::warn!(
                        topic = &*id.topic,
                        partition = id.partition,
                        consumer = &*self.consumer,
                        group,
                        other,
                        "another consumer group uses this consumer name: each event is applied for one of them only. Give \
                         each its own consumer name, unless the group was renamed"
                    );
                }
                (Some(taken), Some(connection))
            }
            Err(error) => {
                tracing::warn!(error = chain(&error), "a partition is not taken yet");
                (None, None)
            }
        }
    }

    /// Gives partitions back that this consumer held. If that fails, a few of their events are handled one by one.
    pub(super) async fn give_back(
        &self,
        connection: Option<Connection>,
        tenancies: &[Tenancy],
    ) -> Option<Connection> {
        let connection = self.connection(connection).await.ok()?;
        for tenancy in tenancies {
            if let Err(error) = postgres::give_back(&connection, tenancy).await {
                tracing::debug!(error = chain(&error), "a partition is not given back");
                return None;
            }
        }
        Some(connection)
    }

    /// Returns what the consumer stores of handled events; `None` if Kafka does not answer.
    #[cfg_attr(not(feature = "position"), allow(unused_variables, reason = "only positions ask Kafka"))]
    async fn remembers<C: InboxContext>(
        &self,
        id: &PartitionId,
        partitions: Partitions<C>,
    ) -> Option<Remembers> {
        match self.dedupe {
            Dedupe::Ids => Some(Remembers::Ids),
            Dedupe::Sequence(_) => Some(Remembers::Numbers),
            #[cfg(feature = "position")]
            Dedupe::Position => Self::count(id, partitions).await.map(Remembers::Positions),
        }
    }

    /// Warns if Kafka retains records for longer than the window, so that repeats could be applied again.
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
                    "Kafka retains records for longer than ids are remembered: what is read or replayed again after that is \
                     applied again"
                );
            }
        }
    }

    /// Deletes the rows of events that were handled longer ago than the window.
    pub(super) async fn purge(&self, connection: Option<Connection>) -> Option<Connection> {
        let connection = self.connection(connection).await.ok()?;
        match postgres::purge(&connection, &self.consumer, self.window).await {
            Ok(count) => tracing::debug!(count, "old events are forgotten"),
            Err(error) => tracing::warn!(error = chain(&error), "old events are not forgotten yet"),
        }
        Some(connection)
    }

    /// Handles the events of a job in one transaction. `fresh` marks the events that are certainly new. Returns the
    /// connection if it can be used again.
    #[cfg_attr(
        not(feature = "position"),
        allow(unused_variables, reason = "only positions tell what is new")
    )]
    pub(super) async fn handle(
        &self,
        connection: Option<Connection>,
        tenancy: &Tenancy,
        job: &Job,
        fresh: &[bool],
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
        if !connection.is_of(tenancy) {
            return (Outcome::Moved, Some(connection));
        }
        // A transaction of a broken connection may contain the same events.
        if let Err(error) = self.doubts.end(&connection).await {
            tracing::warn!(
                error = chain(&error),
                "a transaction whose connection has broken has not ended yet"
            );
            return (Outcome::Unavailable, None);
        }
        let (began, span) = (Instant::now(), telemetry::span(&self.consumer, &deliveries));
        let handled = async {
            match (&self.dedupe, &tenancy.comparable) {
                (Dedupe::Sequence(source), _) => {
                    self.by_sequence(source, &connection, tenancy, job, deliveries).await
                }
                #[cfg(feature = "position")]
                (Dedupe::Position, Some(comparable)) => {
                    self.by_position(&connection, tenancy, job, comparable, fresh, deliveries).await
                }
                _ => self.by_ids(&connection, tenancy, job, deliveries).await,
            }
        };
        let (outcome, connection) = match handled.instrument(span.clone()).await {
            // The connection may be the cause, for example by a plan that PostgreSQL cached before a table changed.
            Ok(outcome @ Outcome::Failed { kind: FailureKind::Retry, .. }) => (outcome, None),
            Ok(outcome) => (outcome, Some(connection)),
            Err(error) => {
                self.doubts.add(&connection).await;
                drop(connection);
                self.after(&error).await
            }
        };
        let error = telemetry::error_type(&outcome);
        span.record("error.type", error);
        self.telemetry.processed(&job.tenure.partition.topic, began.elapsed(), error);
        (outcome, connection)
    }

    /// Returns the outcome of a transaction whose connection cannot be used any more. If another connection can be opened,
    /// this event may have broken the first one, and other events need not wait.
    async fn after(&self, error: &postgres::Error) -> (Outcome, Option<Connection>) {
        if !error.is_transient() {
            return (of_inbox(error), None);
        }
        match self.opener.connect().await {
            Ok(connection) => {
                let outcome = Outcome::Uncharged { reason: Uncharged::Broken, error: chain(error) };
                (outcome, Some(connection))
            }
            Err(error) => (of_inbox(&error), None),
        }
    }

    /// Handles the events of a job whose ids are new. An error means that the connection cannot be used again.
    async fn by_ids(
        &self,
        connection: &Connection,
        tenancy: &Tenancy,
        job: &Job,
        deliveries: Vec<Delivery>,
    ) -> Result<Outcome, postgres::Error> {
        let mark = tenancy.mark(job);
        let identities: Vec<&Identity> = deliveries.iter().map(Delivery::identity).collect();
        let entered = connection.enter(tenancy, mark, &identities).await?;
        self.run_new(connection, tenancy, job, deliveries, entered, mark).await
    }

    /// Handles the events that are not done, in the transaction that was entered.
    pub(super) async fn run_new(
        &self,
        connection: &Connection,
        tenancy: &Tenancy,
        job: &Job,
        deliveries: Vec<Delivery>,
        entered: Entered,
        mark: Mark,
    ) -> Result<Outcome, postgres::Error> {
        let Entered::New(mut new) = entered else { return Ok(Outcome::Fenced) };
        // If the same event is twice in a batch, the first one counts.
        let (deliveries, repeats): (Vec<Delivery>, Vec<Delivery>) =
            deliveries.into_iter().partition(|delivery| new.remove(&delivery.identity().scoped_id()));
        let identities: Vec<&Identity> = repeats.iter().map(Delivery::identity).collect();
        if tenancy.comparable.is_none() && connection.has_other_content(tenancy, &identities).await? {
            connection.roll_back(tenancy, mark).await?;
            let error =
                "another event with this id was handled before, and its key or value differs".to_owned();
            return Ok(Outcome::Failed { kind: FailureKind::Poison, error });
        }
        let new = deliveries.len();
        if let Err(failure) = self.call(connection, deliveries).await? {
            return undo(connection, tenancy, mark, &failure).await;
        }
        let committed = self.commit(connection, tenancy, job, mark).await;
        if committed.is_ok() {
            self.report_ended(job, new, 0);
        }
        let ended = if new > 0 { Outcome::Done } else { Outcome::Repeated };
        outcome(connection, tenancy, mark, committed.map(|()| ended)).await
    }

    /// Commits the transaction of a job. Notifies the loop first, so that the next handler need not wait for it.
    pub(super) async fn commit(
        &self,
        connection: &Connection,
        tenancy: &Tenancy,
        job: &Job,
        mark: Mark,
    ) -> Result<(), postgres::Error> {
        // The channel is closed when the loop has ended.
        self.committing.send(job.id).await.ok();
        connection.commit(tenancy, mark).await
    }

    /// Counts the events of a transaction: `new` were applied, `waiting` were written to the table, the rest were repeats.
    pub(super) fn report_ended(&self, job: &Job, new: usize, waiting: usize) {
        let topic = &job.tenure.partition.topic;
        self.telemetry.ended(topic, End::Applied, new);
        self.telemetry.ended(topic, End::Repeat, job.events.len().saturating_sub(new + waiting));
        if waiting > 0 {
            self.telemetry.parked(topic, waiting);
        }
    }

    /// Calls the handler unless there are no events. A panic is a failure. An error means that the handler has kept the
    /// transaction or exceeded its time limit.
    pub(super) async fn call(
        &self,
        connection: &Connection,
        deliveries: Vec<Delivery>,
    ) -> Result<Result<(), Failure>, postgres::Error> {
        if deliveries.is_empty() {
            return Ok(Ok(()));
        }
        let handled = AssertUnwindSafe(self.handler.handle(connection, deliveries));
        let within = self.handler_within;
        let caught = tokio::time::timeout(within, handled.catch_unwind()).await;
        let caught = caught.map_err(|_| postgres::Error::HandlerTimeout { within })?;
        if !connection.is_given_back() {
            return Err(postgres::Error::TransactionKept);
        }
        Ok(caught.unwrap_or_else(|panic| Err(Failure::panicked(&*panic))))
    }

    fn deliveries(&self, job: &Job) -> Result<Vec<Delivery>, IdError> {
        let delivery = |event: &Arc<Event>| {
            let attempt = job.attempt.saturating_add(self.attempts_before(event));
            let identity = self.ids.identity(event, self.id_scope, &self.first_topic(event))?;
            Ok(Delivery::new(Arc::clone(event), identity, attempt))
        };
        job.events.iter().map(delivery).collect()
    }

    pub(super) async fn connection(
        &self,
        connection: Option<Connection>,
    ) -> Result<Connection, postgres::Error> {
        match connection.filter(Connection::is_usable) {
            Some(connection) => Ok(connection),
            None => self.opener.connect().await,
        }
    }
}

/// Rolls back the transaction of a failed handler, and returns the outcome.
pub(super) async fn undo(
    connection: &Connection,
    tenancy: &Tenancy,
    mark: Mark,
    failure: &Failure,
) -> Result<Outcome, postgres::Error> {
    let is_fenced_in = connection.is_fenced_in().await?;
    // The inbox's own connection works: an error to the contrary is about another one.
    connection.roll_back(tenancy, mark).await?;
    if is_fenced_in && failure.is_read_only() && connection.is_read_only().await? {
        tracing::warn!(error = failure.chain(), "PostgreSQL is read-only; retrying");
        return Ok(Outcome::Unavailable);
    }
    if is_fenced_in && failure.is_conflict() {
        return Ok(Outcome::Uncharged { reason: Uncharged::Conflict, error: failure.chain() });
    }
    if is_fenced_in {
        return Ok(Outcome::Failed { kind: failure.kind(), error: failure.chain() });
    }
    // Some of its statements may have been committed one by one.
    let error = format!("{}: {}", postgres::Error::TransactionEnded, failure.chain());
    Ok(Outcome::Failed { kind: FailureKind::Poison, error })
}

/// Returns the outcome of a transaction. If the commit was refused, rolls back and records that the handlers have ended.
pub(super) async fn outcome(
    connection: &Connection,
    tenancy: &Tenancy,
    mark: Mark,
    committed: Result<Outcome, postgres::Error>,
) -> Result<Outcome, postgres::Error> {
    match committed {
        Ok(outcome) => Ok(outcome),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => {
            connection.roll_back(tenancy, mark).await?;
            Ok(of_inbox(&error))
        }
    }
}

fn of_inbox(error: &postgres::Error) -> Outcome {
    if error.is_transient() {
        tracing::warn!(error = chain(error), "PostgreSQL is not available; retrying");
        return Outcome::Unavailable;
    }
    if error.is_of_the_setup() {
        tracing::error!(error = chain(error), "a statement of the inbox does not work; retrying");
        return Outcome::Unavailable;
    }
    if error.is_conflict() {
        return Outcome::Uncharged { reason: Uncharged::Conflict, error: chain(error) };
    }
    let kind = match error {
        // Later statements of the handler may be committed: another attempt could apply them twice.
        postgres::Error::TransactionEnded => FailureKind::Poison,
        _ => FailureKind::Retry,
    };
    Outcome::Failed { kind, error: chain(error) }
}
