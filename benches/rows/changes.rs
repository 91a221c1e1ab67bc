//! Change events of a table of twelve columns: a decoded change to records.

use std::hint::black_box;

use change_events::change::{
    ChangeContext, ChangeEvents, ChangeRecords, ChangeTable, RowChange, SkippedHalves, Snapshot,
};
use change_events::outbox::{Encoder, EventContext, RouteError};
use connect_data::NameAdjustment;
use connect_data::column::{ColumnDescription, ColumnOptions, ColumnRules, TypeKind};
use connect_data::converter::registered::SchemaId;
use connect_data::converter::{ConvertError, Destination};
use criterion::Criterion;
use pg_replication::pgoutput::{Column, ColumnValue, OldTuple, Relation, ReplicaIdentity, Tuple};
use pg_replication::wal::{Lsn, Oid, PgTimestamp, Xid};

use crate::input::ROWS;
use crate::measured::step;

/// The table: name, type and its object id of each column, and two values that a row has before and after an update.
const COLUMNS: [(&str, &str, u32, [&str; 2]); 12] = [
    ("id", "int8", 20, ["1234567", "1234567"]),
    ("customer", "int4", 23, ["4711", "4711"]),
    ("status", "text", 25, ["placed", "paid"]),
    ("amount", "numeric", 1700, ["1234.50", "1299.90"]),
    ("rate", "float8", 701, ["0.19", "0.19"]),
    ("paid", "bool", 16, ["f", "t"]),
    ("placed_at", "timestamptz", 1184, ["2026-01-02 03:04:05.678901+00", "2026-01-02 03:04:05.678901+00"]),
    ("due", "date", 1082, ["2026-02-01", "2026-02-01"]),
    ("token", "uuid", 2950, ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000001"]),
    ("note", "text", 25, ["please ring twice, and leave it at the \"green\" door", "left at the door"]),
    ("lines", "jsonb", 3802, [LINES, LINES]),
    ("changed_at", "timestamp", 1114, ["2026-01-02 03:04:05.678901", "2026-01-03 09:10:11.5"]),
];
const LINES: &str =
    r#"[{"sku": "tea", "price": 7.25, "quantity": 2}, {"sku": "honey", "price": 5.50, "quantity": 1}]"#;
/// `numeric(12,2)`
const AMOUNT_MODIFIER: i32 = (12 << 16) | (2 + 4);

const AVRO: &str = "io.confluent.connect.avro.AvroConverter";
const REGISTRY: &str = "http://127.0.0.1:1";
const NO_SCHEMAS: [(&str, &str); 2] =
    [("key.converter.schemas.enable", "false"), ("value.converter.schemas.enable", "false")];
const JSON: [(&str, &str); 2] = [
    ("key.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ("value.converter", "org.apache.kafka.connect.json.JsonConverter"),
];
const AVRO_BOTH: [(&str, &str); 4] = [
    ("key.converter", AVRO),
    ("value.converter", AVRO),
    ("key.converter.schema.registry.url", REGISTRY),
    ("value.converter.schema.registry.url", REGISTRY),
];
const UNWRAP: [(&str, &str); 2] =
    [("transforms", "unwrap"), ("transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState")];

pub(crate) fn benches(criterion: &mut Criterion) {
    let plain = [JSON, NO_SCHEMAS].concat();
    let unwrapped = [JSON, NO_SCHEMAS, UNWRAP].concat();
    let unwrapped_with_schemas = [JSON, UNWRAP].concat();
    let forms = [
        ("json", &plain[..]),
        ("json with schemas", &JSON[..]),
        ("avro", &AVRO_BOTH[..]),
        ("unwrapped json", &unwrapped[..]),
        ("unwrapped json with schemas", &unwrapped_with_schemas[..]),
    ];
    for (form, options) in forms {
        let table = table(options);
        let [before, after] = [row(0), row(1)];
        let old = OldTuple::Full(before.clone());
        let changes = [
            ("insert", RowChange::Insert(before.columns())),
            ("update", RowChange::Update(Some((&old).into()), after.columns())),
            ("delete", RowChange::Delete((&old).into())),
        ];
        for (name, change) in changes {
            let mut encoder = Encoder::default();
            step(criterion, &format!("changes/{name}, {form}"), ROWS, || {
                (0..ROWS).for_each(|_| convert(&table, change, &mut encoder));
            });
        }
    }
}

fn convert(table: &ChangeTable, change: RowChange<'_, '_>, encoder: &mut Encoder) {
    let context = ChangeContext {
        now_us: 1_790_000_000_123_456,
        commit_time: PgTimestamp(843_264_000_123_456),
        xid: Some(Xid(4711)),
        lsn: Lsn::new(0x0100_0000),
        last_commit: Some(Lsn::new(0x00FF_0000)),
        before: None,
        origin: None,
        xmin: None,
        snapshot: Snapshot::False,
        skipped: SkippedHalves::default(),
        tolerates: false,
    };
    loop {
        let (scratch, schemas) = encoder.parts();
        let mut into = Destination { scratch, topic: "", schemas };
        let mut records = ChangeRecords::default();
        match table.add(black_box(change), &context, &mut records, &mut into) {
            Ok(()) => {
                records.lend(encoder.scratch(), |records| {
                    black_box(records);
                });
                return;
            }
            Err(RouteError::Convert { source: ConvertError::Unregistered(registration), .. }) => {
                encoder.learn(*registration, SchemaId(1));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn row(at: usize) -> Tuple<'static> {
    COLUMNS.iter().map(|(.., values)| ColumnValue::Text(values.get(at).unwrap().as_bytes())).collect()
}

fn table(options: &[(&str, &str)]) -> ChangeTable {
    let lookup =
        |key: &str| options.iter().find(|(option, _)| *option == key).map(|(_, value)| (*value).to_owned());
    let context = EventContext {
        option_prefix: String::new(),
        topic_prefix: "srv".to_owned(),
        topic_delimiter: ".".to_owned(),
        naming: Default::default(),
        run_id: Some("01900000-0000-7000-8000-000000000000".to_owned()),
        columns: ColumnOptions::default(),
        condition: None,
        rules: ColumnRules::default(),
        schema_names: NameAdjustment::None,
        field_names: NameAdjustment::None,
    };
    let columns: Vec<_> = COLUMNS.iter().map(description).collect();
    ChangeEvents::parse(&lookup, context, "shop").unwrap().bind(&relation(), &columns)
}

fn modifier(name: &str) -> i32 {
    if name == "amount" { AMOUNT_MODIFIER } else { -1 }
}

fn description(&(name, kind, oid, _): &(&str, &str, u32, [&str; 2])) -> ColumnDescription {
    ColumnDescription {
        name: name.to_owned(),
        type_oid: Oid(oid),
        type_modifier: modifier(name),
        kind: TypeKind::base(kind),
        not_null: name == "id",
        default: None,
        key_position: (name == "id").then_some(1),
    }
}

fn relation() -> Relation {
    let column = |&(name, _, oid, _): &(&str, &str, u32, [&str; 2])| Column {
        name: name.to_owned(),
        type_oid: Oid(oid),
        type_modifier: modifier(name),
        in_identity: true,
    };
    Relation {
        oid: Oid(16_385),
        schema: "public".to_owned(),
        table: "orders".to_owned(),
        replica_identity: ReplicaIdentity::Full,
        columns: COLUMNS.iter().map(column).collect(),
    }
}
