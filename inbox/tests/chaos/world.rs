//! The servers of all runs, and the database of one run.

use outboxd::internals::throwaway::{ThrowawayPostgres, unused_port};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Error, NoTls, Row};

use crate::support::kafka::Kafka;
use crate::support::postgres;
use crate::support::proxy::{Protocol, Proxy};

pub(crate) struct World {
    pub(crate) postgres: ThrowawayPostgres,
    pub(crate) postgres_link: Proxy,
    pub(crate) kafka: Kafka,
    pub(crate) kafka_link: Proxy,
    runtime: Runtime,
}

impl World {
    pub(crate) fn start() -> Self {
        let door = unused_port().unwrap();
        let kafka_link = Proxy::start(Protocol::Kafka, door);
        let kafka = Kafka::start_behind(door, kafka_link.port());
        let postgres = postgres::start_with(18, &[("deadlock_timeout", "100ms")]);
        let postgres_link = Proxy::start(Protocol::Postgres, postgres.port());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { postgres, postgres_link, kafka, kafka_link, runtime }
    }

    /// Returns the bootstrap servers for consumers, through the link that faults cut.
    pub(crate) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.kafka_link.port())
    }

    /// Returns the URL of a database through the link that faults cut.
    pub(crate) fn link_url(&self, database: &str, schema: &str) -> String {
        let (port, link) =
            (format!(":{}/", self.postgres.port()), format!(":{}/", self.postgres_link.port()));
        let url = self.postgres.url(database).replace(&port, &link);
        format!("{url}?sslmode=disable&options=-csearch_path%3D{schema}")
    }

    /// Returns the URL of a database without the link.
    pub(crate) fn url(&self, database: &str, schema: &str) -> String {
        format!("{}?options=-csearch_path%3D{schema}", self.postgres.url(database))
    }

    pub(crate) fn execute(&self, url: &str, sql: &str) -> Result<(), Error> {
        self.with(url, async |client| client.batch_execute(sql).await)
    }

    pub(crate) fn query(&self, url: &str, sql: &str) -> Result<Vec<Row>, Error> {
        self.with(url, async |client| client.query(sql, &[]).await)
    }

    fn with<T>(&self, url: &str, work: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> Result<T, Error> {
        self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            let mut driver = JoinSet::new();
            driver.spawn(connection);
            let worked = work(&client).await;
            drop(client);
            driver.join_all().await;
            worked
        })
    }
}
