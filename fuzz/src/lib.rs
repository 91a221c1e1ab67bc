//! The fuzz targets as functions of bytes, and the outbox that they share. `fuzz_targets` calls them with inputs of libFuzzer,
//! `tests/checks` with the inputs of `corpora`.

mod backend_frame;
mod column_value;
mod logical_message;
mod lsn;
mod offset_map;
mod pgoutput_message;
mod quoting;
mod replication_message;
mod row;
mod source_offset;
mod stream;

pub use backend_frame::backend_frame;
pub use column_value::column_value;
pub use logical_message::logical_message;
pub use lsn::lsn;
pub use offset_map::offset_map;
pub use pgoutput_message::pgoutput_message;
pub use quoting::quoting;
pub use replication_message::replication_message;
pub use row::row;
pub use source_offset::source_offset;
pub use stream::stream;

use change_events::outbox::{EventContext, EventRouter, EventRouterOptions, OutboxTable, RouteContext};
use connect_data::NameAdjustment;
use connect_data::column::{ColumnDescription, ColumnOptions, ColumnRules, TypeKind};
use connect_data::converter::Converters;
use pg_replication::pgoutput::{Column, Relation, ReplicaIdentity};
use pg_replication::wal::Oid;

/// Options by their names.
pub type Options = &'static [(&'static str, &'static str)];

/// Time at which every row is routed.
pub const NOW: RouteContext = RouteContext { now_ms: 1_700_000_000_123 };

/// Debezium's columns, and one that is placed by the options.
pub const COLUMNS: [(&str, &str); 6] = [
    ("id", "uuid"),
    ("aggregatetype", "varchar"),
    ("aggregateid", "varchar"),
    ("type", "varchar"),
    ("payload", "jsonb"),
    ("note", "text"),
];

/// Returns a router with these options.
pub fn router(options: Options) -> EventRouter {
    let context = EventContext {
        option_prefix: String::new(),
        topic_prefix: "srv".to_owned(),
        topic_delimiter: ".".to_owned(),
        naming: Default::default(),
        run_id: None,
        columns: ColumnOptions::default(),
        condition: None,
        rules: ColumnRules::default(),
        schema_names: NameAdjustment::None,
        field_names: NameAdjustment::None,
    };
    let lookup = lookup(options);
    let (router, converters) = (EventRouterOptions::parse(&lookup), Converters::parse(&lookup));
    EventRouter::new(router.unwrap(), converters.unwrap(), context).unwrap()
}

/// Returns a lookup of the options for the parsers.
pub fn lookup(options: Options) -> impl Fn(&str) -> Option<String> {
    move |key| options.iter().find(|(option, _)| *option == key).map(|(_, value)| (*value).to_owned())
}

/// Returns the table of [`COLUMNS`], bound.
pub fn table(options: Options) -> OutboxTable {
    let columns: Vec<_> = COLUMNS.iter().map(|(name, kind)| description(name, kind)).collect();
    router(options).bind(&relation(&columns), &columns).unwrap()
}

/// Returns a column that may be NULL.
pub fn description(name: &str, kind: &str) -> ColumnDescription {
    let kind = match kind.strip_suffix("[]") {
        Some(element) => TypeKind::Array { element: Box::new(TypeKind::base(element.to_owned())) },
        None => TypeKind::base(kind.to_owned()),
    };
    ColumnDescription {
        name: name.to_owned(),
        type_oid: Oid(0),
        type_modifier: -1,
        kind,
        not_null: false,
        default: None,
        key_position: None,
    }
}

fn relation(columns: &[ColumnDescription]) -> Relation {
    let column = |column: &ColumnDescription| Column {
        name: column.name.clone(),
        type_oid: column.type_oid,
        type_modifier: column.type_modifier,
        in_identity: false,
    };
    Relation {
        oid: Oid(16_384),
        schema: "public".to_owned(),
        table: "outbox".to_owned(),
        replica_identity: ReplicaIdentity::Default,
        columns: columns.iter().map(column).collect(),
    }
}

/// A fuzz target; it panics for an input that fails it.
pub type Target = fn(&[u8]);

/// Each target by the name of its corpus.
pub const TARGETS: [(&str, Target); 11] = [
    ("backend_frame", backend_frame),
    ("column_value", column_value),
    ("logical_message", logical_message),
    ("lsn", lsn),
    ("offset_map", offset_map),
    ("pgoutput_message", pgoutput_message),
    ("quoting", quoting),
    ("replication_message", replication_message),
    ("row", row),
    ("source_offset", source_offset),
    ("stream", stream),
];
