//! The servers.

use std::time::Instant;

use outboxd::internals::throwaway::{Options, ThrowawayPostgres};
use outboxd_inbox::postgres::Connector;
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tokio_postgres::{Client, NoTls};

use crate::base::kafka::Kafka;
use crate::base::wait::DEADLINE;
use crate::consume::{How, SPEND, consume, rate};
use crate::{ACCOUNTS, MEASURED, MEASURED_EVENTS};

/// PostgreSQL, whose commits are flushed, and Kafka.
pub(crate) struct Lab {
    kafka: Kafka,
    url: String,
    pub(crate) runtime: tokio::runtime::Runtime,
    _postgres: ThrowawayPostgres,
}

impl Lab {
    pub(crate) fn start() -> Self {
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

    pub(crate) fn connector(&self) -> Connector {
        Connector::new(self.url.parse().unwrap(), NoTls)
    }

    async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        self.runtime.spawn(connection);
        client
    }

    /// Runs the usual code of a consumer, prepared statements and all.
    pub(crate) fn by_hand(&self, consumer: &str, count: i64) -> f64 {
        self.runtime.block_on(async {
            let mut client = self.client().await;
            let known =
                "SELECT EXISTS (SELECT FROM inbox_message WHERE consumer = $1 AND source = '' AND message_id = $2)";
            let known = client.prepare(known).await.unwrap();
            let insert = "INSERT INTO inbox_message (consumer, source, message_id) VALUES ($1, '', $2)";
            let insert = client.prepare(insert).await.unwrap();
            let spend = client.prepare(SPEND).await.unwrap();
            let began = Instant::now();
            for n in 0..count {
                let id = format!("event-{n}");
                let transaction = client.transaction().await.unwrap();
                if transaction.query_one(&known, &[&consumer, &id]).await.unwrap().get(0) {
                    continue;
                }
                transaction.execute(&insert, &[&consumer, &id]).await.unwrap();
                transaction.execute(&spend, &[&(n % ACCOUNTS)]).await.unwrap();
                transaction.commit().await.unwrap();
            }
            rate(count, began)
        })
    }

    /// Returns events per second.
    pub(crate) fn consume(&self, count: i64, how: &How) -> f64 {
        let topic = self.topic(count);
        self.runtime.block_on(consume(&self.kafka.bootstrap(), self.connector(), &topic, count, how))
    }

    /// Returns the peak memory of a process that consumed events, in MiB.
    pub(crate) fn memory(&self, batch: usize) -> f64 {
        let told = [self.kafka.bootstrap(), self.url.clone(), self.topic(MEASURED_EVENTS), batch.to_string()];
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        let output = process.env(MEASURED, told.join("\n")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().parse::<f64>().unwrap() / 1024.0
    }

    /// Creates a new topic with `count` events.
    fn topic(&self, count: i64) -> String {
        let name = format!("bench-{}", fastrand::u32(..));
        self.kafka.create_topic(&name, 1, &[]);
        self.produce(&name, count);
        name
    }

    fn produce(&self, topic: &str, count: i64) {
        let mut config = ClientConfig::new();
        let producer: BaseProducer =
            config.set("bootstrap.servers", self.kafka.bootstrap()).create().unwrap();
        for n in 0..count {
            let (key, id) = ((n % ACCOUNTS).to_string(), format!("{topic}-{n}"));
            let place = format!("7423456789012345678/{n:016X}/00000000");
            let headers = OwnedHeaders::new()
                .insert(Header { key: "id", value: Some(&id) })
                .insert(Header { key: "outboxd.position", value: Some(&place) });
            let record = BaseRecord::to(topic).key(&key).payload("{}").headers(headers);
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(DEADLINE).unwrap();
    }
}
