//! Both ways to bytes are the same: straight, and by a tree of values.

use std::sync::Arc;

use proptest::prelude::*;

use super::context::{ChangeContext, ReplicationOrigin, SkippedHalves, Snapshot};
use super::envelope::transaction::Tally;
use super::events::ChangeEvents;
use super::record::ChangeRecords;
use super::row_change::RowChange;
use super::table::ChangeTable;
use crate::outbox::{Encoder, EventContext, RouteError};
use connect_data::column::{ColumnDescription, ColumnOptions, ColumnRules, TypeKind};
use connect_data::converter::registered::SchemaId;
use connect_data::converter::{ConvertError, Destination};
use connect_data::record::OwnedRecord;
use connect_data::{NameAdjustment, OptionReader, TopicNaming};
use pg_replication::pgoutput::{Column, ColumnValue, OldTuple, Relation, ReplicaIdentity, Tuple};
use pg_replication::wal::{Lsn, Oid, PgTimestamp, Xid};

/// Name, type, default, and whether NULL is none of its values.
const COLUMNS: [(&str, &str, Option<&str>, bool); 5] = [
    ("id", "int4", None, true),
    ("na\"me", "text", None, true),
    ("score", "numeric", Some("1.5"), false),
    ("at", "timestamptz", None, false),
    ("blob", "bytea", None, false),
];

const AVRO: &str = "io.confluent.connect.avro.AvroConverter";
const STRING: &str = "org.apache.kafka.connect.storage.StringConverter";
const ROUTER: &str = "org.apache.kafka.connect.transforms.RegexRouter";
const REGISTRY: &str = "http://127.0.0.1:1";
pub(super) type Options = &'static [(&'static str, &'static str)];
const FORMS: [Options; 10] = [
    &[],
    &[
        ("key.converter", "JsonConverter"),
        ("key.converter.schemas.enable", "false"),
        ("tombstones.on.delete", "false"),
    ],
    &[
        ("value.converter", "JsonConverter"),
        ("value.converter.schemas.enable", "false"),
        ("provide.transaction.metadata", "true"),
    ],
    &[
        ("key.converter", AVRO),
        ("value.converter", AVRO),
        ("key.converter.schema.registry.url", REGISTRY),
        ("value.converter.schema.registry.url", REGISTRY),
        ("schema.name.adjustment.mode", "avro"),
        ("field.name.adjustment.mode", "avro"),
        ("provide.transaction.metadata", "true"),
    ],
    &[
        ("key.converter", "ProtobufConverter"),
        ("value.converter", "ProtobufConverter"),
        ("key.converter.schema.registry.url", REGISTRY),
        ("value.converter.schema.registry.url", REGISTRY),
        ("value.converter.scrub.invalid.names", "true"),
        ("value.converter.optional.for.nullables", "true"),
        ("provide.transaction.metadata", "true"),
    ],
    &[
        ("key.converter", "JsonSchemaConverter"),
        ("value.converter", "JsonSchemaConverter"),
        ("key.converter.schema.registry.url", REGISTRY),
        ("value.converter.schema.registry.url", REGISTRY),
    ],
    &[
        ("value.converter", "JsonConverter"),
        ("skip.messages.without.change", "true"),
        ("header.converter", "JsonConverter"),
    ],
    &[
        ("topic.naming.strategy", "SchemaRegexTopicNamingStrategy"),
        ("topic.regex", ".*"),
        ("topic.replacement", "all"),
    ],
    &[
        ("transforms", "all,not"),
        ("transforms.all.type", ROUTER),
        ("transforms.all.regex", "srv[.](.*)"),
        ("transforms.all.replacement", "all-$1"),
        ("transforms.not.type", ROUTER),
        ("transforms.not.regex", ".*"),
        ("transforms.not.replacement", "other"),
        ("transforms.not.predicate", "of"),
        ("transforms.not.negate", "true"),
        ("predicates", "of"),
        ("predicates.of.type", "TopicNameMatches"),
        ("predicates.of.pattern", "all-.*"),
    ],
    &[
        ("value.converter", AVRO),
        ("value.converter.schema.registry.url", REGISTRY),
        ("transforms", "all"),
        ("transforms.all.type", ROUTER),
        ("transforms.all.regex", ".*"),
        ("transforms.all.replacement", "all"),
    ],
];

pub(super) fn table(options: Options) -> ChangeTable {
    let lookup =
        |key: &str| options.iter().find(|(option, _)| *option == key).map(|(_, value)| (*value).to_owned());
    let adjusts = lookup("schema.name.adjustment.mode").is_some();
    let names = if adjusts { NameAdjustment::Avro } else { NameAdjustment::None };
    let context = EventContext {
        option_prefix: String::new(),
        topic_prefix: "srv".to_owned(),
        topic_delimiter: ".".to_owned(),
        naming: TopicNaming::read(&mut OptionReader::new(&lookup)).unwrap(),
        run_id: Some("r".to_owned()),
        columns: ColumnOptions::default(),
        condition: None,
        rules: ColumnRules::default(),
        schema_names: names,
        field_names: names,
    };
    let described = COLUMNS.iter().map(|&(name, kind, default, not_null)| ColumnDescription {
        name: name.to_owned(),
        type_oid: Oid(1),
        type_modifier: -1,
        kind: TypeKind::base(kind),
        not_null,
        default: default.map(str::to_owned),
        key_position: (name == "id").then_some(1),
    });
    let columns = COLUMNS.iter().map(|(name, ..)| Column {
        name: (*name).to_owned(),
        type_oid: Oid(1),
        type_modifier: -1,
        in_identity: true,
    });
    let relation = Relation {
        oid: Oid(1),
        schema: "public".to_owned(),
        table: "t".to_owned(),
        replica_identity: ReplicaIdentity::Full,
        columns: columns.collect(),
    };
    let described: Vec<_> = described.collect();
    ChangeEvents::parse(&lookup, context, "db").unwrap().bind(&relation, &described)
}

/// Returns a context for the changes of a table.
pub(super) fn at(table: &ChangeTable, snapshot: Snapshot) -> ChangeContext {
    ChangeContext {
        now_us: 1_700_000_000_123_456,
        commit_time: PgTimestamp(5),
        xid: Some(Xid(7)),
        lsn: Lsn::new(u64::MAX),
        last_commit: (snapshot == Snapshot::False).then_some(Lsn::new(3)),
        before: table.connector.transactions.as_ref().map(|_| Tally::default().before("t")),
        origin: None,
        xmin: None,
        snapshot,
        skipped: SkippedHalves::default(),
        tolerates: false,
    }
}

/// Returns the records of a change, or the error that ends it.
fn records(
    table: &ChangeTable,
    change: RowChange<'_, '_>,
    at: &ChangeContext,
) -> Result<Vec<OwnedRecord>, RouteError> {
    let mut encoder = Encoder::default();
    loop {
        let (scratch, schemas) = encoder.parts();
        let mut records = ChangeRecords::default();
        match table.add(change, at, &mut records, &mut Destination { scratch, topic: "", schemas }) {
            Ok(()) => {
                return Ok(records
                    .lend(encoder.scratch(), |records| records.iter().map(OwnedRecord::from).collect()));
            }
            Err(RouteError::Convert { source: ConvertError::Unregistered(registration), .. }) => {
                encoder.learn(*registration, SchemaId(0x0102_0304));
            }
            Err(error) => return Err(error),
        }
    }
}

fn value(index: usize) -> BoxedStrategy<ColumnValue<'static>> {
    let texts: &[&'static str] = match index {
        0 => &["1", "2", "x"],
        1 => &["", "a \"b\"", "😀 and a longer text, of more than sixteen bytes\n"],
        2 => &["0", "-12345678901234567890.5", "NaN"],
        3 => &["2026-01-02 03:04:05.678901+00", "infinity"],
        _ => &["\\x", "\\x00ff41"],
    };
    let text = proptest::sample::select(texts).prop_map(|text| ColumnValue::Text(text.as_bytes()));
    prop_oneof![6 => text, 2 => Just(ColumnValue::Null), 1 => Just(ColumnValue::UnchangedToast)].boxed()
}

fn row() -> impl Strategy<Value = Tuple<'static>> {
    let values: Vec<_> = (0..COLUMNS.len()).map(value).collect();
    values.prop_map(|values| values.into_iter().collect())
}

proptest! {
    #[test]
    fn the_short_way_leads_where_the_long_one_does(
        form in 0..FORMS.len(),
        old in row(),
        new in row(),
        kind in 0..6,
        whole: bool,
        of_snapshot: bool,
        xmin: Option<u32>,
        origin in proptest::option::of(("[a-z\"é]{0,5}", any::<u64>())),
    ) {
        let old_tuple = if whole { OldTuple::Full(old.clone()) } else { OldTuple::Key(old.clone()) };
        let change = match kind {
            0 => RowChange::Insert(new.columns()),
            1 => RowChange::Update(None, new.columns()),
            2 => RowChange::Update(Some((&old_tuple).into()), new.columns()),
            3 => RowChange::Update(Some((&old_tuple).into()), old.columns()),
            4 => RowChange::Delete((&old_tuple).into()),
            _ => RowChange::Truncate,
        };
        let snapshot = if of_snapshot { Snapshot::First } else { Snapshot::False };
        let origin = origin.map(|(name, lsn)| Arc::new(ReplicationOrigin { name, lsn: Lsn::new(lsn) }));
        let [short, long] = [true, false].map(|is_direct| {
            let table = table(FORMS[form]);
            let at = ChangeContext { origin: origin.clone(), xmin: xmin.map(Xid), ..at(&table, snapshot) };
            assert!(table.direct_to.is_some());
            let direct_to = table.direct_to.filter(|_| is_direct);
            records(&ChangeTable { direct_to, ..table }, change, &at)
        });
        match (short, long) {
            (Ok(short), Ok(long)) => prop_assert_eq!(short, long),
            // The reported column may differ if several fail.
            (Err(_), Err(_)) => {}
            (short, long) => prop_assert_eq!(short, long),
        }
    }
}

#[test]
fn transforms_and_other_converters_take_the_long_way() {
    let unwrap: Options =
        &[("transforms", "t"), ("transforms.t.type", "io.debezium.transforms.ExtractNewRecordState")];
    let illegal: Options = &[
        ("transforms", "t"),
        ("transforms.t.type", ROUTER),
        ("transforms.t.regex", ".*"),
        ("transforms.t.replacement", "a b"),
    ];
    let of_tombstones: Options = &[
        ("transforms", "t"),
        ("transforms.t.type", ROUTER),
        ("transforms.t.regex", ".*"),
        ("transforms.t.replacement", "gone"),
        ("transforms.t.predicate", "p"),
        ("predicates", "p"),
        ("predicates.p.type", "RecordIsTombstone"),
    ];
    let cases = [
        (&[] as Options, true),
        (&[("value.converter", STRING)], false),
        (unwrap, false),
        (illegal, false),
        (of_tombstones, false),
    ];
    for (options, is_direct) in cases {
        assert_eq!(table(options).direct_to.is_some(), is_direct, "{options:?}");
    }
}
