//! What an event costs, by the way it is consumed: through a real Kafka into a PostgreSQL that flushes each commit.
//!
//! ```console
//! $ cargo bench -p outboxd-inbox
//! ```
//!
//! The first way is what services do by hand (SELECT, INSERT, UPDATE, COMMIT for each event), and it is not even given the
//! events by Kafka. The others are timed from the first event that a handler is given to the last.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::indexing_slicing, clippy::print_stdout, reason = "and prints what it measured")]

#[path = "../../tests/e2e/support/mod.rs"]
mod support;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outboxd::internals::throwaway::{Options, ThrowawayPostgres};
use outboxd_inbox::core::{Options as How, Order};
use outboxd_inbox::kafka::{Consumer, DeadLetters};
use outboxd_inbox::postgres::{Connector, Transaction};
use outboxd_inbox::{Delivery, Failure, Inbox};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tokio::sync::mpsc;
use tokio_postgres::{Client, NoTls};

use support::kafka::Kafka;
use support::wait::DEADLINE;

/// Accounts, each a key of its own.
const ACCOUNTS: i64 = 1000;
/// A handler that asks somebody else.
const SLOW: Duration = Duration::from_millis(10);

const SPEND: &str = "UPDATE customers SET lifetime_value = lifetime_value + 1 WHERE id = $1";
const SPEND_ALL: &str = "UPDATE customers SET lifetime_value = lifetime_value + n \
     FROM (SELECT id, count(*) AS n FROM unnest($1::bigint[]) AS id GROUP BY id) AS new WHERE customers.id = new.id";

fn main() {
    let lab = Lab::start();
    let by_hand = lab.by_hand(4000);
    tell("SELECT, INSERT, UPDATE, COMMIT, by hand", by_hand, by_hand);
    tell("one by one, one worker", lab.consume(4000, &how(1, 1, Order::PerKey), Way::Each), by_hand);
    tell("one by one, 8 workers", lab.consume(8000, &how(8, 1, Order::PerKey), Way::Each), by_hand);
    tell("batches of 100, one worker", lab.consume(40_000, &how(1, 100, Order::PerKey), Way::Batch), by_hand);
    let serial = lab.consume(200, &how(8, 1, Order::PerPartition), Way::Slow);
    tell("a handler of 10 ms, the partition in order", serial, serial);
    tell(
        "a handler of 10 ms, keys in order",
        lab.consume(1000, &how(8, 1, Order::PerKey), Way::Slow),
        serial,
    );
}

fn tell(what: &str, rate: f64, base: f64) {
    println!("{what:45} {rate:9.0} events/s {:6.1} x", rate / base);
}

fn how(workers: usize, batch: usize, order: Order) -> How {
    let of = |number| NonZeroUsize::new(number).unwrap();
    How { workers: of(workers), batch: of(batch), order, ..How::default() }
}

/// What the handler does.
#[derive(Debug, Clone, Copy)]
enum Way {
    Each,
    Batch,
    Slow,
}

/// The servers.
struct Lab {
    kafka: Kafka,
    url: String,
    runtime: tokio::runtime::Runtime,
    _postgres: ThrowawayPostgres,
}

impl Lab {
    fn start() -> Self {
        let postgres = ThrowawayPostgres::start(&Options::default()).unwrap();
        let url = postgres.url("postgres");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let lab = Self { kafka: Kafka::start(), url, runtime, _postgres: postgres };
        lab.runtime.block_on(async {
            lab.connector().create_tables().await.unwrap();
            let sql = format!(
                "CREATE TABLE customers (id bigint PRIMARY KEY, lifetime_value bigint NOT NULL DEFAULT 0); \
                 INSERT INTO customers SELECT generate_series(0, {ACCOUNTS} - 1)"
            );
            lab.client().await.batch_execute(&sql).await.unwrap();
        });
        lab
    }

    fn connector(&self) -> Connector {
        Connector::new(self.url.parse().unwrap(), NoTls)
    }

    async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        self.runtime.spawn(connection);
        client
    }

    /// The usual code of a consumer, prepared statements and all.
    fn by_hand(&self, count: i64) -> f64 {
        self.runtime.block_on(async {
            let mut client = self.client().await;
            let known =
                "SELECT EXISTS (SELECT FROM processed_messages WHERE consumer = 'hand' AND message_id = $1)";
            let known = client.prepare(known).await.unwrap();
            let insert = "INSERT INTO processed_messages (consumer, message_id) VALUES ('hand', $1)";
            let insert = client.prepare(insert).await.unwrap();
            let spend = client.prepare(SPEND).await.unwrap();
            let began = Instant::now();
            for n in 0..count {
                let id = format!("event-{n}");
                let transaction = client.transaction().await.unwrap();
                if transaction.query_one(&known, &[&id]).await.unwrap().get(0) {
                    continue;
                }
                transaction.execute(&insert, &[&id]).await.unwrap();
                transaction.execute(&spend, &[&(n % ACCOUNTS)]).await.unwrap();
                transaction.commit().await.unwrap();
            }
            rate(count, began)
        })
    }

    /// Events per second.
    fn consume(&self, count: i64, how: &How, way: Way) -> f64 {
        let name = format!("bench-{}", fastrand::u32(..));
        self.kafka.create_topic(&name, 1, &[]);
        self.produce(&name, count);
        let _entered = self.runtime.enter();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.kafka.bootstrap());
        let dead_letters = DeadLetters::topic(&config, "dead").unwrap();
        let consumer = Consumer::subscribe(config.set("group.id", &name), &[&name]).unwrap();
        let inbox = Inbox::new(self.connector(), &name, dead_letters).options(how.clone());
        self.runtime.block_on(async {
            let (done, handled) = mpsc::channel(1024);
            let done = Arc::new(done);
            let (began, stop) = (std::cell::Cell::new(None), all(handled, count));
            let stop = async { began.set(Some(stop.await)) };
            let run = async {
                match way {
                    Way::Batch => {
                        let handler = move |transaction: Transaction, events: Vec<Delivery>| {
                            spend_all(transaction, events, Arc::clone(&done))
                        };
                        inbox.run_batches(consumer, handler, stop).await
                    }
                    Way::Each | Way::Slow => {
                        let handler = move |transaction: Transaction, event: Delivery| {
                            spend(transaction, event, way, Arc::clone(&done))
                        };
                        inbox.run(consumer, handler, stop).await
                    }
                }
            };
            run.await.unwrap();
            began.get().unwrap()
        })
    }

    fn produce(&self, topic: &str, count: i64) {
        let mut config = ClientConfig::new();
        let producer: BaseProducer =
            config.set("bootstrap.servers", self.kafka.bootstrap()).create().unwrap();
        for n in 0..count {
            let (key, id) = ((n % ACCOUNTS).to_string(), format!("{topic}-{n}"));
            let headers = OwnedHeaders::new().insert(Header { key: "id", value: Some(&id) });
            let record = BaseRecord::to(topic).key(&key).payload("{}").headers(headers);
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(DEADLINE).unwrap();
    }
}

fn rate(count: i64, began: Instant) -> f64 {
    f64::from(i32::try_from(count).unwrap()) / began.elapsed().as_secs_f64()
}

/// Waits until all are handled; the rate since the first ones.
async fn all(mut handled: mpsc::Receiver<usize>, count: i64) -> f64 {
    let mut left = usize::try_from(count).unwrap();
    left -= handled.recv().await.unwrap();
    let began = Instant::now();
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
    if matches!(way, Way::Slow) {
        tokio::time::sleep(SLOW).await;
    }
    let parameters = [(&account(&event) as _, tokio_postgres::types::Type::INT8)];
    transaction.execute_typed(SPEND, &parameters).await?;
    done.send(1).await?;
    Ok(())
}

async fn spend_all(
    transaction: Transaction,
    events: Vec<Delivery>,
    done: Arc<mpsc::Sender<usize>>,
) -> Result<(), Failure> {
    let accounts: Vec<i64> = events.iter().map(account).collect();
    let parameters = [(&accounts as _, tokio_postgres::types::Type::INT8_ARRAY)];
    transaction.execute_typed(SPEND_ALL, &parameters).await?;
    done.send(events.len()).await?;
    Ok(())
}

fn account(event: &Delivery) -> i64 {
    std::str::from_utf8(event.key.as_deref().unwrap()).unwrap().parse().unwrap()
}
