//! The codes of the checks. They are stable: scripts and documentation name them.

use std::fmt;

/// The name of a check that never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code(&'static str);

impl Code {
    pub(super) const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The configuration has no mistake.
pub(super) const CONFIGURATION: Code = Code("CF001");
/// What was assumed because nothing was said.
pub(super) const ASSUMED: Code = Code("CF002");
/// Keys of Debezium's that are not acted upon.
pub(super) const NOT_USED: Code = Code("CF003");
/// No server has been asked, because something before it failed.
pub(super) const RUNTIME: Code = Code("CF004");

/// PostgreSQL can be reached and lets us in.
pub(super) const LOGIN: Code = Code("PG001");
/// It lets us in for replication.
pub(super) const REPLICATION_LOGIN: Code = Code("PG002");
/// `wal_level`
pub(super) const WAL_LEVEL: Code = Code("PG003");
/// `server_version`
pub(super) const VERSION: Code = Code("PG004");
/// The server is no standby.
pub(super) const PRIMARY: Code = Code("PG005");
/// `server_encoding`
pub(super) const ENCODING: Code = Code("PG006");
/// `max_replication_slots`
pub(super) const FREE_SLOTS: Code = Code("PG007");
/// `max_wal_senders`
pub(super) const FREE_WAL_SENDERS: Code = Code("PG008");
/// `max_slot_wal_keep_size`
pub(super) const SLOT_WAL_KEEP: Code = Code("PG009");
/// `wal_sender_timeout`
pub(super) const WAL_SENDER_TIMEOUT: Code = Code("PG010");
/// `idle_replication_slot_timeout`
pub(super) const IDLE_SLOT_TIMEOUT: Code = Code("PG011");
/// The clocks of the server and of this host agree.
pub(super) const CLOCK: Code = Code("PG012");
/// `database.initial.statements`
pub(super) const INITIAL_STATEMENTS: Code = Code("PG013");
/// The catalog can be read.
pub(super) const CATALOG: Code = Code("PG014");
/// Some table is captured.
pub(super) const TABLES: Code = Code("PG020");
/// Captured tables reach the WAL.
pub(super) const LOGGED: Code = Code("PG021");
/// Captured tables have the columns that the router needs.
pub(super) const COLUMNS: Code = Code("PG022");
/// Columns that should not be NULL cannot be.
pub(super) const NULLABLE: Code = Code("PG023");
/// Partitioned tables and `publish_via_partition_root` go together.
pub(super) const PARTITIONS: Code = Code("PG024");
/// The values of the route lead to topics.
pub(super) const ROUTES: Code = Code("PG025");
/// Tables that are published and nearly captured.
pub(super) const NEAR_MISSES: Code = Code("PG026");
/// PostgreSQL can tell which row an update is about.
pub(super) const REPLICA_IDENTITY: Code = Code("PG027");
/// Change events have a key.
pub(super) const NO_KEY: Code = Code("PG028");
/// Large values that an update does not change.
pub(super) const PLACEHOLDERS: Code = Code("PG029");
/// The publication exists or can be made.
pub(super) const PUBLICATION: Code = Code("PG030");
/// It publishes inserts.
pub(super) const PUBLISHED_OPERATIONS: Code = Code("PG031");
/// It publishes the captured tables.
pub(super) const PUBLISHED_TABLES: Code = Code("PG032");
/// Its row filters.
pub(super) const ROW_FILTER: Code = Code("PG033");
/// Its column lists.
pub(super) const COLUMN_LIST: Code = Code("PG034");
/// It publishes not much more than the captured tables.
pub(super) const PUBLISHED_EXCESS: Code = Code("PG035");
/// Who takes partitions away, by a clock.
pub(super) const RETENTION: Code = Code("PG036");
/// The slot exists or can be made.
pub(super) const SLOT: Code = Code("PG040");
/// It is ours to use: plugin, database, position.
pub(super) const SLOT_USABLE: Code = Code("PG041");
/// Nobody holds it.
pub(super) const SLOT_FREE: Code = Code("PG042");
/// `wal_status` and `safe_wal_size`
pub(super) const SLOT_WAL: Code = Code("PG043");
/// Other slots of the database that send the same, or that nobody reads.
pub(super) const OTHER_SLOTS: Code = Code("PG044");
/// It stands where outboxd left it.
pub(super) const SLOT_POSITION: Code = Code("PG045");
/// No program seems to poll a captured table.
pub(super) const POLLED: Code = Code("PG046");
/// The role may read the rows that a snapshot sends.
pub(super) const READABLE: Code = Code("PG047");
/// TimescaleDB's catalog can be read, where a transform needs it.
pub(super) const TIMESCALE: Code = Code("PG048");
/// Generated columns are in the stream.
pub(super) const GENERATED: Code = Code("PG049");
/// The slot has the failover that `slot.failover` asks for.
pub(super) const SLOT_FAILOVER: Code = Code("PG050");

/// Kafka can be reached and lets us in.
pub(super) const KAFKA: Code = Code("KA001");
/// The brokers of the cluster.
pub(super) const BROKERS: Code = Code("KA002");
/// Which topics can be known before the first row.
pub(super) const TARGETS: Code = Code("KA010");
/// A topic exists or will be made.
pub(super) const TOPIC: Code = Code("KA011");
/// A topic survives the loss of a broker.
pub(super) const DURABILITY: Code = Code("KA012");
/// Every partition of a topic can be written to.
pub(super) const WRITABLE: Code = Code("KA013");
/// `cleanup.policy`
pub(super) const COMPACTION: Code = Code("KA014");
/// `max.message.bytes`
pub(super) const MESSAGE_SIZE: Code = Code("KA015");
/// The settings of a topic can be read.
pub(super) const TOPIC_SETTINGS: Code = Code("KA016");
/// The dead-letter topic takes what the others find too large.
pub(super) const LETTER_SIZE: Code = Code("KA017");
/// The topic of exactly-once's state keeps it.
pub(super) const STATE_TOPIC: Code = Code("KA018");
/// `transactional.id`
pub(super) const TRANSACTIONAL_ID: Code = Code("KA019");
/// The topic of the positions can be made, read, and keeps them.
pub(super) const POSITION_TOPIC: Code = Code("KA020");

/// A schema registry answers.
pub(super) const REGISTRY: Code = Code("SR001");
