//! The servers and the links between them and the relay, all of this test's own: it breaks them.

use std::collections::BTreeMap;

use outboxd::internals::throwaway::{ThrowawayPostgres, unused_port};
use rdkafka::consumer::BaseConsumer;

use crate::mode::Mode;
use crate::sabotage::Sabotage;
use crate::shape::Shape;
use crate::support::kafka::Kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres;
use crate::support::proxy::{Protocol, Proxy};
use crate::support::relay::{Config, with};
use crate::support::wait::DEADLINE;

const SCHEMA: &str = include_str!("schema.sql");
/// `wal_sender_timeout`: after this long the server lets go of a relay that does not answer.
pub(crate) const WAL_SENDER_TIMEOUT_S: u64 = 4;
pub(crate) const DEAD_LETTERS: &str = "dead";

/// Place of records: topic and partition.
pub(crate) type Place = (String, i32);

/// The end of each partition.
pub(crate) type Ends = BTreeMap<Place, i64>;

/// Both servers; they serve one campaign after the other.
pub(crate) struct World {
    pub(crate) postgres: ThrowawayPostgres,
    pub(crate) kafka: Kafka,
    /// Proxy through which the relay connects to Kafka.
    pub(crate) kafka_link: Proxy,
}

impl World {
    pub(crate) fn start() -> Self {
        let door = unused_port().unwrap();
        let kafka_link = Proxy::start(Protocol::Kafka, door);
        let kafka = Kafka::start_behind(door, kafka_link.port());
        let timeout = format!("{WAL_SENDER_TIMEOUT_S}s");
        let postgres = postgres::start_with(18, &[("wal_sender_timeout", &timeout)]);
        Self { postgres, kafka, kafka_link }
    }
}

/// The database and the topics of one campaign, and its link to PostgreSQL.
pub(crate) struct Site {
    pub(crate) db: Outbox,
    pub(crate) link: Proxy,
    pub(crate) places: Vec<Place>,
    pub(crate) config: Config,
    pub(crate) mode: Mode,
    consumer: BaseConsumer,
}

impl Site {
    pub(crate) fn create(
        world: &World,
        shape: Shape,
        mode: Mode,
        window: u32,
        sabotage: Option<Sabotage>,
    ) -> Self {
        let db = Outbox::create_bare(&world.postgres, SCHEMA);
        let mut places = Vec::new();
        for topic in shape.topics(&db).into_iter().chain([db.topic(DEAD_LETTERS)]) {
            world.kafka.create_topic(&topic, 3, &[]);
            places.extend((0..3).map(|partition| (topic.clone(), partition)));
        }
        let link = Proxy::start(Protocol::Postgres, world.postgres.port());
        let topics = || places.iter().map(|(topic, _)| topic.clone()).collect();
        link.tamper(sabotage.and_then(Sabotage::of_postgres));
        world.kafka_link.tamper(sabotage.and_then(|sabotage| sabotage.of_kafka(topics())));
        let mut config = shape.config(config(&db, world, &link, mode, window));
        if sabotage.is_some() {
            // A position is confirmed when Kafka has it, up to a second late: by then the next transaction is acknowledged too, and
            // what confirms it early does no harm that could be found.
            config = with(config, &[("outboxd.position.topic", "")]);
        }
        Self { db, link, places, config, mode, consumer: world.kafka.consumer() }
    }

    /// Returns the end of each partition, queried without the links. The broker must be up.
    pub(crate) fn ends(&self) -> Ends {
        let ends = Kafka::try_ends(&self.consumer, &self.places, DEADLINE).unwrap();
        self.places.iter().cloned().zip(ends).collect()
    }
}

fn config(db: &Outbox, world: &World, link: &Proxy, mode: Mode, window: u32) -> Config {
    let bootstrap = format!("127.0.0.1:{}", world.kafka_link.port());
    let (port, window, dead) = (link.port().to_string(), window.to_string(), db.topic(DEAD_LETTERS));
    let settings = [
        ("bootstrap.servers", bootstrap.as_str()),
        ("database.port", &port),
        ("database.sslmode", "disable"),
        ("outboxd.inflight.records.max", &window),
        ("outboxd.startup.timeout.ms", "120000"),
        ("outboxd.shutdown.timeout.ms", "5000"),
        ("errors.tolerance", "all"),
        ("errors.deadletterqueue.topic.name", &dead),
    ];
    with(with(db.config(&world.kafka), &settings), mode.settings())
}
