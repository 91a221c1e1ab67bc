//! The servers: throwaway ones, or the user's.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::super::print_message;
use super::error::Error;
use crate::cli::shell::address::Address;
use crate::throwaway::{self, Options, Release, ThrowawayPostgres};

/// The throwaway server's database.
const DATABASE: &str = "shop";
pub(super) const PARTITION_COUNT: i32 = 3;
/// The cluster's own default.
const REPLICATION: TopicReplication<'static> = TopicReplication::Fixed(-1);
const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);
const SPINNER_INTERVAL: Duration = Duration::from_millis(100);

/// PostgreSQL.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) address: Address,
    /// `None` when it is the user's. Stopped and removed when dropped.
    throwaway: Option<ThrowawayPostgres>,
}

impl Database {
    /// Starts a server, or uses the user's; `None` when it is stopped meanwhile.
    pub(super) async fn start(url: Option<&str>, stop: &CancellationToken) -> Result<Option<Self>, Error> {
        if let Some(url) = url {
            return Ok(Some(Self { address: Address::parse(url)?, throwaway: None }));
        }
        let progress = Progress::begin();
        let bar = progress.0.clone();
        let fetch =
            spawn_blocking(move || throwaway::provide(Release::Newest, |major| report_fetching(&bar, major)));
        // A cancelled fetch leaves only an incomplete folder in the cache, which the next one removes.
        let Some(fetched) = stop.run_until_cancelled(fetch).await else { return Ok(None) };
        fetched.map_err(|error| Error::io("looking for PostgreSQL", error))??;
        progress.starting();
        let start = spawn_blocking(|| ThrowawayPostgres::start(&Options::default()));
        let server = start.await.map_err(|error| Error::io("starting PostgreSQL", error))??;
        let address = Address {
            host: server.host().to_string(),
            port: server.port(),
            user: server.user().to_owned(),
            password: None,
            database: DATABASE.to_owned(),
            sslmode: "disable",
        };
        Ok(Some(Self { address, throwaway: Some(server) }))
    }

    pub(super) const fn is_throwaway(&self) -> bool {
        self.throwaway.is_some()
    }

    /// Stops the throwaway server and removes its folder.
    pub(super) async fn end(self) {
        // It panics in no case that we know; then the keeper still cleans up.
        drop(spawn_blocking(move || drop(self.throwaway)).await);
    }
}

/// Kafka.
pub(super) struct Broker {
    pub(super) bootstrap_servers: String,
    topic: String,
    mock: Option<MockCluster<'static, DefaultProducerContext>>,
}

impl Broker {
    /// Starts a broker in this process, or uses the user's, and creates the topic.
    pub(super) async fn start(servers: Option<&str>, topic: String) -> Result<Self, Error> {
        let Some(servers) = servers else { return Self::start_mock(topic) };
        let broker = Self { bootstrap_servers: servers.to_owned(), topic, mock: None };
        broker.create_topic().await?;
        Ok(broker)
    }

    pub(super) const fn is_mock(&self) -> bool {
        self.mock.is_some()
    }

    /// Deletes the topic, if it is on the user's brokers.
    pub(super) async fn end(self) -> Result<(), Error> {
        if self.mock.is_some() {
            return Ok(());
        }
        let doing = || format!("deleting the topic {}", self.topic);
        let deletion = self.admin()?.delete_topics(&[&self.topic], &admin_options()).await;
        let results = deletion.map_err(|error| Error::kafka(doing(), error))?;
        results.into_iter().try_for_each(|result| match result {
            Ok(_) => Ok(()),
            Err((_, code)) => Err(Error::kafka(doing(), KafkaError::AdminOp(code))),
        })
    }

    fn start_mock(topic: String) -> Result<Self, Error> {
        let failed = |error| Error::kafka("starting librdkafka's in-process broker", error);
        let mock = MockCluster::new(1).map_err(failed)?;
        mock.create_topic(&topic, PARTITION_COUNT, 1).map_err(failed)?;
        Ok(Self { bootstrap_servers: mock.bootstrap_servers(), topic, mock: Some(mock) })
    }

    async fn create_topic(&self) -> Result<(), Error> {
        let doing = || format!("creating the topic {}", self.topic);
        let topic = NewTopic::new(&self.topic, PARTITION_COUNT, REPLICATION);
        let creation = self.admin()?.create_topics([&topic], &admin_options()).await;
        let results = creation.map_err(|error| Error::kafka(doing(), error))?;
        results.into_iter().try_for_each(|result| match result {
            Ok(_) => Ok(()),
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => Err(self.occupied()),
            Err((_, code)) => Err(Error::kafka(doing(), KafkaError::AdminOp(code))),
        })
    }

    fn occupied(&self) -> Error {
        let Self { bootstrap_servers, topic, .. } = self;
        Error::Occupied {
            server: "the cluster of --kafka",
            objects: format!("topic {topic}"),
            fix: format!(
                "wait for the other demo to end; if none runs: kafka-topics.sh --bootstrap-server {bootstrap_servers} \
                 --delete --topic {topic}"
            ),
        }
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>, Error> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap_servers).set("client.id", "outboxd-demo");
        config.create().map_err(|error| Error::kafka("setting up the Kafka client", error))
    }
}

fn admin_options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ADMIN_TIMEOUT)).operation_timeout(Some(ADMIN_TIMEOUT))
}

/// A spinner on a terminal, removed on drop. In a pipe only long actions are reported.
#[derive(Debug)]
struct Progress(ProgressBar);

impl Progress {
    fn begin() -> Self {
        let bar = ProgressBar::new_spinner().with_message("looking for PostgreSQL");
        bar.enable_steady_tick(SPINNER_INTERVAL);
        Self(bar)
    }

    fn starting(&self) {
        self.0.set_message("starting PostgreSQL");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn report_fetching(bar: &ProgressBar, major: u16) {
    let text = format!("fetching PostgreSQL {major} from Maven Central, this once");
    if bar.is_hidden() {
        print_message(&text);
        return;
    }
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} · {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(text);
}
