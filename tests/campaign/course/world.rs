//! The servers of all runs.

use outboxd::internals::throwaway::{ThrowawayPostgres, unused_port};

use crate::support::kafka::Kafka;
use crate::support::postgres;
use crate::support::proxy::{Protocol, Proxy};

pub(crate) struct World {
    pub(crate) postgres: ThrowawayPostgres,
    pub(crate) kafka: Kafka,
    pub(crate) kafka_link: Proxy,
}

impl World {
    pub(crate) fn start() -> Self {
        let door = unused_port().unwrap();
        let kafka_link = Proxy::start(Protocol::Kafka, door);
        let kafka = Kafka::start_behind(door, kafka_link.port());
        let postgres = postgres::start_with(18, &[("wal_sender_timeout", "2s")]);
        Self { postgres, kafka, kafka_link }
    }
}
