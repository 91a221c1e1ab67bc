//! Contents and their events. Where Debezium fails on a message, outboxd fails too, with a reason.

use proptest::prelude::*;

use super::*;
use crate::outbox::{EventContext, EventRouter, EventRouterOptions};
use connect_data::NameAdjustment;
use connect_data::column::{ColumnOptions, ColumnRules};
use connect_data::converter::Converters;

const NOW: RouteContext = RouteContext { now_ms: 1_700_000_000_123 };
type Options = &'static [(&'static str, &'static str)];

/// A typical configuration: JSON values without schema, and the fields of Debezium's documentation.
const USUAL: Options = &[
    ("value.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ("value.converter.schemas.enable", "false"),
    ("table.field.event.key", "aggregateId"),
    ("route.by.field", "aggregateType"),
];

/// Topic, key, value, headers.
type Event = (&'static str, Option<&'static str>, Option<&'static str>, &'static [&'static str]);

struct Case {
    options: Options,
    content: &'static str,
    event: Result<Event, &'static str>,
}

const CASES: &[Case] = &[
    Case {
        options: &[("table.fields.additional.placement", "type:header")],
        content: r#"{"id":"m-1","type":"UserCreated","aggregateType":"User","aggregateId":"10711fa5","payload":{"email":"a@b"}}"#,
        event: Ok((
            "outbox.event.User",
            Some("10711fa5"),
            Some(r#"{"email":"a@b"}"#),
            &["id=m-1", "type=UserCreated"],
        )),
    },
    Case {
        options: &[],
        content: r#"{"id":7,"aggregateType":"User","aggregateId":12,"payload":"text"} trailing"#,
        event: Ok(("outbox.event.User", Some("12"), Some(r#""text""#), &["id=7"])),
    },
    Case {
        options: &[("table.expand.json.payload", "true")],
        content: r#"{"id":"1","aggregateType":"User","aggregateId":"2","payload":"{\"a\":1.10}"}"#,
        event: Ok(("outbox.event.User", Some("2"), Some(r#"{"a":1.1}"#), &["id=1"])),
    },
    Case {
        options: &[("table.fields.additional.placement", "type:envelope:eventType")],
        content: r#"{"id":"1","type":"T","aggregateType":"User","aggregateId":"2","payload":{"a":1}}"#,
        event: Ok((
            "outbox.event.User",
            Some("2"),
            Some(r#"{"payload":{"a":1},"eventType":"T"}"#),
            &["id=1"],
        )),
    },
    Case {
        options: &[
            ("table.fields.additional.placement", "type:envelope"),
            ("value.converter.schemas.enable", "true"),
        ],
        content: r#"{"id":"1","type":"T","aggregateType":"User","aggregateId":"2","payload":"p"}"#,
        event: Ok((
            "outbox.event.User",
            Some("2"),
            Some(
                r#"{"schema":{"type":"struct","fields":[{"type":"string","optional":true,"field":"payload"},{"type":"string","optional":true,"field":"type"}],"optional":false,"name":"User"},"payload":{"payload":"p","type":"T"}}"#,
            ),
            &["id=1"],
        )),
    },
    Case {
        options: &[("route.tombstone.on.empty.payload", "true"), ("fields.null.include", "true")],
        content: r#"{"id":"1","aggregateType":"User","aggregateId":null,"payload":null}"#,
        event: Ok(("outbox.event.User", None, None, &["id=1"])),
    },
    Case {
        options: &[
            ("table.fields.additional.placement", "none:header"),
            ("table.field.additional.missing", "ignore"),
        ],
        content: r#"{"id":"1","aggregateType":"User","aggregateId":"2","payload":1}"#,
        event: Ok(("outbox.event.User", Some("2"), Some("1"), &["id=1"])),
    },
    Case {
        options: &[],
        content: r#"{"id":"1","aggregateType":"User","aggregateId":"2","payload":null}"#,
        event: Err("no field \"payload\" (table.field.event.payload)"),
    },
    Case { options: &[], content: "", event: Err("not JSON") },
    Case { options: &[], content: "plain", event: Err("not JSON") },
    Case { options: &[], content: " {}", event: Err("not a JSON object") },
    Case { options: &[], content: "[1]", event: Err("not a JSON object") },
    Case { options: &[], content: r#"{"payload":[1,"x"]}"#, event: Err("has no schema") },
    Case { options: &[], content: "{}", event: Err("no field \"aggregateType\" (route.by.field)") },
    Case {
        options: &[],
        content: r#"{"id":"1","aggregateType":5,"aggregateId":"2","payload":1}"#,
        event: Err("is not a text"),
    },
    Case {
        options: &[],
        content: r#"{"id":"1","aggregateType":"a b","aggregateId":"2","payload":1}"#,
        event: Err("leads to no topic"),
    },
    Case {
        options: &[("table.fields.additional.placement", "p:partition")],
        content: r#"{"id":"1","aggregateType":"User","aggregateId":"2","payload":1,"p":-1}"#,
        event: Err("is not a partition"),
    },
    Case {
        options: &[("table.field.event.timestamp", "at")],
        content: r#"{"id":"1","aggregateType":"User","aggregateId":"2","payload":1,"at":"now"}"#,
        event: Err("is not an integer"),
    },
];

#[test]
fn contents_become_events() {
    for Case { options, content, event } in CASES {
        let outbox = outbox(options);
        let mut encoder = Encoder::default();
        let routed = outbox.route(content.as_bytes(), NOW, &mut encoder);
        match (routed, event) {
            (Ok(record), Ok((topic, key, value, headers))) => {
                let text =
                    |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                let found: Vec<_> = record
                    .headers
                    .iter()
                    .map(|header| format!("{}={}", header.name, text(header.value).unwrap_or_default()))
                    .collect();
                assert_eq!(record.topic, *topic, "{content}");
                assert_eq!(text(record.key).as_deref(), *key, "{content}");
                assert_eq!(text(record.value).as_deref(), *value, "{content}");
                assert_eq!(found, *headers, "{content}");
                assert_eq!(record.timestamp_ms, NOW.now_ms);
            }
            (Err(error), Err(reason)) => assert!(error.to_string().contains(reason), "{content}: {error}"),
            (found, _) => panic!("{content}: {found:?}"),
        }
    }
}

#[test]
fn partition_and_timestamp_come_from_the_content() {
    let outbox = outbox(&[
        ("table.field.event.timestamp", "at"),
        ("table.fields.additional.placement", "p:partition"),
    ]);
    let mut encoder = Encoder::default();
    let content =
        br#"{"id":"1","aggregateType":"User","aggregateId":"2","payload":1,"p":3,"at":1553460779000}"#;
    let record = outbox.route(content, NOW, &mut encoder).unwrap();
    assert_eq!((record.partition, record.timestamp_ms), (Some(3), 1_553_460_779_000));
}

#[test]
fn prefixes_are_chosen_by_whole_names_in_any_case() {
    let cases: [(&[&str], &[&str], &str, bool); 6] = [
        (&[], &[], "anything", true),
        (&["outbox"], &[], "OutBox", true),
        (&["outbox"], &[], "outbox2", false),
        (&["outbox.*"], &["outbox2"], "outbox2", true),
        (&[], &["heart.*"], "heartbeat", false),
        (&[], &["heart.*"], "outbox", true),
    ];
    for (include, exclude, prefix, expected) in cases {
        let own = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>();
        let prefixes = MessagePrefixes::new(&own(include), &own(exclude)).unwrap();
        assert_eq!(prefixes.take(prefix), expected, "{include:?} {exclude:?} {prefix}");
    }
    assert_eq!(MessagePrefixes::new(&["(".to_owned()], &[]).unwrap_err().key, "message.prefix.include.list");
}

proptest! {
    #[test]
    fn no_content_panics(content in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        "\\{(\"(id|payload|aggregateId|aggregateType)\":(1|null|\"x\"|\\[1\\]|\\{\\}),?){0,5}\\}".prop_map(String::into_bytes),
    ]) {
        let outbox = outbox(&[]);
        let mut encoder = Encoder::default();
        let _either = outbox.route(&content, NOW, &mut encoder);
    }
}

fn outbox(options: Options) -> MessageOutbox {
    let said = |key: &str| {
        let found = options.iter().chain(USUAL).find(|(known, _)| *known == key);
        found.map(|(_, value)| (*value).to_owned())
    };
    let context = EventContext {
        option_prefix: String::new(),
        topic_prefix: "srv".to_owned(),
        topic_delimiter: ".".to_owned(),
        naming: Default::default(),
        run_id: Some("RUN".to_owned()),
        columns: ColumnOptions::default(),
        condition: None,
        rules: ColumnRules::default(),
        schema_names: NameAdjustment::None,
        field_names: NameAdjustment::None,
    };
    let options = EventRouterOptions::parse(&said).unwrap();
    let router = EventRouter::new(options, Converters::parse(&said).unwrap(), context).unwrap();
    router.messages(MessagePrefixes::default(), &said).unwrap()
}
