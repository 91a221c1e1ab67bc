use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::dedupe::Dedupe;
use super::delivery::Delivery;
use super::failure::Failure;
use super::handler::{Batch, Each};
use super::run::Loop;
use super::telemetry::Telemetry;
use super::work::Context;
use crate::Error;
use crate::core::{AfterDeadLetter, JobId, Options, Order, Retry};
use crate::event::{Event, IdScope, IdSource};
use crate::kafka::{Consumer, DeadLetters, InboxContext};
use crate::postgres::{Connector, Doubts, HandlerTransaction, Transaction};
use crate::retry_topic::RetryTopics;

/// How a service consumes: what it is called, where it remembers, what happens to events that fail.
#[derive(Debug)]
pub struct Inbox<T = Transaction> {
    connector: Connector<T>,
    consumer: Arc<str>,
    ids: IdSource,
    id_scope: IdScope,
    dedupe: Dedupe,
    first_number: Option<i64>,
    options: Options,
    dead_letters: DeadLetters,
    retry_topics: Option<RetryTopics>,
    window: Duration,
}

/// How long ids are remembered unless told otherwise.
const WINDOW: Duration = Duration::from_secs(30 * 24 * 3600);

impl<T: HandlerTransaction> Inbox<T> {
    /// An inbox in the database of `connector`. `consumer` is the scope of what is remembered: services that share a
    /// database each need their own name. What is given up goes to `dead_letters`.
    #[must_use]
    pub fn new(connector: Connector<T>, consumer: &str, dead_letters: DeadLetters) -> Self {
        Self {
            connector,
            consumer: Arc::from(consumer),
            ids: IdSource::default(),
            id_scope: IdScope::default(),
            dedupe: Dedupe::default(),
            first_number: None,
            options: Options::default(),
            dead_letters,
            retry_topics: None,
            window: WINDOW,
        }
    }

    /// How long an event is remembered as done; 30 days unless told otherwise. When it comes again later, it is applied
    /// again. So this must be longer than anything comes again: Kafka's retention, and the age of dead letters that are
    /// replayed. A warning is logged when Kafka keeps the topic's records for longer.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Where the id of an event is found; in the usual headers unless told otherwise.
    #[must_use]
    pub fn ids(mut self, ids: IdSource) -> Self {
        self.ids = ids;
        self
    }

    /// Among which events an id is unique; among those of a topic unless told otherwise. An event with the id of another one
    /// and other content becomes a dead letter.
    #[must_use]
    pub fn id_scope(mut self, scope: IdScope) -> Self {
        self.id_scope = scope;
        self
    }

    /// How a repeat is known; by its id unless told otherwise.
    #[must_use]
    pub fn dedupe(mut self, dedupe: Dedupe) -> Self {
        self.dedupe = dedupe;
        self
    }

    /// The number of each key's first event, for [`Dedupe::Sequence`]: later ones wait for it. Unless it is told, the first event that
    /// comes is the first one, and one with a lesser number becomes a dead letter.
    #[must_use]
    pub fn first_number(mut self, number: i64) -> Self {
        self.first_number = Some(number);
        self
    }

    /// What is kept in order; the events of a key unless told otherwise.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.options.order = order;
        self
    }

    /// When a handler that failed is called again.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.options.retry = retry;
        self
    }

    /// What failed its attempts goes through these topics before it becomes a dead letter; none unless told otherwise. The later
    /// events of its key are handled before it. Subscribe to [`Self::topics`], and make them before.
    #[must_use]
    pub fn retry_topics(mut self, topics: RetryTopics) -> Self {
        self.retry_topics = Some(topics);
        self
    }

    /// These topics and their retry topics.
    #[must_use]
    pub fn topics(&self, topics: &[&str]) -> Vec<String> {
        let behind = |topic: &&str| {
            let retry = self.retry_topics.iter().flat_map(|retry| retry.names(topic, &self.consumer));
            std::iter::once((*topic).to_owned()).chain(retry).collect::<Vec<_>>()
        };
        topics.iter().flat_map(behind).collect()
    }

    /// What happens to a key when one of its events has become a dead letter; it goes on unless told otherwise.
    #[must_use]
    pub fn after_dead_letter(mut self, after: AfterDeadLetter) -> Self {
        self.options.after_dead_letter = after;
        self
    }

    /// Lets a key go on whose later events wait behind a dead letter: how many such letters it had. The consumer notices it
    /// within [`Options::release_poll`]. A dead letter that was sent again before is handled at its old place, before those that
    /// have waited for it; it is known by its id.
    ///
    /// # Errors
    ///
    /// When PostgreSQL does not answer.
    pub async fn release(&self, key: &[u8]) -> Result<u64, Error> {
        let identity = |event: &Event| self.ids.identity(event, self.id_scope, &event.topic).ok();
        let is_same = |one: &Event, other: &Event| {
            identity(one)
                .zip(identity(other))
                .is_some_and(|(one, other)| one.scoped_id() == other.scoped_id())
        };
        Ok(self.connector.opener().release(&self.consumer, key, is_same).await?)
    }

    /// The most events in one transaction; 1 unless told otherwise. When a batch fails, its events are handled one by one.
    #[must_use]
    pub fn batch(mut self, most: NonZeroUsize) -> Self {
        self.options.batch = most;
        self
    }

    /// The most handlers at work at a time, each with a connection to PostgreSQL; 8 unless told otherwise. One more
    /// connection is for a transaction that is being committed while the next handler is at work.
    #[must_use]
    pub fn workers(mut self, most: NonZeroUsize) -> Self {
        self.options.workers = most;
        self
    }

    /// The most events of a partition that wait in the table; 10,000 unless told otherwise.
    #[must_use]
    pub fn parked_max(mut self, most: usize) -> Self {
        self.options.parked_max = most;
        self
    }

    /// Limits the time of a handler; 5 minutes unless told otherwise. A handler that has not returned by then has failed.
    #[must_use]
    pub fn handler_timeout(mut self, longest: Duration) -> Self {
        self.options.handler_within = longest;
        self
    }

    /// The former name of [`Inbox::handler_timeout`].
    #[deprecated(note = "renamed to `Inbox::handler_timeout`")]
    #[must_use]
    pub fn handler_within(self, longest: Duration) -> Self {
        self.handler_timeout(longest)
    }

    /// All other options.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Gives each event to `handler`, until `stop` is over. Then handlers at work are waited for and offsets are committed.
    ///
    /// # Errors
    ///
    /// When Kafka's client ends for good. Servers that are away are waited for.
    pub async fn run<C, F, R>(
        &self,
        kafka: Consumer<C>,
        handler: F,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Error>
    where
        C: InboxContext,
        F: Fn(T, Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let handler = Each::<F, T, R>::new(handler);
        Loop::new(kafka, self.loop_options()?, |committing| self.context(handler, committing)).run(stop).await
    }

    /// The same, with all new events of a transaction at once.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub async fn run_batches<C, F, R>(
        &self,
        kafka: Consumer<C>,
        handler: F,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Error>
    where
        C: InboxContext,
        F: Fn(T, Vec<Delivery>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let handler = Batch::<F, T, R>::new(handler);
        Loop::new(kafka, self.loop_options()?, |committing| self.context(handler, committing)).run(stop).await
    }

    /// Numbers and positions are compared one after the other.
    fn loop_options(&self) -> Result<Options, Error> {
        let mut options = self.options.clone();
        let keeps_order =
            !matches!(self.dedupe, Dedupe::Ids) || options.after_dead_letter == AfterDeadLetter::KeyWaits;
        if self.retry_topics.is_some() && keeps_order {
            return Err(Error::RetryTopics);
        }
        if !matches!(self.dedupe, Dedupe::Ids) && options.order == Order::None {
            options.order = Order::PerKey;
        }
        Ok(options)
    }

    fn context<H>(&self, handler: H, committing: mpsc::Sender<JobId>) -> Context<H> {
        Context {
            opener: self.connector.opener(),
            consumer: Arc::clone(&self.consumer),
            ids: self.ids.clone(),
            id_scope: self.id_scope,
            dedupe: self.dedupe.clone(),
            first_number: self.first_number,
            retry_topics: self.retry_topics.clone(),
            doubts: Doubts::default(),
            order: self.options.order,
            parked_max: self.options.parked_max,
            handler_within: self.options.handler_within,
            dead_letters: self.dead_letters.clone(),
            window: self.window,
            telemetry: Telemetry::new(Arc::clone(&self.consumer)),
            committing,
            handler,
        }
    }
}

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Self {
        Self {
            connector: self.connector.clone(),
            consumer: Arc::clone(&self.consumer),
            ids: self.ids.clone(),
            id_scope: self.id_scope,
            dedupe: self.dedupe.clone(),
            first_number: self.first_number,
            options: self.options.clone(),
            retry_topics: self.retry_topics.clone(),
            dead_letters: self.dead_letters.clone(),
            window: self.window,
        }
    }
}
