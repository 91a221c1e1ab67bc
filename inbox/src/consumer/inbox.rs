//! Configuration of a consumer.

use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::dedupe::Dedupe;
use super::delivery::Delivery;
use super::failure::Failure;
use super::handler::{Batch, Each, Handler};
use super::run::Loop;
use super::settings::Settings;
use super::telemetry::Telemetry;
use super::work::Context;
use crate::Error;
use crate::core::{AfterDeadLetter, JobId, Options, Order, Retry};
use crate::event::{Event, IdScope, IdSource};
use crate::kafka::{Consumer, DeadLetters, InboxContext};
use crate::postgres::{Connector, Doubts, HandlerTransaction, Transaction};
use crate::retry_topic::RetryTopics;

/// Consumer of a service. Configures its name, its database, and the handling of events that fail.
#[derive(Debug)]
pub struct Inbox<T = Transaction> {
    connector: Connector<T>,
    consumer: Arc<str>,
    ids: IdSource,
    id_scope: IdScope,
    dedupe: Dedupe,
    first_number: Option<i64>,
    settings: Settings,
    dead_letters: DeadLetters,
    retry_topics: Option<RetryTopics>,
    window: Duration,
}

/// Default time for which ids are stored.
const WINDOW: Duration = Duration::from_secs(30 * 24 * 3600);

impl<T: HandlerTransaction> Inbox<T> {
    /// Returns an inbox in the database of `connector`. `consumer` is the scope of everything that is stored: services that
    /// share a database each need their own name. Events that are given up go to `dead_letters`.
    #[must_use]
    pub fn new(connector: Connector<T>, consumer: &str, dead_letters: DeadLetters) -> Self {
        Self {
            connector,
            consumer: Arc::from(consumer),
            ids: IdSource::default(),
            id_scope: IdScope::default(),
            dedupe: Dedupe::default(),
            first_number: None,
            settings: Settings::default(),
            dead_letters,
            retry_topics: None,
            window: WINDOW,
        }
    }

    /// Sets how long a handled event is remembered; 30 days by default. A repeat that arrives later is applied again. So
    /// the window must be longer than Kafka's retention, and than the age of dead letters that are replayed. A warning is
    /// logged if Kafka retains the topic's records for longer.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Sets where the id of an event is found; by default in the usual headers.
    #[must_use]
    pub fn ids(mut self, ids: IdSource) -> Self {
        self.ids = ids;
        self
    }

    /// Sets the scope in which an id is unique; by default the topic. An event with the id of another one and different
    /// content becomes a dead letter.
    #[must_use]
    pub fn id_scope(mut self, scope: IdScope) -> Self {
        self.id_scope = scope;
        self
    }

    /// Sets how repeats are recognized; by default by id.
    #[must_use]
    pub fn dedupe(mut self, dedupe: Dedupe) -> Self {
        self.dedupe = dedupe;
        self
    }

    /// Sets the number of each key's first event, for [`Dedupe::Sequence`]: later events wait for it. Without it, the first
    /// event received of a key is its first one. An event with a smaller number becomes a dead letter.
    #[must_use]
    pub fn first_number(mut self, number: i64) -> Self {
        self.first_number = Some(number);
        self
    }

    /// Sets which events are handled in order; by default those of each key.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.settings.order = Some(order);
        self
    }

    /// Sets when the handler is called again after a failure.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.settings.retry = Some(retry);
        self
    }

    /// Sets the retry topics that an event passes through after its last failed attempt, before it becomes a dead letter;
    /// none by default. The later events of its key are handled before it. Create the topics of [`Self::topics`] first, and
    /// subscribe to them.
    #[must_use]
    pub fn retry_topics(mut self, topics: RetryTopics) -> Self {
        self.retry_topics = Some(topics);
        self
    }

    /// Returns these topics and their retry topics.
    #[must_use]
    pub fn topics(&self, topics: &[&str]) -> Vec<String> {
        let behind = |topic: &&str| {
            let retry = self.retry_topics.iter().flat_map(|retry| retry.names(topic, &self.consumer));
            std::iter::once((*topic).to_owned()).chain(retry).collect::<Vec<_>>()
        };
        topics.iter().flat_map(behind).collect()
    }

    /// Sets what happens to a key after one of its events became a dead letter; by default its later events are handled.
    #[must_use]
    pub fn after_dead_letter(mut self, after: AfterDeadLetter) -> Self {
        self.settings.after_dead_letter = Some(after);
        self
    }

    /// Releases a key whose later events wait behind a dead letter. Returns the number of dead letters that blocked it. The
    /// consumer notices the release within [`Options::release_poll`]. A dead letter that was sent again before the release
    /// is handled at its old place, before the events that waited for it; it is recognized by its id.
    ///
    /// # Errors
    ///
    /// If the query fails, for example because PostgreSQL does not answer.
    pub async fn release(&self, key: &[u8]) -> Result<u64, Error> {
        let identity = |event: &Event| self.ids.identity(event, self.id_scope, &event.topic).ok();
        let is_same = |one: &Event, other: &Event| {
            identity(one)
                .zip(identity(other))
                .is_some_and(|(one, other)| one.scoped_id() == other.scoped_id())
        };
        Ok(self.connector.opener().release(&self.consumer, key, is_same).await?)
    }

    /// Sets the maximum number of events in one transaction; 1 by default. If a batch fails, its events are handled one by
    /// one.
    #[must_use]
    pub fn batch(mut self, most: NonZeroUsize) -> Self {
        self.settings.batch = Some(most);
        self
    }

    /// Sets the maximum number of concurrent handlers, each with a connection to PostgreSQL; 8 by default. One more
    /// connection is for a transaction that is being committed while the next handler runs.
    #[must_use]
    pub fn workers(mut self, most: NonZeroUsize) -> Self {
        self.settings.workers = Some(most);
        self
    }

    /// Sets the maximum number of events of a partition that wait in the table; 10,000 by default.
    #[must_use]
    pub fn parked_max(mut self, most: usize) -> Self {
        self.settings.parked_max = Some(most);
        self
    }

    /// Limits the run time of a handler; 5 minutes by default. A handler that has not returned by then has failed.
    #[must_use]
    pub fn handler_timeout(mut self, longest: Duration) -> Self {
        self.settings.handler_within = Some(longest);
        self
    }

    /// Limits the run time of a handler, under the former name of [`Inbox::handler_timeout`].
    #[deprecated(note = "renamed to `Inbox::handler_timeout`")]
    #[must_use]
    pub fn handler_within(self, longest: Duration) -> Self {
        self.handler_timeout(longest)
    }

    /// Sets all options. A method for a single one, such as [`Self::workers`], takes precedence, whether it is called before or
    /// after.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.settings.options = options;
        self
    }

    /// Passes each event to `handler` until `stop` completes. Then waits for running handlers, and commits offsets.
    ///
    /// # Errors
    ///
    /// If the Kafka client fails permanently, if the inbox's tables cannot be used, or if [`Self::retry_topics`] is
    /// combined with settings that need the events of a key in order. Servers that are unavailable are retried instead.
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
        self.run_with(kafka, Each::<F, T, R>::new(handler), stop).await
    }

    /// Runs like [`Self::run`], but passes all new events of a transaction to `handler` at once.
    ///
    /// # Errors
    ///
    /// As for [`Self::run`].
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
        self.run_with(kafka, Batch::<F, T, R>::new(handler), stop).await
    }

    async fn run_with<C: InboxContext, H: Handler>(
        &self,
        kafka: Consumer<C>,
        handler: H,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let options = self.loop_options()?;
        let settings = options.clone();
        Loop::new(kafka, options, |committing| self.context(handler, &settings, committing)).run(stop).await
    }

    /// Returns the options of the loop. Numbers and positions are compared one after the other, so they need an order. An
    /// error means that retry topics would break an order that must be kept.
    fn loop_options(&self) -> Result<Options, Error> {
        let mut options = self.settings.resolve();
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

    fn context<H>(&self, handler: H, options: &Options, committing: mpsc::Sender<JobId>) -> Context<H> {
        Context {
            opener: self.connector.opener(),
            consumer: Arc::clone(&self.consumer),
            ids: self.ids.clone(),
            id_scope: self.id_scope,
            dedupe: self.dedupe.clone(),
            first_number: self.first_number,
            retry_topics: self.retry_topics.clone(),
            doubts: Doubts::default(),
            order: options.order,
            parked_max: options.parked_max,
            handler_within: options.handler_within,
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
            settings: self.settings.clone(),
            retry_topics: self.retry_topics.clone(),
            dead_letters: self.dead_letters.clone(),
            window: self.window,
        }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::ClientConfig;
    use tokio_postgres::NoTls;

    use super::*;

    type Setting = fn(Inbox) -> Inbox;
    type Change = fn(Options) -> Options;

    fn inbox() -> Inbox {
        let connector = Connector::new(tokio_postgres::Config::new(), NoTls);
        let dead_letters = DeadLetters::topic(&ClientConfig::new(), "dead").unwrap();
        Inbox::new(connector, "payments", dead_letters)
    }

    #[test]
    fn the_order_of_settings_does_not_matter() {
        let settings: [(Setting, Change); 7] = [
            (|inbox| inbox.order(Order::None), |it| Options { order: Order::None, ..it }),
            (|inbox| inbox.retry(Retry::new([])), |it| Options { retry: Retry::new([]), ..it }),
            (
                |inbox| inbox.after_dead_letter(AfterDeadLetter::KeyWaits),
                |it| Options { after_dead_letter: AfterDeadLetter::KeyWaits, ..it },
            ),
            (|inbox| inbox.batch(NonZeroUsize::MAX), |it| Options { batch: NonZeroUsize::MAX, ..it }),
            (|inbox| inbox.workers(NonZeroUsize::MIN), |it| Options { workers: NonZeroUsize::MIN, ..it }),
            (|inbox| inbox.parked_max(7), |it| Options { parked_max: 7, ..it }),
            (
                |inbox| inbox.handler_timeout(Duration::MAX),
                |it| Options { handler_within: Duration::MAX, ..it },
            ),
        ];
        let options = Options { crashes_max: 9, ..Options::default() };
        for (index, (set, expected)) in settings.into_iter().enumerate() {
            let expected = format!("{:?}", expected(options.clone()));
            for inbox in [set(inbox()).options(options.clone()), set(inbox().options(options.clone()))] {
                assert_eq!(format!("{:?}", inbox.settings.resolve()), expected, "setting {index}");
            }
        }
    }
}
