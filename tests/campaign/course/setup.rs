//! The database and the topics of one run.

use crate::course::credentials::Credentials;
use crate::course::poller::Mark;
use crate::course::world::World;
use crate::plan::draw::Draw;
use crate::plan::feature::Feature;
use crate::support::outbox::Outbox;
use crate::support::proxy::{Protocol, Proxy, Weather};

const SCHEMA: &str = include_str!("schema.sql");
/// A record with a value that a writer calls large does not fit into such a topic.
const SMALL_TOPIC: [(&str, &str); 1] = [("max.message.bytes", "16384")];
const PARTITIONS: i32 = 2;
const PARTITIONS_LATER: usize = 5;
/// Topics of events and changes that a service has from the beginning, behind its prefix.
const TOPICS: [&str; 5] = ["ev", "public.t_a", "public.t_b", "public.t_c", "public.t_p0"];
/// Those that get more partitions later: a delete of their rows has a number, which orders it among the records of other partitions.
const WIDENED: [&str; 4] = ["ev", "public.t_a", "public.t_b", "public.t_c"];
/// Rows with this remainder of eight are not sent when a filter is configured.
pub(crate) const FILTERED: i64 = 3;

pub(crate) struct Site {
    pub(crate) db: Outbox,
    pub(crate) link: Proxy,
    pub(crate) draw: Draw,
    /// The topics with a limit.
    pub(crate) small: Vec<String>,
    /// The login of the first service, if its password changes.
    pub(crate) credentials: Option<Credentials>,
}

impl Site {
    pub(crate) fn create(world: &World, draw: Draw) -> Self {
        world.kafka_link.set(Weather::Fair);
        let db = Outbox::create_bare(&world.postgres, SCHEMA);
        let link = Proxy::start(Protocol::Postgres, world.postgres.port());
        // Sessions find what another user has made before what PostgreSQL has.
        db.execute(&format!("ALTER DATABASE {} SET search_path = public, pg_catalog", db.name()));
        match draw.shape {
            Feature::Outbox => db.execute("DELETE FROM places WHERE place <> 'outbox'; DELETE FROM journal"),
            Feature::Tables => db.execute("DELETE FROM places WHERE place = 'outbox'"),
            _ => {}
        }
        if draw.full_identity {
            db.execute("ALTER TABLE t_a REPLICA IDENTITY FULL; ALTER TABLE t_b REPLICA IDENTITY FULL; ALTER TABLE t_c REPLICA IDENTITY FULL");
        }
        let credentials = draw.has(Feature::Credentials).then(|| Credentials::create(&db));
        let mut site = Self { db, link, draw, small: Vec::new(), credentials };
        if site.draw.has(Feature::Migrated) {
            site.db.execute(&format!(
                "CREATE TABLE polled (id uuid PRIMARY KEY, aggregatetype text, aggregateid text NOT NULL, type text NOT NULL,
                     payload text NOT NULL, created_at timestamptz NOT NULL DEFAULT clock_timestamp(), {});
                 INSERT INTO places (place, rel, base, open_rows) VALUES ('polled', 'polled', 8000, 40)",
                site.mark().column()
            ));
            world.kafka.create_topic(&site.polled_topic(), PARTITIONS, &[]);
        }
        if site.draw.has(Feature::OffsetStored) {
            world.kafka.create_topic(&site.offset_topic(), 1, &[("cleanup.policy", "compact")]);
        }
        for prefix in site.prefixes() {
            for topic in ["dead", "public.signals"].into_iter().chain(TOPICS) {
                let name = format!("{prefix}.{topic}");
                let is_small = site.draw.has(Feature::TooLarge)
                    && prefix == site.db.name()
                    && !matches!(topic, "dead" | "public.signals");
                world.kafka.create_topic(&name, PARTITIONS, if is_small { &SMALL_TOPIC } else { &[] });
                site.small.extend(is_small.then_some(name));
            }
        }
        site
    }

    /// Returns the prefix of each service's topics, which is the name of its slot too.
    pub(crate) fn prefixes(&self) -> Vec<String> {
        let second = self.draw.has(Feature::TwoServices).then(|| self.second());
        [self.db.name().to_owned()].into_iter().chain(second).collect()
    }

    /// Returns the topic in which the first service stores its offset as Debezium does.
    pub(crate) fn offset_topic(&self) -> String {
        format!("offsets_{}", self.db.name())
    }

    /// Adds partitions to the topics of the first service.
    pub(crate) fn add_partitions(&self, world: &World) {
        for topic in WIDENED {
            world.kafka.add_partitions(&format!("{}.{topic}", self.db.name()), PARTITIONS_LATER);
        }
    }

    /// Returns the number of look-alikes that were run, if any.
    pub(crate) fn trusted_names(&self) -> Option<i64> {
        let rows = self.db.query("SELECT last_value FROM look_alikes WHERE is_called", &[]);
        rows.first().map(|row| row.get(0))
    }

    /// Returns the name of the service that replaces the poller.
    pub(crate) fn migrated(&self) -> String {
        format!("{}_m", self.db.name())
    }

    /// Returns the topic of the outbox that is migrated.
    pub(crate) fn polled_topic(&self) -> String {
        format!("{}.ev", self.migrated())
    }

    pub(crate) fn mark(&self) -> Mark {
        if self.draw.window == 50 { Mark::SentAt } else { Mark::Status }
    }

    /// Returns the place that the publication is without for a while, or nothing for all of them.
    pub(crate) fn gap_place(&self) -> &'static str {
        match self.draw.shape {
            _ if self.draw.all_tables && self.draw.shape != Feature::Outbox => "",
            Feature::Tables => "a",
            _ => "outbox",
        }
    }

    pub(crate) fn second(&self) -> String {
        format!("{}_2", self.db.name())
    }
}
