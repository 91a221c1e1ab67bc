//! The configurations of the services.

use crate::course::setup::{FILTERED, Site};
use crate::course::world::World;
use crate::plan::feature::Feature;
use crate::support::relay::{Config, with};

const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";

/// Tables that partial snapshots have.
const IN_SNAPSHOTS: &str = "public.t_a,public.outbox";

const GUARANTEES: [&str; 3] = ["at_least_once", "tail_dedupe", "exactly_once"];

impl Site {
    /// Returns the configuration of the first service: before or after the change of the configuration.
    pub(crate) fn config(&self, world: &World, is_changed: bool) -> Config {
        let draw = &self.draw;
        let on = |feature: Feature| draw.has(feature) && (is_changed || !draw.later.contains(&feature));
        let mut config = self.base(world, self.db.name());
        if let Some(credentials) = &self.credentials {
            config = credentials.configure(config);
        }
        let mut tables = vec!["public.t_a", "public.t_p[0-9]+", "public.t_new", "public.t_child"];
        if !(draw.has(Feature::ListShrinks) && is_changed) {
            tables.push("public.t_b");
        }
        if !draw.has(Feature::ListGrows) || is_changed {
            tables.extend(["public.t_c", "public.t_renamed"]);
        }
        config = self.shaped(config, self.db.name(), &tables);
        let number = guarantee_number(draw.guarantee);
        let number =
            if on(Feature::GuaranteeChanged) { number + 1 + usize::from(draw.window == 50) } else { number };
        let (dead, window) = (self.db.topic("dead"), draw.window.to_string());
        let filter = format!("value.after == null || value.after.grp != {FILTERED}");
        let offsets = self.offset_topic();
        let (is_partial, by_list) = (on(Feature::PartialSnapshot), draw.excludes_tables());
        let groups: [(bool, &[(&str, &str)]); 14] = [
            (
                true,
                &[
                    ("outboxd.delivery.guarantee", GUARANTEES[number % 3]),
                    ("outboxd.inflight.records.max", &window),
                ],
            ),
            (self.recovers(), &[("slot.recovery", "snapshot")]),
            (is_partial && by_list, &[("snapshot.include.collection.list", IN_SNAPSHOTS)]),
            (
                is_partial && !by_list,
                &[
                    ("snapshot.select.statement.overrides", "public.t_b"),
                    (
                        "snapshot.select.statement.overrides.public.t_b",
                        "SELECT * FROM public.t_b WHERE id % 2 = 0",
                    ),
                ],
            ),
            (
                on(Feature::OffsetStored),
                &[("offset.storage.topic", &offsets), ("offset.flush.interval.ms", "200")],
            ),
            (on(Feature::SkippedUpdates), &[("skipped.operations", "u")]),
            (on(Feature::SkippedDeletes), &[("skipped.operations", "d")]),
            (on(Feature::SkippedUpdates) && on(Feature::SkippedDeletes), &[("skipped.operations", "u,d")]),
            (on(Feature::KeyColumns), &[("message.key.columns", "public.t_b:grp")]),
            (on(Feature::NoTombstones), &[("tombstones.on.delete", "false")]),
            (on(Feature::Heartbeat), &[("heartbeat.interval.ms", "300")]),
            (
                on(Feature::DeadLetters) || draw.has(Feature::Unroutable) || draw.has(Feature::Replayed),
                &[("errors.tolerance", "all"), ("errors.deadletterqueue.topic.name", &dead)],
            ),
            (
                // They name the origin of a dead letter.
                draw.has(Feature::Replayed),
                &[("errors.deadletterqueue.context.headers.enable", "true")],
            ),
            (
                draw.has(Feature::Cleanup),
                &[
                    ("outboxd.cleanup.enable", "true"),
                    ("outboxd.cleanup.interval.ms", "200"),
                    ("outboxd.cleanup.before.slot", "delete"),
                ],
            ),
        ];
        for (_, settings) in groups.iter().filter(|(is_on, _)| *is_on) {
            config = with(config, settings);
        }
        if on(Feature::Filter) {
            let topics = format!("{}[.]public[.]t_.*", self.db.name());
            let settings = [
                ("transforms.filter.type", "outboxd.transforms.FilterByExpression"),
                ("transforms.filter.condition", &filter),
                ("transforms.filter.topic.regex", &topics),
            ];
            config = with(chained(config, "filter", true), &settings);
        }
        if on(Feature::Unwrap) {
            let settings = [
                ("transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState"),
                ("transforms.unwrap.add.fields", "op"),
                ("transforms.unwrap.delete.tombstone.handling.mode", "rewrite"),
            ];
            config = with(chained(config, "unwrap", false), &settings);
        }
        config
    }

    /// Returns whether a lost slot is created again by the relay itself, and not by an operator who reads its message.
    fn recovers(&self) -> bool {
        self.draw.has(Feature::SlotDropped) && self.draw.window == 50
    }

    /// Returns the configuration of the second service, which has no features but the shape.
    pub(crate) fn second_config(&self, world: &World) -> Config {
        let tables = [
            "public.t_a",
            "public.t_b",
            "public.t_c",
            "public.t_renamed",
            "public.t_p[0-9]+",
            "public.t_new",
            "public.t_child",
        ];
        let config = self.shaped(self.base(world, &self.second()), &self.second(), &tables);
        let dead = format!("{}.dead", self.second());
        with(config, &[("errors.tolerance", "all"), ("errors.deadletterqueue.topic.name", &dead)])
    }

    /// Returns the configuration of the service that replaces a poller, and of the commands that let it do so.
    pub(crate) fn migrated_config(&self, world: &World) -> Config {
        let settings = [
            ("table.include.list", "public.polled"),
            ("snapshot.mode", "no_data"),
            ("outboxd.delivery.guarantee", GUARANTEES[guarantee_number(self.draw.guarantee)]),
        ];
        with(self.base(world, &self.migrated()), &settings)
    }

    fn base(&self, world: &World, name: &str) -> Config {
        let bootstrap = format!("127.0.0.1:{}", world.kafka_link.port());
        let port = self.link.port().to_string();
        let settings = [
            ("bootstrap.servers", bootstrap.as_str()),
            ("database.port", &port),
            ("database.sslmode", "disable"),
            ("topic.prefix", name),
            ("slot.name", name),
            ("publication.name", name),
            ("name", name),
            ("outboxd.startup.timeout.ms", "120000"),
            ("outboxd.shutdown.timeout.ms", "8000"),
            ("producer.batch.size", "8000"),
        ];
        let route = format!("{name}.${{routedByValue}}");
        with(
            with(self.db.config(&world.kafka), &settings),
            &[("transforms.outbox.route.topic.replacement", &route)],
        )
    }

    /// Adds the settings of an outbox, of tables, or of both.
    fn shaped(&self, config: Config, name: &str, tables: &[&str]) -> Config {
        let mode = match () {
            () if self.draw.has(Feature::AlwaysSnapshot) => "always",
            () if self.draw.begins_with_snapshot() => "initial",
            () => "no_data",
        };
        let config = with(config, &[("snapshot.mode", mode)]);
        if self.draw.shape == Feature::Outbox {
            return config;
        }
        let is_both = self.draw.shape == Feature::Both;
        let list =
            tables.iter().copied().chain(is_both.then_some("public.outbox")).collect::<Vec<_>>().join(",");
        let settings = [
            ("table.include.list", list.as_str()),
            ("publication.autocreate.mode", if self.draw.all_tables { "all_tables" } else { "filtered" }),
            ("key.converter", JSON),
            ("key.converter.schemas.enable", "false"),
            ("value.converter", JSON),
            ("value.converter.schemas.enable", "false"),
            ("signal.data.collection", "public.signals"),
            ("incremental.snapshot.chunk.size", "20"),
        ];
        let mut config = with(config, &settings);
        if !is_both {
            config.retain(|key, _| !key.starts_with("transforms"));
            return config;
        }
        let pattern = format!("{name}[.]public[.]outbox");
        let settings = [
            ("transforms.outbox.predicate", "isOutbox"),
            ("predicates", "isOutbox"),
            ("predicates.isOutbox.type", "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"),
            ("predicates.isOutbox.pattern", &pattern),
        ];
        with(config, &settings)
    }
}

fn guarantee_number(guarantee: Feature) -> usize {
    match guarantee {
        Feature::AtLeastOnce => 0,
        Feature::TailDedupe => 1,
        _ => 2,
    }
}

/// Adds one more transform, before or after the others.
fn chained(config: Config, name: &str, is_first: bool) -> Config {
    let chain = match config.get("transforms").and_then(|chain| chain.as_str()) {
        None | Some("") => name.to_owned(),
        Some(others) if is_first => format!("{name},{others}"),
        Some(others) => format!("{others},{name}"),
    };
    with(config, &[("transforms", &chain)])
}
