//! Comparison of the transform with Debezium's recorded behavior: `tests/cases/event_router.json`. A case
//! changes the usual table and row, and lists the parts of the record that matter to it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value as Json};

use super::*;
use connect_data::NameAdjustment;
use connect_data::column::{ColumnCodec, ColumnDescription, ColumnOptions, ColumnRules, Mapper, TypeKind};
use connect_data::converter::Converters;
use connect_data::trace::{RowMoment, Sampler, Seed, SpanLog, Tracer};
use pg_replication::pgoutput::{Column, ColumnValue, Relation, ReplicaIdentity, Tuple};
use pg_replication::wal::Oid;

const CASES: &str = include_str!("../../../../tests/cases/event_router.json");
/// The expected headers of rows with spans.
const TRACING: &str = include_str!("../../../../tests/cases/tracing.json");
const NOW: RouteContext = RouteContext { now_ms: 1_700_000_000_123 };
const ROW_MOMENT: RowMoment = RowMoment { committed_us: 5, read_us: 7, operation: "c", lsn: 1, xid: None };
const COLUMNS: [(&str, &str); 5] = [
    ("id", "uuid"),
    ("aggregatetype", "varchar"),
    ("aggregateid", "varchar"),
    ("type", "varchar"),
    ("payload", "jsonb?"),
];
const ROW: [(&str, &str); 5] = [
    ("id", "00000000-0000-4000-8000-000000000001"),
    ("aggregatetype", "order"),
    ("aggregateid", "o-1"),
    ("type", "OrderCreated"),
    ("payload", r#"{"a": 1}"#),
];

#[test]
fn rows_become_what_debezium_makes_of_them() {
    check_all(CASES, None);
}

#[test]
fn rows_have_the_headers_of_their_spans() {
    check_all(TRACING, Some("exports"));
}

/// Checks all cases. `tracer` is the tracer of the cases that name none.
fn check_all(cases: &str, tracer: Option<&str>) {
    let cases: Vec<Map<String, Json>> = serde_json::from_str(cases).unwrap();
    for mut case in cases {
        if let Some(tracer) = tracer {
            case.entry("tracer").or_insert(tracer.into());
        }
        let outcome = std::panic::catch_unwind(|| check(&case));
        assert!(outcome.is_ok(), "case {} fails, see above", case["name"]);
    }
}

fn check(case: &Map<String, Json>) {
    let columns = columns(case);
    let bound = router(case).bind(&relation(&columns), &columns);
    if let Some(reason) = case.get("refused") {
        let error = bound.unwrap_err();
        assert!(error.to_string().contains(reason.as_str().unwrap()), "{error}");
        return;
    }
    let table = bound.unwrap();
    let row = row(case, &columns);
    let tuple = tuple(&row);
    let mut encoder = Encoder::default();
    let begun = table.tracing().and_then(|tracing| tracing.begin(tuple.columns(), ROW_MOMENT));
    let routed = table.route_traced(&tuple, NOW, begun.as_ref(), &mut encoder);
    match case.get("fails") {
        Some(reason) => {
            let error = routed.unwrap_err();
            assert!(error.to_string().contains(reason.as_str().unwrap()), "{error}");
            assert!(error.fix().is_some());
        }
        None => compare(&routed.unwrap(), &table, case["record"].as_object().unwrap()),
    }
}

fn compare(routed: &RoutedRecord<'_>, table: &OutboxTable, expected: &Map<String, Json>) {
    let text = |bytes: Option<&[u8]>| bytes.map_or(Json::Null, |bytes| String::from_utf8_lossy(bytes).into());
    for (member, expected) in expected {
        let found = match member.as_str() {
            "topic" => routed.topic.into(),
            "key" => text(routed.key),
            "value" => text(routed.value),
            "partition" => routed.partition.into(),
            "timestamp" => routed.timestamp_ms.into(),
            "headers" => {
                let headers =
                    routed.headers.iter().map(|header| vec![header.name.into(), text(header.value)]);
                headers.collect::<Vec<Vec<Json>>>().into()
            }
            "assumptions" => table.assumptions().iter().map(ToString::to_string).collect::<Vec<_>>().into(),
            other => panic!("{other}"),
        };
        assert_eq!(found, *expected, "{member}");
    }
    let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
    let headers: usize = routed.headers.iter().map(|header| header.name.len() + length(header.value)).sum();
    assert_eq!(routed.as_record().weight(), length(routed.key) + length(routed.value) + headers);
}

#[test]
fn an_encoder_is_reused_from_row_to_row() {
    let case = Map::new();
    let columns = columns(&case);
    let table = router(&case).bind(&relation(&columns), &columns).unwrap();
    let mut encoder = Encoder::default();
    for (route, topic) in [
        ("order", "outbox.event.order"),
        ("invoice", "outbox.event.invoice"),
        ("order", "outbox.event.order"),
    ] {
        let mut row: Vec<Option<String>> = row(&case, &columns);
        row[1] = Some(route.to_owned());
        let tuple = tuple(&row);
        assert_eq!(table.route(&tuple, NOW, &mut encoder).unwrap().topic, topic);
    }
}

#[test]
fn a_plain_row_is_passed_through_without_a_copy() {
    let case =
        config(&[("extended.headers.enabled", "true"), ("table.fields.additional.placement", "type:header")]);
    let columns = columns(&case);
    let table = router(&case).bind(&relation(&columns), &columns).unwrap();
    let row = row(&case, &columns);
    let mut encoder = Encoder::default();
    let tuple = tuple(&row);
    let routed = table.route(&tuple, NOW, &mut encoder).unwrap();
    let in_row = |bytes: Option<&[u8]>| {
        row.iter().flatten().any(|text| bytes.map(<[u8]>::as_ptr) == Some(text.as_ptr()))
    };
    assert!(in_row(routed.key) && in_row(routed.value));
    assert_eq!(routed.headers.iter().filter(|header| in_row(header.value)).count(), 2);
    assert!(!routed.headers.spilled());
    drop(routed);
    assert_eq!(encoder.scratch.capacity(), 0);
}

#[test]
fn what_a_table_needs_can_be_reported_before_it_exists() {
    let case =
        config(&[("route.by.field", "event_type"), ("table.fields.additional.placement", "tenant:header")]);
    let router = router(&case);
    let needed: Vec<&str> = router.required_columns().iter().map(|(_, column)| *column).collect();
    assert_eq!(needed, ["id", "aggregateid", "payload", "event_type", "tenant"]);
    let error = router.bind(&relation(&[]), &[]).unwrap_err();
    assert_eq!(error.problems.len(), 5, "{error}");
}

#[test]
fn a_column_that_cannot_be_masked_is_reported() {
    let columns = columns(&Map::new());
    let mapper = Mapper::Mask(3);
    let codec =
        |index: usize| ColumnCodec::new(&columns[index], &ColumnOptions::default(), Some(&mapper)).unwrap();
    assert_eq!(Unmasked::of("public.outbox", "aggregateid", &codec(2), Some(&mapper)), None);
    let told = Unmasked::of("public.outbox", "payload", &codec(4), Some(&mapper)).unwrap().to_string();
    assert!(
        told.starts_with("column \"payload\" of table public.outbox is not masked: its type is jsonb"),
        "{told}"
    );
}

#[test]
fn the_nearest_column_is_suggested() {
    let columns = columns(&Map::new());
    let router = router(&config(&[("table.field.event.key", "agregateid")]));
    let error = router.bind(&relation(&columns), &columns).unwrap_err();
    let fix = error.fix().unwrap();
    assert!(fix.starts_with("table.field.event.key=aggregateid "), "{fix}");
}

#[test]
fn a_row_that_is_too_short_is_refused() {
    let columns = columns(&Map::new());
    let table = router(&Map::new()).bind(&relation(&columns), &columns).unwrap();
    let error = table.route(&Tuple::default(), NOW, &mut Encoder::default()).unwrap_err();
    assert!(matches!(error, RouteError::ShortRow { .. }));
}

#[test]
fn what_is_kept_of_a_refused_row_is_what_its_event_would_show() {
    let mut case = config(&[("table.fields.additional.placement", "type:header")]);
    case.insert("columns".to_owned(), serde_json::json!({ "password": "text" }));
    case.insert("row".to_owned(), serde_json::json!({ "password": "hunter2", "aggregatetype": null }));
    let columns = columns(&case);
    let table = router(&case).bind(&relation(&columns), &columns).unwrap();
    let values = row(&case, &columns);
    let kept = table.raw_record(&tuple(&values), &mut Encoder::default());
    assert_eq!((kept.topic.as_deref(), kept.key.as_deref()), (None, Some(b"o-1".as_slice())));
    let value: Json = serde_json::from_slice(&kept.value).unwrap();
    let [id, _, key, kind, payload] = ROW.map(|(_, value)| value);
    let expected = serde_json::json!(
        { "id": id, "aggregateid": key, "payload": payload, "aggregatetype": null, "type": kind }
    );
    assert_eq!(value, expected);
    let names: Vec<_> = kept.headers().iter().map(|header| (header.name, header.value)).collect();
    assert_eq!(names, [("id", Some(id.as_bytes())), ("type", Some(kind.as_bytes()))]);

    // Bytes that are not UTF-8 can be restored; the key then has the column's own form.
    let mut raw: Vec<_> = tuple(&values).columns().to_vec();
    raw[2] = ColumnValue::Text(b"caf\xe9");
    let kept = table.raw_record(&raw.into_iter().collect(), &mut Encoder::default());
    let value: Json = serde_json::from_slice(&kept.value).unwrap();
    assert_eq!(value["aggregateid"], serde_json::json!({ "hex": "636166e9" }));
    assert_eq!(kept.key.as_deref(), Some(br#"{"hex":"636166e9"}"#.as_slice()));
}

#[test]
fn a_refused_timestamp_is_in_what_is_kept_of_its_row() {
    let mut case = config(&[("table.field.event.timestamp", "at")]);
    case.insert("columns".to_owned(), serde_json::json!({ "at": "timestamptz" }));
    case.insert("row".to_owned(), serde_json::json!({ "at": "infinity" }));
    let columns = columns(&case);
    let table = router(&case).bind(&relation(&columns), &columns).unwrap();
    let values = row(&case, &columns);
    let kept = table.raw_record(&tuple(&values), &mut Encoder::default());
    let value: Json = serde_json::from_slice(&kept.value).unwrap();
    assert_eq!(value["at"], "infinity");
}

proptest! {
    #[test]
    fn any_row_is_routed_or_refused(values: Vec<Option<Vec<u8>>>, expand: bool) {
        let mut case = config(&[("table.fields.additional.placement", "tags:envelope,tags:header")]);
        if expand {
            case["config"].as_object_mut().unwrap().insert("table.expand.json.payload".to_owned(), "true".into());
        }
        case.insert("columns".to_owned(), serde_json::json!({ "tags": "text[]?" }));
        let columns = columns(&case);
        let table = router(&case).bind(&relation(&columns), &columns).unwrap();
        let column = |value| Option::map_or(value, ColumnValue::Null, ColumnValue::Text);
        let tuple: Tuple<'_> = values.iter().map(Option::as_deref).map(column).collect();
        let mut encoder = Encoder::default();
        drop(table.route(&tuple, NOW, &mut encoder));
        let kept = table.raw_record(&tuple, &mut encoder);
        prop_assert!(serde_json::from_slice::<Json>(&kept.value).unwrap().is_object());
    }
}

fn config(options: &[(&str, &str)]) -> Map<String, Json> {
    let options: Map<String, Json> =
        options.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    Map::from_iter([("config".to_owned(), options.into())])
}

fn router(case: &Map<String, Json>) -> EventRouter {
    let option = |key: &str| Some(case.get("config")?.get(key)?.as_str()?.to_owned());
    let run_id = option("extended.headers.enabled").map(|_| "RUN".to_owned());
    let option_prefix = String::new();
    let context = EventContext {
        option_prefix,
        topic_prefix: "srv".to_owned(),
        topic_delimiter: ".".to_owned(),
        naming: Default::default(),
        run_id,
        columns: ColumnOptions::default(),
        condition: None,
        rules: ColumnRules::default(),
        schema_names: NameAdjustment::None,
        field_names: NameAdjustment::None,
    };
    let tracer = |log| Some(Tracer::new(Sampler::default(), Seed([7; 16]), log));
    let tracer = match case.get("tracer").and_then(Json::as_str) {
        Some("exports") => tracer(Some(SpanLog::new(9, 9, || {}))),
        Some("propagates") => tracer(None),
        _ => None,
    };
    let options = EventRouterOptions { tracer, ..EventRouterOptions::parse(&option).unwrap() };
    EventRouter::new(options, Converters::parse(&option).unwrap(), context).unwrap()
}

/// Returns the usual columns with the case's changes: `name: "type(modifier)? default expression"`, or null
/// to drop one.
fn columns(case: &Map<String, Json>) -> Vec<ColumnDescription> {
    let mut columns: Vec<(String, String)> =
        COLUMNS.map(|(name, kind)| (name.to_owned(), kind.to_owned())).into();
    for (name, spec) in case.get("columns").and_then(Json::as_object).into_iter().flatten() {
        columns.retain(|(known, _)| known != name || spec.is_string());
        match (columns.iter_mut().find(|(known, _)| known == name), spec.as_str()) {
            (Some(column), Some(spec)) => column.1 = spec.to_owned(),
            (None, Some(spec)) => columns.push((name.clone(), spec.to_owned())),
            (_, None) => {}
        }
    }
    columns.iter().map(|(name, spec)| column(name, spec)).collect()
}

fn column(name: &str, spec: &str) -> ColumnDescription {
    let (spec, default) =
        spec.split_once(" default ").map_or((spec, None), |(spec, text)| (spec, Some(text.to_owned())));
    let (spec, not_null) = spec.strip_suffix('?').map_or((spec, true), |spec| (spec, false));
    let (type_name, type_modifier) = match spec {
        "numeric(10,2)" => ("numeric", (10 << 16 | 2) + 4),
        "timestamp(3)" => ("timestamp", 3),
        other => (other, -1),
    };
    let kind = match type_name.strip_suffix("[]") {
        Some(element) => TypeKind::Array { element: Box::new(TypeKind::base(element)) },
        None => TypeKind::base(type_name),
    };
    ColumnDescription {
        name: name.to_owned(),
        type_oid: Oid(0),
        type_modifier,
        kind,
        not_null,
        default,
        key_position: None,
    }
}

fn relation(columns: &[ColumnDescription]) -> Relation {
    let column = |description: &ColumnDescription| Column {
        name: description.name.clone(),
        type_oid: description.type_oid,
        type_modifier: description.type_modifier,
        in_identity: false,
    };
    Relation {
        oid: Oid(1),
        schema: "public".to_owned(),
        table: "outbox".to_owned(),
        replica_identity: ReplicaIdentity::Default,
        columns: columns.iter().map(column).collect(),
    }
}

fn row(case: &Map<String, Json>, columns: &[ColumnDescription]) -> Vec<Option<String>> {
    let mut values: BTreeMap<String, Option<String>> =
        ROW.map(|(name, value)| (name.to_owned(), Some(value.to_owned()))).into();
    for (name, value) in case.get("row").and_then(Json::as_object).into_iter().flatten() {
        values.insert(name.clone(), value.as_str().map(str::to_owned));
    }
    columns.iter().map(|column| values.get(&column.name).cloned().flatten()).collect()
}

fn tuple(row: &[Option<String>]) -> Tuple<'_> {
    row.iter()
        .map(|value| value.as_ref().map_or(ColumnValue::Null, |text| ColumnValue::Text(text.as_bytes())))
        .collect()
}
