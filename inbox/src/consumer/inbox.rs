use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::delivery::Delivery;
use super::error::Error;
use super::failure::Failure;
use super::handler::{Batch, Each};
use super::run::Loop;
use super::work::Context;
use crate::core::{Options, Order, Retry};
use crate::event::IdSource;
use crate::kafka::{Consumer, DeadLetters};
use crate::postgres::{Connector, Transaction};

/// How a service consumes: what it is called, where it remembers, what happens to events that fail.
#[derive(Debug, Clone)]
pub struct Inbox {
    connector: Connector,
    consumer: Arc<str>,
    ids: IdSource,
    options: Options,
    dead_letters: DeadLetters,
    window: Duration,
}

/// How long ids are remembered unless told otherwise.
const WINDOW: Duration = Duration::from_secs(30 * 24 * 3600);

impl Inbox {
    /// An inbox in the database of `connector`. `consumer` is the scope of what is remembered: services that share a
    /// database each need their own name. What is given up goes to `dead_letters`.
    #[must_use]
    pub fn new(connector: Connector, consumer: &str, dead_letters: DeadLetters) -> Self {
        Self {
            connector,
            consumer: Arc::from(consumer),
            ids: IdSource::default(),
            options: Options::default(),
            dead_letters,
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

    /// The most events in one transaction; 1 unless told otherwise. When a batch fails, its events are handled one by one.
    #[must_use]
    pub fn batch(mut self, most: NonZeroUsize) -> Self {
        self.options.batch = most;
        self
    }

    /// The most handlers at work at a time, each with a connection to PostgreSQL; 8 unless told otherwise.
    #[must_use]
    pub fn workers(mut self, most: NonZeroUsize) -> Self {
        self.options.workers = most;
        self
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
    pub async fn run<F, R>(
        &self,
        kafka: Consumer,
        handler: F,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Error>
    where
        F: Fn(Transaction, Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Loop::new(kafka, self.options.clone(), self.context(Each::new(handler))).run(stop).await
    }

    /// The same, with all new events of a transaction at once.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub async fn run_batches<F, R>(
        &self,
        kafka: Consumer,
        handler: F,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Error>
    where
        F: Fn(Transaction, Vec<Delivery>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Loop::new(kafka, self.options.clone(), self.context(Batch::new(handler))).run(stop).await
    }

    fn context<H>(&self, handler: H) -> Arc<Context<H>> {
        Arc::new(Context {
            connector: self.connector.clone(),
            consumer: Arc::clone(&self.consumer),
            ids: self.ids.clone(),
            dead_letters: self.dead_letters.clone(),
            window: self.window,
            handler,
        })
    }
}
