//! A service's database and topics, and the example `payments` for them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Parser as _;
use outboxd::internals::throwaway::ThrowawayPostgres;
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Row};

use crate::payments_app;
use crate::process::{self, Process};
use crate::support::kafka::Kafka;
use crate::support::record::Record;
use crate::support::wait::{DEADLINE, eventually, eventually_eq};

/// Not a test of its own: the process of the example.
#[test]
fn payments_process() {
    let Some(arguments) = process::arguments() else { return };
    payments_app::main(payments_app::Arguments::parse_from(arguments));
}

/// An event of the example.
#[derive(Debug, Clone)]
pub(crate) struct Payment {
    pub(crate) id: String,
    pub(crate) customer: i64,
    pub(crate) amount: i64,
    pub(crate) seq: i64,
    pub(crate) fail: &'static str,
    /// Position in the WAL, if the record contains it.
    pub(crate) position: Option<i64>,
}

/// Returns `count` events of `customers` customers, each with a sequence of its own.
pub(crate) fn payments(count: i64, customers: i64) -> Vec<Payment> {
    let payment = |n: i64| Payment {
        id: format!("event-{n}"),
        customer: n % customers,
        amount: n % 7 + 1,
        seq: n / customers,
        fail: "no",
        position: None,
    };
    (0..count).map(payment).collect()
}

/// Returns the events as the relay sends them, with positions in their order.
pub(crate) fn placed_payments(count: i64, customers: i64) -> Vec<Payment> {
    let placed = |(payment, position)| Payment { position: Some(position), ..payment };
    payments(count, customers).into_iter().zip(100..).map(placed).collect()
}

/// A service with a database, a topic and a topic for dead letters, of one test.
pub(crate) struct Shop<'a> {
    kafka: &'a Kafka,
    url: String,
    admin_url: String,
    name: String,
    runtime: Runtime,
}

impl<'a> Shop<'a> {
    /// Opens a shop whose topic has three partitions.
    pub(crate) fn open(postgres: &ThrowawayPostgres, kafka: &'a Kafka) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("shop_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let shop = Self::of(postgres, kafka, &name);
        shop.execute_as_admin(&format!("CREATE DATABASE {}", shop.name));
        shop.execute(
            "CREATE TABLE customers (id bigint PRIMARY KEY, lifetime_value bigint NOT NULL DEFAULT 0); \
             INSERT INTO customers SELECT generate_series(0, 999); \
             CREATE TABLE applied (n bigserial, event_id text, customer_id bigint, seq bigint)",
        );
        kafka.create_topic(&shop.topic(), 3, &[]);
        kafka.create_topic(&shop.dead_letter_topic(), 1, &[]);
        shop
    }

    /// Returns a shop that is open already.
    pub(crate) fn of(postgres: &ThrowawayPostgres, kafka: &'a Kafka, name: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self {
            kafka,
            url: postgres.url(name),
            admin_url: postgres.url("postgres"),
            name: name.to_owned(),
            runtime,
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn topic(&self) -> String {
        format!("{}.orders", self.name)
    }

    pub(crate) fn dead_letter_topic(&self) -> String {
        format!("{}.dlq", self.name)
    }

    /// Produces these, keyed by customer, each with its id in a header.
    pub(crate) fn produce(&self, payments: &[Payment]) {
        self.send(payments.iter().map(|payment| (payment, None)));
    }

    /// Produces each event to every partition.
    pub(crate) fn produce_everywhere(&self, payments: &[Payment]) {
        self.send(payments.iter().flat_map(|payment| (0..3).map(move |number| (payment, Some(number)))));
    }

    /// Produces the events to one partition.
    pub(crate) fn produce_to(&self, partition: i32, payments: &[Payment]) {
        self.send(payments.iter().map(|payment| (payment, Some(partition))));
    }

    fn send<'p>(&self, payments: impl Iterator<Item = (&'p Payment, Option<i32>)>) {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.kafka.bootstrap()).set("partitioner", "murmur2_random");
        let producer: BaseProducer = config.create().unwrap();
        let topic = self.topic();
        for (payment, partition) in payments {
            let Payment { id, customer, amount, seq, fail, position } = payment;
            let key = customer.to_string();
            let value =
                format!(r#"{{"customer_id":{customer},"amount":{amount},"seq":{seq},"fail":"{fail}"}}"#);
            let mut headers = OwnedHeaders::new().insert(Header { key: "id", value: Some(id) });
            if let Some(position) = position {
                let value = format!("7423456789012345678/{position:016X}/00000000");
                headers = headers.insert(Header { key: "outboxd.position", value: Some(&value) });
            }
            let mut record = BaseRecord::to(&topic).key(&key).payload(&value).headers(headers);
            record.partition = partition;
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(DEADLINE).unwrap();
    }

    /// Produces records with these keys, and perhaps values and ids.
    pub(crate) fn produce_records(&self, records: &[(&str, Option<&str>, Option<&str>)]) {
        let topic = self.topic();
        for (key, value, id) in records {
            let headers = id.iter().fold(OwnedHeaders::new(), |headers, id| {
                headers.insert(Header { key: "id", value: Some(&(*id).to_owned()) })
            });
            let mut record = BaseRecord::<[u8], [u8]>::to(&topic).key(key.as_bytes()).headers(headers);
            record.payload = value.map(str::as_bytes);
            self.kafka.produce(record);
        }
    }

    /// Starts the example with more arguments.
    pub(crate) fn start(&self, more: &[&str]) -> Process {
        self.start_as(&self.name, more)
    }

    /// Starts the example with another name of the consumer.
    pub(crate) fn start_as(&self, consumer: &str, more: &[&str]) -> Process {
        self.start_with(&self.url, consumer, more)
    }

    /// Starts the example with another URL of the database.
    pub(crate) fn start_at(&self, url: &str, more: &[&str]) -> Process {
        self.start_with(url, &self.name, more)
    }

    fn start_with(&self, url: &str, consumer: &str, more: &[&str]) -> Process {
        let (topic, dlq, bootstrap) = (self.topic(), self.dead_letter_topic(), self.kafka.bootstrap());
        let own = ["--postgres", url, "--kafka", &bootstrap, "--topic", &topic, "--dlq", &dlq];
        // The shortest that the broker takes: a consumer that was killed is waited for.
        let consumer = ["--consumer", consumer, "-X", "session.timeout.ms=6000"];
        Process::start("shop::payments_process", own.iter().chain(&consumer).chain(more).copied())
    }

    /// Waits until `count` events are applied.
    #[track_caller]
    pub(crate) fn wait_for_applied(&self, count: i64) {
        eventually(DEADLINE, &format!("{count} events are applied"), || self.applied_count() >= count);
    }

    pub(crate) fn applied_count(&self) -> i64 {
        self.query("SELECT count(*) FROM applied", &[])[0].get(0)
    }

    pub(crate) fn parked_count(&self) -> i64 {
        self.query("SELECT count(*) FROM inbox_parked", &[])[0].get(0)
    }

    /// Waits until there are `count` dead letters and returns them.
    #[track_caller]
    pub(crate) fn wait_for_dead_letters(&self, count: i64) -> Vec<Record> {
        self.kafka.wait_for_count(&self.dead_letter_topic(), count);
        self.kafka.records(&self.dead_letter_topic())
    }

    /// Returns the ids of the dead letters so far.
    pub(crate) fn dead_ids(&self) -> Vec<String> {
        let dead = self.kafka.records(&self.dead_letter_topic());
        dead.iter().map(|record| record.header("id").to_owned()).collect()
    }

    /// Returns the values of the dead letters so far.
    pub(crate) fn dead_values(&self) -> Vec<String> {
        let dead = self.kafka.records(&self.dead_letter_topic());
        let value = |record: &Record| {
            String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned()
        };
        dead.iter().map(value).collect()
    }

    /// Returns the place of the event among all applied events.
    pub(crate) fn place_of(&self, payment: &Payment) -> i64 {
        self.query("SELECT n FROM applied WHERE event_id = $1", &[&payment.id])[0].get(0)
    }

    /// Checks that each of these was applied once and in order, and nothing else was.
    #[track_caller]
    pub(crate) fn check(&self, payments: &[Payment]) {
        let mut expected: BTreeMap<i64, Vec<(String, i64)>> = BTreeMap::new();
        for payment in payments {
            expected.entry(payment.customer).or_default().push((payment.id.clone(), payment.seq));
        }
        let mut applied: BTreeMap<i64, Vec<(String, i64)>> = BTreeMap::new();
        for row in self.query("SELECT customer_id, event_id, seq FROM applied ORDER BY n", &[]) {
            applied.entry(row.get(0)).or_default().push((row.get(1), row.get(2)));
        }
        for (customer, expected) in &expected {
            assert_eq!(applied.get(customer), Some(expected), "customer {customer}");
        }
        assert_eq!(applied.len(), expected.len());
        let sum: i64 = payments.iter().map(|payment| payment.amount).sum();
        let row = &self.query("SELECT sum(lifetime_value)::bigint FROM customers", &[])[0];
        assert_eq!(row.get::<_, i64>(0), sum);
    }

    /// Checks the same in any order: the order of a key ends where partitions are added.
    #[track_caller]
    pub(crate) fn check_each(&self, payments: &[Payment]) {
        let expected: BTreeMap<&str, i64> = payments.iter().map(|payment| (&*payment.id, 1)).collect();
        let rows = self.query("SELECT event_id, count(*) FROM applied GROUP BY event_id", &[]);
        let applied: BTreeMap<&str, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(applied, expected);
    }

    /// Waits until the group has committed everything that is in the topic.
    #[track_caller]
    pub(crate) fn wait_until_committed(&self) {
        use rdkafka::consumer::{BaseConsumer, Consumer as _};
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.kafka.bootstrap()).set("group.id", &self.name);
        let consumer: BaseConsumer = config.create().unwrap();
        eventually_eq(DEADLINE, &self.kafka.record_count(&self.topic()), || {
            let mut list = rdkafka::TopicPartitionList::new();
            let metadata = consumer.fetch_metadata(Some(&self.topic()), DEADLINE).unwrap();
            for partition in metadata.topics()[0].partitions() {
                list.add_partition(&self.topic(), partition.id());
            }
            let committed = consumer.committed_offsets(list, DEADLINE).unwrap();
            committed.elements().iter().map(|element| element.offset().to_raw().unwrap_or(0).max(0)).sum()
        });
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.try_execute_at(&self.url, sql).unwrap();
    }

    /// Runs a statement in another database of the server.
    pub(crate) fn execute_as_admin(&self, sql: &str) {
        self.try_execute_as_admin(sql).unwrap();
    }

    pub(crate) fn try_execute_as_admin(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.try_execute_at(&self.admin_url, sql)
    }

    fn try_execute_at(&self, url: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            let driver = self.runtime.spawn(connection);
            let executed = client.batch_execute(sql).await;
            drop(client);
            drop(driver.await);
            executed
        })
    }

    pub(crate) fn query(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
            let driver = self.runtime.spawn(connection);
            let rows = client.query(sql, parameters).await.unwrap();
            drop(client);
            drop(driver.await);
            rows
        })
    }
}
