//! An inbox in a thread of the test, for handlers that the examples do not have.

use std::pin::Pin;
use std::thread::{self, JoinHandle};

use outboxd_inbox::kafka::{Consumer, DeadLetters};
use outboxd_inbox::postgres::{Connector, HandlerTransaction};
use outboxd_inbox::{Delivery, Error, Failure, Inbox};
use rdkafka::ClientConfig;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::shop::Shop;
use crate::support::kafka::kafka;

/// Ends when the inbox must stop.
type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A running inbox.
pub(crate) struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts an inbox of the shop's name on its topic.
    pub(crate) fn start<T, F, R>(
        shop: &Shop<'_>,
        connector: Connector<T>,
        configure: impl FnOnce(Inbox<T>) -> Inbox<T>,
        handler: F,
    ) -> Self
    where
        T: HandlerTransaction,
        F: Fn(T, Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Self::start_on(&[shop.topic()], shop, connector, configure, handler)
    }

    /// Starts one that reads these topics.
    pub(crate) fn start_on<T, F, R>(
        topics: &[String],
        shop: &Shop<'_>,
        connector: Connector<T>,
        configure: impl FnOnce(Inbox<T>) -> Inbox<T>,
        handler: F,
    ) -> Self
    where
        T: HandlerTransaction,
        F: Fn(T, Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Self::start_with(topics, shop, connector, configure, async move |inbox, kafka, stopped| {
            inbox.run(kafka, handler, stopped).await
        })
    }

    /// Starts one whose handler gets all events of a transaction.
    pub(crate) fn start_batches<T, F, R>(
        shop: &Shop<'_>,
        connector: Connector<T>,
        configure: impl FnOnce(Inbox<T>) -> Inbox<T>,
        handler: F,
    ) -> Self
    where
        T: HandlerTransaction,
        F: Fn(T, Vec<Delivery>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Self::start_with(&[shop.topic()], shop, connector, configure, async move |inbox, kafka, stopped| {
            inbox.run_batches(kafka, handler, stopped).await
        })
    }

    fn start_with<T: HandlerTransaction>(
        topics: &[String],
        shop: &Shop<'_>,
        connector: Connector<T>,
        configure: impl FnOnce(Inbox<T>) -> Inbox<T>,
        run: impl AsyncFnOnce(Inbox<T>, Consumer, Stopped) -> Result<(), Error> + Send + 'static,
    ) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", kafka().bootstrap());
        let dead_letters = DeadLetters::topic(&config, &shop.dead_letter_topic()).unwrap();
        let inbox = configure(Inbox::new(connector.clone(), shop.name(), dead_letters));
        config.set("group.id", shop.name());
        let (topics, (stop, stopped)) = (topics.to_vec(), oneshot::channel::<()>());
        let thread = thread::spawn(move || {
            let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                connector.create_tables().await.unwrap();
                let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
                let kafka = Consumer::subscribe(&config, &topics).unwrap();
                run(inbox, kafka, Box::pin(async { drop(stopped.await) })).await.unwrap();
            });
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }

    /// Stops it, and waits until it has ended.
    pub(crate) fn stop(mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}
