//! Captured tables: an outbox, or the tables themselves.

use fastrand::Rng;

use crate::support::outbox::Outbox;
use crate::support::relay::{Config, with};

const KINDS: [&str; 3] = ["order", "payment", "refund"];
const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";

/// Shape of the load: the tables to which the services write, and their records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Rows are inserted into an outbox; the EventRouter routes them.
    Outbox,
    /// Rows of three tables are inserted, updated and deleted, and their keys change; each change is an event.
    Tables,
    /// The same, and signals ask for incremental snapshots of them meanwhile.
    Signals,
}

/// All, by their names.
pub(crate) const SHAPES: [(&str, Shape); 3] =
    [("outbox", Shape::Outbox), ("tables", Shape::Tables), ("signals", Shape::Signals)];
/// Table to which signals are written.
const SIGNALS: &str = "public.signals";

impl Shape {
    /// Returns the topics of the events.
    pub(crate) fn topics(self, db: &Outbox) -> Vec<String> {
        let topic = |kind: &&str| match self {
            Self::Outbox => db.topic(kind),
            Self::Tables | Self::Signals => db.topic(&format!("public.{kind}")),
        };
        let signals = (self == Self::Signals).then(|| db.topic(SIGNALS));
        KINDS.iter().map(topic).chain(signals).collect()
    }

    /// Returns the tables whose changes are events, with their topics.
    pub(crate) fn tables(self, db: &Outbox) -> impl Iterator<Item = (&'static str, String)> {
        KINDS.into_iter().zip(self.topics(db))
    }

    /// Returns whether a topic has signals, which are not judged.
    pub(crate) fn is_of_signals(topic: &str) -> bool {
        topic.ends_with(SIGNALS)
    }

    /// Returns whether changes of tables are events.
    pub(crate) fn is_of_tables(self) -> bool {
        self != Self::Outbox
    }

    /// Turns the configuration of an outbox into that of tables.
    pub(crate) fn config(self, mut config: Config) -> Config {
        if self == Self::Outbox {
            let settings = [
                ("transforms.outbox.table.field.event.timestamp", "stamp"),
                ("transforms.outbox.table.fields.additional.placement", "type:header"),
            ];
            return with(config, &settings);
        }
        config.retain(|key, _| !key.starts_with("transforms"));
        let settings = [
            ("table.include.list", "public.order,public.payment,public.refund"),
            ("publication.autocreate.mode", "filtered"),
            ("key.converter", JSON),
            ("key.converter.schemas.enable", "false"),
            ("value.converter", JSON),
            ("value.converter.schemas.enable", "false"),
            // It has no value that would identify its event.
            ("tombstones.on.delete", "false"),
        ];
        config = with(config, &settings);
        if self == Self::Signals {
            let signals = [("signal.data.collection", SIGNALS), ("incremental.snapshot.chunk.size", "300")];
            config = with(config, &signals);
        }
        config
    }

    /// Returns a statement that makes `count` changes or events of these keys.
    pub(crate) fn happen(self, count: u64, keys: &str) -> String {
        match self {
            Self::Outbox => format!("SELECT emit({count}, ARRAY{keys});"),
            Self::Tables | Self::Signals => format!("SELECT change({count}, ARRAY{keys});"),
        }
    }

    /// Returns a table whose columns are added and dropped.
    pub(crate) fn altered(self, rng: &mut Rng) -> &'static str {
        match self {
            Self::Outbox => "outbox",
            Self::Tables | Self::Signals => KINDS[rng.usize(0..KINDS.len())],
        }
    }
}
