//! Limits of allocation: the announced size of a message is not allocated; only bytes that have arrived count. Data
//! that is made of them has a limit too.

use allocation_counter::measure;
use change_events::outbox::{
    Encoder, EventContext, EventRouter, EventRouterOptions, MessagePrefixes, RouteContext,
};
use connect_data::NameAdjustment;
use connect_data::column::{ColumnDescription, ColumnOptions, ColumnRules, TypeKind};
use connect_data::converter::Converters;
use pg_replication::pgoutput::{Column, ColumnValue, Relation, ReplicaIdentity, Tuple};
use pg_replication::wal::Oid;
use pg_replication::wire::{BackendMessage, Frame};
use pg_replication::{pgoutput, replication};

/// Room for an error's own text; far less than any of the announced sizes.
const BYTES_MAX: u64 = 1024;

#[test]
fn an_announcement_alone_allocates_nothing_large() {
    let pgoutput: [(&str, &[u8]); 7] = [
        ("an insert of 65535 columns", b"I\0\0\0\x01N\xFF\xFFnn"),
        ("an update of 65535 columns", b"U\0\0\0\x01K\xFF\xFFnn"),
        ("a delete of 65535 columns", b"D\0\0\0\x01O\xFF\xFFuu"),
        ("a column of 2 GiB", b"I\0\0\0\x01N\0\x01t\x7F\xFF\xFF\xFF"),
        ("a relation of 65535 columns", b"R\0\0\0\x01\0t\0d\xFF\xFF\0c\0"),
        ("a truncate of 2147483647 relations", b"T\x7F\xFF\xFF\xFF\0\0\0\0\x01"),
        ("a logical message of 2 GiB", b"M\0\0\0\0\0\0\0\0\x01\0\x7F\xFF\xFF\xFFx"),
    ];
    for (case, body) in pgoutput {
        bounded(case, || pgoutput::decode(body).is_err());
    }
    let backend: [(&str, u8, &[u8]); 3] = [
        ("a row of 65535 columns", b'D', b"\xFF\xFF\xFF\xFF\xFF\xFF"),
        ("a value of 2 GiB", b'D', b"\0\x01\x7F\xFF\xFF\xFFx"),
        ("a description of 65535 columns", b'T', b"\xFF\xFFc\0"),
    ];
    for (case, tag, body) in backend {
        bounded(case, || BackendMessage::decode(Frame { tag, body }).is_err());
    }
    bounded("a cut keepalive", || replication::decode(b"k\0\0").is_err());
}

#[test]
fn a_usual_row_is_decoded_without_an_allocation() {
    let row = b"I\0\0\0\x01N\0\x03t\0\0\0\x011nt\0\0\0\x03abc";
    let allocated = measure(|| assert!(pgoutput::decode(row).is_ok()));
    assert_eq!(allocated.bytes_total, 0);
}

fn bounded(case: &str, refused: impl FnOnce() -> bool) {
    let allocated = measure(|| assert!(refused(), "{case} was taken for complete"));
    assert!(allocated.bytes_total <= BYTES_MAX, "{case}: {} bytes", allocated.bytes_total);
}

/// Time at which every row is routed.
const NOW: RouteContext = RouteContext { now_ms: 1_700_000_000_123 };
const EXPAND: [(&str, &str); 3] = [
    ("value.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ("table.expand.json.payload", "true"),
    ("field.name.adjustment.mode", "avro"),
];
const COLUMNS: [&str; 5] = ["id", "aggregatetype", "aggregateid", "type", "payload"];

/// Limits of the memory that an expansion may hold at once and allocate in all: for each byte of the text, and in
/// addition.
const EXPANSION_HOLDS_PER_BYTE: u64 = 150;
const EXPANSION_ALLOCATES_PER_BYTE: u64 = 500;
const EXPANSION_BASE: u64 = 4 << 20;

/// Returns settings that are harmless in size and would be enormous if they were merged, named or looked for one by
/// one.
fn monstrous() -> [(&'static str, String); 5] {
    let list =
        |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    let distinct = list(6_000, &|n| format!(r#"{{"m{n}":1}}"#));
    let nested = list(6_000, &|n| format!(r#"{{"x":{{"m{n}":1}}}}"#));
    let members = list(6_000, &|n| format!(r#""m{n}":1"#));
    let empty = list(20_000, &|_| "{}".to_owned());
    let structs = list(6_000, &|n| format!(r#""m{n}":{{}}"#));
    [
        ("objects of distinct members", format!(r#"{{"a":[{distinct}]}}"#)),
        ("the same one level down", format!(r#"{{"a":[{nested}]}}"#)),
        ("one large object and many empty ones", format!(r#"{{"a":[{{{members}}},{empty}]}}"#)),
        ("structs below a long name", format!(r#"{{"{}":{{{structs}}}}}"#, "n".repeat(50_000))),
        ("very many members", format!("{{{}}}", list(100_000, &|n| format!(r#""m{n}":1"#)))),
    ]
}

#[test]
fn what_expansion_allocates_is_a_small_multiple_of_the_text() {
    let (table, router) = (router(&EXPAND).bind(&relation(), &columns()).unwrap(), router(&EXPAND));
    let messages = router.messages(MessagePrefixes::default(), &lookup(&EXPAND)).unwrap();
    for (case, json) in monstrous() {
        let row: Tuple<'_> = ["1", "order", "o-1", "Created", &json]
            .map(|value| ColumnValue::Text(value.as_bytes()))
            .into_iter()
            .collect();
        let content = format!(r#"{{"id":"1","aggregatetype":"order","aggregateid":"o-1","payload":{json}}}"#);
        multiple(&format!("{case}, a row"), json.len(), || {
            assert!(table.route(&row, NOW, &mut Encoder::default()).is_ok());
        });
        multiple(&format!("{case}, a message"), json.len(), || {
            drop(messages.route(content.as_bytes(), NOW, &mut Encoder::default()).map(drop));
        });
    }
}

fn multiple(case: &str, text: usize, run: impl FnOnce()) {
    let (allocated, text) = (measure(run), u64::try_from(text).unwrap());
    let (most, all) = (allocated.bytes_max, allocated.bytes_total);
    assert!(
        most <= EXPANSION_BASE + EXPANSION_HOLDS_PER_BYTE * text,
        "{case}: {most} bytes at once of {text}"
    );
    assert!(
        all <= EXPANSION_BASE + EXPANSION_ALLOCATES_PER_BYTE * text,
        "{case}: {all} bytes in all of {text}"
    );
}

fn router(options: &'static [(&'static str, &'static str)]) -> EventRouter {
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

fn lookup(options: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
    move |key| options.iter().find(|(option, _)| *option == key).map(|(_, value)| (*value).to_owned())
}

fn columns() -> Vec<ColumnDescription> {
    let column = |name: &&str| ColumnDescription {
        name: (*name).to_owned(),
        type_oid: Oid(0),
        type_modifier: -1,
        kind: TypeKind::base(if *name == "payload" { "jsonb" } else { "varchar" }.to_owned()),
        not_null: false,
        default: None,
        key_position: None,
    };
    COLUMNS.iter().map(column).collect()
}

fn relation() -> Relation {
    let column = |name: &&str| Column {
        name: (*name).to_owned(),
        type_oid: Oid(0),
        type_modifier: -1,
        in_identity: false,
    };
    Relation {
        oid: Oid(16_384),
        schema: "public".to_owned(),
        table: "outbox".to_owned(),
        replica_identity: ReplicaIdentity::Default,
        columns: COLUMNS.iter().map(column).collect(),
    }
}
