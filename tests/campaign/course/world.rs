//! The servers of all runs.

use outboxd::internals::secret::Secret;
use outboxd::internals::throwaway::{Authentication, Options, ThrowawayPostgres, unused_port};

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
        let authentication = Authentication::ScramSha256(Secret::new("right"));
        let options = postgres::options(18, &[("wal_sender_timeout", "2s")]);
        let postgres = ThrowawayPostgres::start(&Options { authentication, ..options }).unwrap();
        Self { postgres, kafka, kafka_link }
    }
}
