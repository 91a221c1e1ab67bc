//! What is captured: an outbox, or the tables themselves.

use fastrand::Rng;

use crate::support::outbox::Outbox;
use crate::support::relay::{Config, with};

const KINDS: [&str; 3] = ["order", "payment", "refund"];
const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";

/// What the services write to, and what becomes of it.
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
/// Where signals are written to.
const SIGNALS: &str = "public.signals";

impl Shape {
    /// The topics that events go to.
    pub(crate) fn topics(self, db: &Outbox) -> Vec<String> {
        let topic = |kind: &&str| match self {
            Self::Outbox => db.topic(kind),
            Self::Tables | Self::Signals => db.topic(&format!("public.{kind}")),
        };
        let signals = (self == Self::Signals).then(|| db.topic(SIGNALS));
        KINDS.iter().map(topic).chain(signals).collect()
    }

    /// The tables whose changes are events, with their topics.
    pub(crate) fn tables(self, db: &Outbox) -> impl Iterator<Item = (&'static str, String)> {
        KINDS.into_iter().zip(self.topics(db))
    }

    /// Whether a topic has signals, and not what is judged.
    pub(crate) fn is_of_signals(topic: &str) -> bool {
        topic.ends_with(SIGNALS)
    }

    /// Whether changes of tables are events.
    pub(crate) fn is_of_tables(self) -> bool {
        self != Self::Outbox
    }

    /// The configuration of an outbox, made that of tables.
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
            // It has no value that would tell which event it belongs to.
            ("tombstones.on.delete", "false"),
        ];
        config = with(config, &settings);
        if self == Self::Signals {
            let signals = [("signal.data.collection", SIGNALS), ("incremental.snapshot.chunk.size", "300")];
            config = with(config, &signals);
        }
        config
    }

    /// A statement that makes `count` things happen to these keys.
    pub(crate) fn happen(self, count: u64, keys: &str) -> String {
        match self {
            Self::Outbox => format!("SELECT emit({count}, ARRAY{keys});"),
            Self::Tables | Self::Signals => format!("SELECT change({count}, ARRAY{keys});"),
        }
    }

    /// A table whose columns come and go.
    pub(crate) fn altered(self, rng: &mut Rng) -> &'static str {
        match self {
            Self::Outbox => "outbox",
            Self::Tables | Self::Signals => KINDS[rng.usize(0..KINDS.len())],
        }
    }
}
