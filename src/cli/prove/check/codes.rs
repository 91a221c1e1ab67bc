//! The codes of the checks. They are stable: scripts and documentation name them.

use std::fmt;

/// The stable name of a check.
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

/// The configuration has no errors.
pub(super) const CONFIGURATION: Code = Code("CF001");
/// A default that was assumed because the configuration does not decide it.
pub(super) const ASSUMED: Code = Code("CF002");
/// Options of Debezium that have no effect.
pub(super) const NOT_USED: Code = Code("CF003");
/// No server was queried, because an earlier step failed.
pub(super) const RUNTIME: Code = Code("CF004");

/// PostgreSQL can be reached and accepts the login.
pub(super) const LOGIN: Code = Code("PG001");
/// PostgreSQL accepts the login for replication.
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
/// Captured tables have the columns that the router requires.
pub(super) const COLUMNS: Code = Code("PG022");
/// Columns that should not be NULL have a constraint.
pub(super) const NULLABLE: Code = Code("PG023");
/// Partitioned tables and `publish_via_partition_root` fit together.
pub(super) const PARTITIONS: Code = Code("PG024");
/// The values of the route give valid topics.
pub(super) const ROUTES: Code = Code("PG025");
/// Tables that are published and almost captured.
pub(super) const NEAR_MISSES: Code = Code("PG026");
/// PostgreSQL can identify the row of an update.
pub(super) const REPLICA_IDENTITY: Code = Code("PG027");
/// Change events have a key.
pub(super) const NO_KEY: Code = Code("PG028");
/// Large values that an update does not change.
pub(super) const PLACEHOLDERS: Code = Code("PG029");
/// The publication exists or can be created.
pub(super) const PUBLICATION: Code = Code("PG030");
/// The publication publishes inserts.
pub(super) const PUBLISHED_OPERATIONS: Code = Code("PG031");
/// The publication publishes the captured tables.
pub(super) const PUBLISHED_TABLES: Code = Code("PG032");
/// The publication's row filters.
pub(super) const ROW_FILTER: Code = Code("PG033");
/// The publication's column lists.
pub(super) const COLUMN_LIST: Code = Code("PG034");
/// The publication publishes few tables besides the captured ones.
pub(super) const PUBLISHED_EXCESS: Code = Code("PG035");
/// Programs that drop partitions after a time.
pub(super) const RETENTION: Code = Code("PG036");
/// The slot exists or can be created.
pub(super) const SLOT: Code = Code("PG040");
/// The slot fits outboxd: plugin, database, position.
pub(super) const SLOT_USABLE: Code = Code("PG041");
/// No client reads the slot.
pub(super) const SLOT_FREE: Code = Code("PG042");
/// `wal_status` and `safe_wal_size`
pub(super) const SLOT_WAL: Code = Code("PG043");
/// Other slots of the database that send the same rows, or that no client reads.
pub(super) const OTHER_SLOTS: Code = Code("PG044");
/// The slot is at the position at which outboxd left it.
pub(super) const SLOT_POSITION: Code = Code("PG045");
/// No program seems to poll a captured table.
pub(super) const POLLED: Code = Code("PG046");
/// The role may read the rows that a snapshot sends.
pub(super) const READABLE: Code = Code("PG047");
/// TimescaleDB's catalog can be read, where a transform needs it.
pub(super) const TIMESCALE: Code = Code("PG048");
/// Generated columns are in the stream.
pub(super) const GENERATED: Code = Code("PG049");
/// The slot has the failover property of `slot.failover`.
pub(super) const SLOT_FAILOVER: Code = Code("PG050");

/// Kafka can be reached and accepts the login.
pub(super) const KAFKA: Code = Code("KA001");
/// The brokers of the cluster.
pub(super) const BROKERS: Code = Code("KA002");
/// The topics that are known before the first row.
pub(super) const TARGETS: Code = Code("KA010");
/// A topic exists or will be created.
pub(super) const TOPIC: Code = Code("KA011");
/// A topic survives the loss of a broker.
pub(super) const DURABILITY: Code = Code("KA012");
/// Every partition of a topic can be written.
pub(super) const WRITABLE: Code = Code("KA013");
/// `cleanup.policy`
pub(super) const COMPACTION: Code = Code("KA014");
/// `max.message.bytes`
pub(super) const MESSAGE_SIZE: Code = Code("KA015");
/// The settings of a topic can be read.
pub(super) const TOPIC_SETTINGS: Code = Code("KA016");
/// The dead-letter topic accepts records that are too large for the other topics.
pub(super) const LETTER_SIZE: Code = Code("KA017");
/// The topic of exactly-once's state retains it.
pub(super) const STATE_TOPIC: Code = Code("KA018");
/// `transactional.id`
pub(super) const TRANSACTIONAL_ID: Code = Code("KA019");
/// The topic of the positions can be created and read, and retains them.
pub(super) const POSITION_TOPIC: Code = Code("KA020");

/// A schema registry responds.
pub(super) const REGISTRY: Code = Code("SR001");
