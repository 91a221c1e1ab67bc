//! The servers, and a database with an outbox.

use std::time::Duration;

use outboxd::internals::throwaway::ThrowawayPostgres;
use pg_replication::wal::Lsn;

use crate::options::{Options, Shape};
use crate::support::kafka::Kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres;
use crate::support::relay::{Config, with};
use crate::support::wait::eventually;
use crate::tables::Tables;

const PUBLICATION: &str = "outboxd_compare";
const MAJOR: u16 = 18;
const SETTINGS: [(&str, &str); 4] = [
    ("shared_buffers", "256MB"),
    ("max_wal_size", "8GB"),
    ("log_replication_commands", "off"),
    ("autovacuum", "off"),
];
/// The tests' broker is quick to start; one that is measured compiles in full.
const JVM: &[&str] = &["-Xmx1g", "-XX:TieredStopAtLevel=4"];
/// Maximum time until a walsender releases its slot.
const RELEASED_WITHIN: Duration = Duration::from_secs(60);

/// PostgreSQL, Kafka and the database; all end with this value. The order of the fields is that of their end.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) db: Outbox,
    pub(crate) kafka: Kafka,
    postgres: ThrowawayPostgres,
    /// Instead of the outbox.
    pub(crate) tables: Option<Tables>,
    compression: String,
}

impl Lab {
    pub(crate) fn start(options: &Options) -> Self {
        let postgres = postgres::start_with(MAJOR, &SETTINGS);
        let kafka = Kafka::start_with(JVM);
        let db = Outbox::create(&postgres);
        db.execute("CREATE TABLE other (id bigserial PRIMARY KEY, body text)");
        let tables = Tables::wanted(options);
        match tables {
            Some(tables) => tables.create(&db, PUBLICATION),
            None => db.execute(&format!(
                "CREATE PUBLICATION {PUBLICATION} FOR TABLE outbox WITH (publish = 'insert')"
            )),
        }
        Self { db, kafka, postgres, tables, compression: options.compression.clone() }
    }

    /// Returns the configuration of a relay: the same for outboxd and Debezium.
    pub(crate) fn config(&self, slot: &str, topic: &str, shape: Shape) -> Config {
        let ours = [
            ("slot.name", slot),
            ("topic.prefix", slot),
            ("publication.name", PUBLICATION),
            ("publication.autocreate.mode", "disabled"),
            ("snapshot.mode", "no_data"),
            ("tombstones.on.delete", "false"),
            ("transforms.outbox.route.topic.replacement", topic),
            ("key.converter", "org.apache.kafka.connect.storage.StringConverter"),
            ("producer.override.compression.type", &self.compression),
        ];
        let config = with(with(self.db.config(&self.kafka), &ours), shape.settings());
        match self.tables {
            Some(tables) => tables.config(config),
            None => config,
        }
    }

    pub(crate) const fn publication() -> &'static str {
        PUBLICATION
    }

    /// Returns the folder of the server's programs.
    pub(crate) fn bindir(&self) -> String {
        self.db.query("SELECT setting FROM pg_config WHERE name = 'BINDIR'", &[])[0].get(0)
    }

    /// Slots at one position, so that each decodes the same.
    pub(crate) fn create_slots(&self, names: &[String]) {
        let Some((first, others)) = names.split_first() else { return };
        self.db.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[first]);
        for other in others {
            self.db.query("SELECT pg_copy_logical_replication_slot($1, $2)", &[first, other]);
        }
    }

    /// Drops a slot as soon as it is inactive.
    pub(crate) fn drop_slot(&self, name: &str) {
        let drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
                    WHERE slot_name = $1 AND NOT active";
        let count = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1";
        eventually(RELEASED_WITHIN, &format!("slot {name} is dropped"), || {
            self.db.query(drop, &[&name]);
            self.db.query(count, &[&name])[0].get::<_, i64>(0) == 0
        });
    }

    pub(crate) fn is_held(&self, slot: &str) -> bool {
        let sql = "SELECT active FROM pg_replication_slots WHERE slot_name = $1";
        self.db.query(sql, &[&slot])[0].get(0)
    }

    /// Returns the bytes of WAL by which the slot is behind.
    pub(crate) fn bytes_behind(&self, slot: &str) -> i64 {
        let sql = "SELECT (pg_current_wal_lsn() - confirmed_flush_lsn)::bigint
                   FROM pg_replication_slots WHERE slot_name = $1";
        self.db.query(sql, &[&slot])[0].get(0)
    }

    /// Returns a position that is behind everything written so far, and that the server soon sends.
    pub(crate) fn end(&self) -> Lsn {
        let end: String = self.db.query("SELECT pg_current_wal_insert_lsn()::text", &[])[0].get(0);
        self.db.execute("CHECKPOINT");
        end.parse().unwrap()
    }

    /// Prints the measurement and its environment.
    pub(crate) fn describe(&self, options: &Options) {
        let server: String = self.db.query("SHOW server_version", &[])[0].get(0);
        let cpus = std::thread::available_parallelism().map_or(0, usize::from);
        println!(
            "PostgreSQL {server}, Kafka {}, all on {cpus} CPUs; shape {:?} {}, compression {}",
            Kafka::version(),
            options.shape,
            self.tables.map(|tables| format!("{tables:?}")).unwrap_or_default(),
            self.compression
        );
        debug_assert_eq!(self.postgres.major(), MAJOR);
    }
}
