//! Snapshot: the existing rows that are sent.

use std::time::Duration;

use crate::postgres::{SnapshotMode, SnapshotOptions, TableOrder};

use crate::config::read::Reader;

const MODE: &str = "snapshot.mode";
const CONFIGURED: &str = "configuration_based";
const OVERRIDES: &str = "snapshot.select.statement.overrides";

const MODES: [(&str, SnapshotMode); 6] = [
    ("initial", SnapshotMode::Initial),
    ("always", SnapshotMode::Always),
    ("initial_only", SnapshotMode::InitialOnly),
    ("no_data", SnapshotMode::NoData),
    ("never", SnapshotMode::NoData),
    ("when_needed", SnapshotMode::WhenNeeded),
];

const ORDERS: [(&str, TableOrder); 3] = [
    ("disabled", TableOrder::AsListed),
    ("ascending", TableOrder::FewestRowsFirst),
    ("descending", TableOrder::MostRowsFirst),
];

/// Reads the options.
pub(in crate::config) fn options(reader: &mut Reader<'_>) -> SnapshotOptions {
    SnapshotOptions {
        mode: mode(reader),
        include: reader.regex_list("snapshot.include.collection.list"),
        overrides: overrides(reader),
        connections: reader.integer("snapshot.max.threads", 1..=100, 1),
        order: reader.choice("snapshot.tables.order.by.row.count", &ORDERS, TableOrder::default()),
        delay: reader.millis("snapshot.delay.ms", 0, Duration::ZERO),
        streaming_delay: reader.millis("streaming.delay.ms", 0, Duration::ZERO),
    }
}

/// Returns whether `configuration_based` requests a snapshot when the slot has lost WAL.
pub(in crate::config) fn closes_gaps(reader: &mut Reader<'_>) -> bool {
    is_configured(reader) && part(reader, "snapshot.on.data.error")
}

fn mode(reader: &mut Reader<'_>) -> SnapshotMode {
    if is_configured(reader) {
        return configured(reader);
    }
    let names: Vec<_> = MODES.into_iter().chain([(CONFIGURED, SnapshotMode::default())]).collect();
    reader.choice(MODE, &names, SnapshotMode::default())
}

fn is_configured(reader: &Reader<'_>) -> bool {
    reader.filled(MODE).is_some_and(|mode| mode.eq_ignore_ascii_case(CONFIGURED))
}

/// Returns the mode that the parts of `configuration_based` amount to. As in Debezium, a stored offset has no
/// influence: the rows are sent at each start.
fn configured(reader: &mut Reader<'_>) -> SnapshotMode {
    let (data, stream) = (part(reader, "snapshot.data"), part(reader, "start.stream"));
    match (data, stream) {
        (true, true) => SnapshotMode::Always,
        (true, false) => SnapshotMode::InitialOnly,
        (false, true) => SnapshotMode::NoData,
        (false, false) => {
            if let Some(setting) = reader.settings.get(MODE) {
                let reason = "nothing would be sent: set snapshot.mode.configuration.based.start.stream=true, \
                              or snapshot.mode.configuration.based.snapshot.data=true, or both";
                reader.invalid(setting, reason);
            }
            SnapshotMode::NoData
        }
    }
}

fn part(reader: &mut Reader<'_>, name: &str) -> bool {
    reader.boolean(&format!("snapshot.mode.configuration.based.{name}"), false)
}

fn overrides(reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let mut overrides = Vec::new();
    let tables = reader.text(OVERRIDES).unwrap_or_default();
    for table in tables.split(',').map(str::trim).filter(|table| !table.is_empty()) {
        let key = format!("{OVERRIDES}.{table}");
        match reader.filled(&key) {
            Some(statement) => overrides.push((table.to_owned(), statement.to_owned())),
            None => {
                let lines = [(key.as_str(), "SELECT * FROM … WHERE …")];
                reader.missing(&key, "snapshot.select.statement.overrides names this table", &lines);
            }
        }
    }
    overrides
}
