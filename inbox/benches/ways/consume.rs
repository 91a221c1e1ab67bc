//! The ways to consume events.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outboxd_inbox::core::{Options, Order};
use outboxd_inbox::kafka::{Consumer, DeadLetters};
use outboxd_inbox::postgres::{Connector, Transaction};
use outboxd_inbox::{Dedupe, Delivery, Failure, Inbox};
use rdkafka::ClientConfig;
use tokio::sync::mpsc;

pub(crate) const SPEND: &str = "UPDATE customers SET lifetime_value = lifetime_value + 1 WHERE id = $1";
const SPEND_ALL: &str = "UPDATE customers SET lifetime_value = lifetime_value + n \
     FROM (SELECT id, count(*) AS n FROM unnest($1::bigint[]) AS id GROUP BY id) AS new WHERE customers.id = new.id";

/// Settings of a consumer.
#[derive(Debug, Clone)]
pub(crate) struct How {
    pub(crate) workers: usize,
    pub(crate) batch: usize,
    pub(crate) order: Order,
    pub(crate) dedupe: Dedupe,
    pub(crate) way: Way,
}

impl How {
    /// Returns the settings for one event at a time, the events of a key in order, by ids.
    pub(crate) fn each(workers: usize) -> Self {
        Self { workers, batch: 1, order: Order::PerKey, dedupe: Dedupe::Ids, way: Way::Each }
    }

    /// Batches of 100.
    pub(crate) fn batches(dedupe: Dedupe) -> Self {
        Self { batch: 100, dedupe, way: Way::Batch, ..Self::each(1) }
    }

    fn options(&self) -> Options {
        let of = |number| NonZeroUsize::new(number).unwrap();
        Options { workers: of(self.workers), batch: of(self.batch), order: self.order, ..Options::default() }
    }
}

/// Work of the handler.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    Each,
    Batch,
    Slow(Duration),
}

/// Consumes all events of a topic; events per second.
pub(crate) async fn consume(
    bootstrap: &str,
    connector: Connector,
    topic: &str,
    count: i64,
    how: &How,
) -> f64 {
    let way = how.way;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    let dead_letters = DeadLetters::topic(&config, "dead").unwrap();
    let consumer = Consumer::subscribe(config.set("group.id", topic), &[topic]).unwrap();
    let inbox = Inbox::new(connector, topic, dead_letters).options(how.options()).dedupe(how.dedupe.clone());
    let (done, handled) = mpsc::channel(1024);
    let done = Arc::new(done);
    let (began, stop) = (std::cell::Cell::new(None), all(handled, count));
    let stop = async { began.set(Some(stop.await)) };
    match way {
        Way::Batch => {
            let handler = move |transaction: Transaction, events: Vec<Delivery>| {
                spend_all(transaction, events, Arc::clone(&done))
            };
            inbox.run_batches(consumer, handler, stop).await.unwrap();
        }
        Way::Each | Way::Slow(_) => {
            let handler = move |transaction: Transaction, event: Delivery| {
                spend(transaction, event, way, Arc::clone(&done))
            };
            inbox.run(consumer, handler, stop).await.unwrap();
        }
    }
    began.get().unwrap()
}

pub(crate) fn rate(count: i64, began: Instant) -> f64 {
    f64::from(i32::try_from(count).unwrap()) / began.elapsed().as_secs_f64()
}

/// Waits until all are handled; the rate of those behind the first ones.
async fn all(mut handled: mpsc::Receiver<usize>, count: i64) -> f64 {
    let mut left = usize::try_from(count).unwrap();
    left -= handled.recv().await.unwrap();
    let (began, count) = (Instant::now(), i64::try_from(left).unwrap());
    while left > 0 {
        left -= handled.recv().await.unwrap();
    }
    rate(count, began)
}

async fn spend(
    transaction: Transaction,
    event: Delivery,
    way: Way,
    done: Arc<mpsc::Sender<usize>>,
) -> Result<(), Failure> {
    if let Way::Slow(slow) = way {
        tokio::time::sleep(slow).await;
    }
    let spend = transaction.prepare_cached(SPEND).await?;
    transaction.execute(&spend, &[&account(&event)]).await?;
    done.send(1).await?;
    Ok(())
}

async fn spend_all(
    transaction: Transaction,
    events: Vec<Delivery>,
    done: Arc<mpsc::Sender<usize>>,
) -> Result<(), Failure> {
    let accounts: Vec<i64> = events.iter().map(account).collect();
    let spend = transaction.prepare_cached(SPEND_ALL).await?;
    transaction.execute(&spend, &[&accounts]).await?;
    done.send(events.len()).await?;
    Ok(())
}

fn account(event: &Delivery) -> i64 {
    std::str::from_utf8(event.key.as_deref().unwrap()).unwrap().parse().unwrap()
}
