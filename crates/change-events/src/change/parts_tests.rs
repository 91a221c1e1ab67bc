//! A change is several records, and each of them is skipped, or fails, for itself.

use super::context::{ChangeContext, SkippedHalves, Snapshot};
use super::direct_tests::{Options, at, table};
use super::record::ChangeRecords;
use super::row_change::RowChange;
use super::table::ChangeTable;
use crate::outbox::Encoder;
use connect_data::converter::Destination;
use connect_data::record::ProducerRecord;
use pg_replication::pgoutput::{ColumnValue, OldTuple};

const FAILS_BUT_FOR_TOMBSTONES: [(&str, &str); 4] = [
    ("transforms", "t"),
    ("transforms.t.type", "org.apache.kafka.connect.transforms.ExtractField$Value"),
    ("transforms.t.field", "nothing"),
    ("value.converter.schemas.enable", "false"),
];

/// Settings with which Protobuf makes no field of a column's name, which the direct serialization detects.
const FAILS_WITHOUT_TRANSFORMS: [(&str, &str); 5] = [
    ("field.name.adjustment.mode", "none"),
    ("key.converter", "JsonConverter"),
    ("key.converter.schemas.enable", "false"),
    ("value.converter", "ProtobufConverter"),
    ("value.converter.schema.registry.url", "http://127.0.0.1:1"),
];

#[test]
fn each_half_of_a_changed_key_is_an_operation() {
    let table = table(&[("tombstones.on.delete", "false")]);
    let of = |delete, create| {
        let (records, refused) = moved(&table, SkippedHalves { delete, create }, false);
        assert_eq!(refused, 0);
        records.into_iter().map(|(header, _)| header).collect::<Vec<_>>()
    };
    assert_eq!(of(false, false), ["__debezium.newkey", "__debezium.oldkey"]);
    assert_eq!(of(true, false), ["__debezium.oldkey"]);
    assert_eq!(of(false, true), ["__debezium.newkey"]);
}

#[test]
fn a_record_that_fails_is_skipped_alone() {
    let ways: [(Options, bool); 2] = [(&FAILS_BUT_FOR_TOMBSTONES, false), (&FAILS_WITHOUT_TRANSFORMS, true)];
    for (options, is_direct) in ways {
        let table = table(options);
        assert_eq!(table.direct_to.is_some(), is_direct);
        let (records, refused) = moved(&table, SkippedHalves::default(), true);
        assert_eq!(refused, 2);
        assert_eq!(records, [("__debezium.newkey".to_owned(), false)]);
    }
}

/// Returns the first header of each record of a changed key, with whether it has a value, and the number of
/// skipped records.
fn moved(table: &ChangeTable, skipped: SkippedHalves, tolerates: bool) -> (Vec<(String, bool)>, usize) {
    let row = |id: &'static str| {
        let texts = [id, "a", "1", "2026-01-02 03:04:05+00", "\\x"];
        texts.into_iter().map(|text| ColumnValue::Text(text.as_bytes())).collect()
    };
    let (old, new) = (OldTuple::Full(row("1")), row("2"));
    let at = ChangeContext { skipped, tolerates, ..at(table, Snapshot::False) };
    let (mut encoder, mut records) = (Encoder::default(), ChangeRecords::default());
    let (scratch, schemas) = encoder.parts();
    let change = RowChange::Update(Some((&old).into()), new.columns());
    table.add(change, &at, &mut records, &mut Destination { scratch, topic: "", schemas }).unwrap();
    let refused = records.take_refused().len();
    let told = |record: &ProducerRecord<'_>| (record.headers[0].name.to_owned(), record.value.is_some());
    (records.lend(encoder.scratch(), |records| records.iter().map(told).collect()), refused)
}
