//! `outboxd dlq`: dead letters of every dialect are shown, sent again once and in order, discarded and exported.

pub(crate) mod letters;
mod session;

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::kafka::{Kafka, kafka};
use crate::support::record::Record;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;
use letters::{Dlq, Letter, dialects, outboxd};

const OK: i32 = 0;
const HELD_BACK: i32 = 1;
const USAGE: i32 = 2;
const PRECONDITION: i32 = 3;

#[test]
fn dead_letters_of_every_dialect_go_back_as_they_were() {
    for dialect in dialects() {
        let dlq = Dlq::new(kafka());
        let original = dlq.original("k", "v");
        dlq.write(&dialect(&dlq, &original));
        let before = kafka().records(&dlq.origin);
        let (exit, text, _) = dlq.run("ls", &["--records"]);
        assert!(exit == OK && text.contains(&format!("{}[1]@", dlq.origin)), "{text}");
        assert_eq!(dlq.run("replay", &["--execute"]).0, OK);
        let after = kafka().records(&dlq.origin);
        let sent: Vec<&Record> = after.iter().filter(|record| !before.contains(record)).collect();
        let [sent] = sent.as_slice() else { panic!("{after:?}") };
        assert_eq!((&sent.key, &sent.value), (&original.key, &original.value));
        assert_eq!((sent.partition, sent.timestamp_ms), (original.partition, original.timestamp_ms));
        let marks =
            [("outboxd.replay.count", "1".to_owned()), ("outboxd.replay.from", format!("{}/0/0", dlq.topic))];
        let marks = marks.map(|(name, value)| (name.to_owned(), Some(value.into_bytes())));
        assert_eq!(sent.headers, [original.headers.as_slice(), &marks].concat());
        assert_eq!(dlq.run("replay", &["--execute"]).0, OK);
        assert_eq!(kafka().records(&dlq.origin), after, "each is sent once");
    }
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_would_be() {
    let dlq = Dlq::new(kafka());
    for n in 0..3 {
        dlq.write(&outboxd(&dlq, n, "k", &format!("v{n}")));
    }
    let (exit, text, _) = dlq.run("replay", &[]);
    assert_eq!(exit, OK);
    assert!(
        text.contains("would send 3 dead letters") && text.contains(&format!("3 to {}", dlq.origin)),
        "{text}"
    );
    assert_eq!(dlq.run("discard", &[]).0, OK);
    assert_eq!(kafka().record_count(&dlq.origin), 0);
    assert_eq!(kafka().topics(&dlq.states), Vec::<String>::new());
    assert_eq!(dlq.json("ls", &[])["letters"], 3);
}

#[test]
fn filters_choose_and_each_dead_letter_is_settled_once() {
    let dlq = Dlq::new(kafka());
    for n in 0..6 {
        let mut letter = outboxd(&dlq, n, &format!("k{n}"), "v");
        letter.set("outboxd.errors.reason", if n % 2 == 0 { "poison" } else { "timeout" });
        letter.set("outboxd.errors.exception", "java.lang.IllegalStateException");
        dlq.write(&letter);
    }
    let count = |arguments: &[&str]| dlq.json("ls", arguments)["letters"].as_u64().unwrap();
    assert_eq!(count(&["--reason", "poison"]), 3);
    assert_eq!(count(&["--exception", "IllegalStateException", "--key", "k1"]), 1);
    assert_eq!([count(&["--topic", &dlq.origin]), count(&["--topic", "other"])], [6, 0]);
    assert_eq!([count(&["--since", "1h"]), count(&["--until", "1h"])], [6, 0]);
    assert_eq!(count(&["0", "5"]), 2);

    assert_eq!(dlq.run("discard", &["--key", "k0", "--yes"]).0, OK);
    let (exit, _, log) = dlq.run("replay", &["--reason", "poison", "--execute"]);
    assert_eq!(exit, OK);
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = |text: &str| lines.iter().filter(|line| line.to_string().contains(text)).count();
    assert_eq!([said("a dead letter was sent again"), said("settled dead letters")], [2, 1], "{log}");
    let keys: Vec<_> = kafka().records(&dlq.origin).iter().map(|record| record.key().to_owned()).collect();
    let mut keys = keys;
    keys.sort();
    assert_eq!(keys, ["k2", "k4"]);
    let left = dlq.json("ls", &[]);
    assert_eq!([&left["letters"], &left["replayed"], &left["discarded"]], [3, 2, 1]);
    assert_eq!(dlq.json("ls", &["--all"])["letters"], 6);
}

#[test]
fn a_replay_killed_in_the_middle_continues_where_it_was() {
    const COUNT: usize = 600;
    let dlq = Dlq::new(kafka());
    let letters: Vec<_> = (0..COUNT)
        .map(|n| outboxd(&dlq, i64::try_from(n).unwrap(), &format!("k{}", n % 7), &n.to_string()))
        .collect();
    dlq.write_all(&letters);
    for _ in 0..3 {
        let sent = kafka().records(&dlq.origin).len();
        let mut replay = dlq.start("replay", &["--execute", "--rate", "80"]);
        eventually(DEADLINE, "it sends", || kafka().records(&dlq.origin).len() > sent);
        replay.kill();
    }
    assert!(kafka().records(&dlq.origin).len() < COUNT, "all were sent before the last kill");
    assert_eq!(dlq.run("replay", &["--execute"]).0, OK);
    let mut values: Vec<usize> =
        kafka().records(&dlq.origin).iter().map(|record| record.value().parse().unwrap()).collect();
    for key in 0..7 {
        let of_key: Vec<_> = values.iter().filter(|n| **n % 7 == key).collect();
        assert!(of_key.is_sorted(), "{of_key:?}");
    }
    values.sort_unstable();
    assert_eq!(values, (0..COUNT).collect::<Vec<_>>(), "each once");
}

/// A machine that is slow makes it take longer, and nothing makes it take less.
#[test]
fn a_replay_is_not_faster_than_its_rate() {
    let dlq = Dlq::new(kafka());
    let letters: Vec<_> = (0..60).map(|n| outboxd(&dlq, n, &format!("k{n}"), "v")).collect();
    dlq.write_all(&letters);
    let began = Instant::now();
    assert_eq!(dlq.run("replay", &["--execute", "--rate", "20"]).0, OK);
    assert!(began.elapsed() >= Duration::from_millis(2700), "{:?}", began.elapsed());
    assert_eq!(kafka().records(&dlq.origin).len(), 60);
}

#[test]
fn a_second_replay_takes_the_place_of_the_first() {
    const COUNT: usize = 300;
    let dlq = Dlq::new(kafka());
    let letters: Vec<_> = (0..COUNT).map(|n| outboxd(&dlq, 0, &format!("k{n}"), &n.to_string())).collect();
    dlq.write_all(&letters);
    let mut first = dlq.start("replay", &["--execute", "--rate", "40"]);
    eventually(DEADLINE, "it sends", || !kafka().records(&dlq.origin).is_empty());
    assert_eq!(dlq.run("replay", &["--execute"]).0, OK);
    assert_eq!(first.wait_for_exit(DEADLINE), PRECONDITION);
    assert!(first.stderr().contains("another outboxd dlq has started"), "{}", first.stderr());
    let records = kafka().records(&dlq.origin);
    let values: HashSet<&str> = records.iter().map(Record::value).collect();
    assert_eq!((records.len(), values.len()), (COUNT, COUNT), "each once");
}

#[test]
fn an_interrupted_replay_leaves_the_rest_open_and_no_transaction_behind() {
    let dlq = Dlq::new(kafka());
    let letters: Vec<_> = (0..300).map(|n| outboxd(&dlq, n, "k", &n.to_string())).collect();
    dlq.write_all(&letters);
    let mut replay = dlq.start("replay", &["--execute", "--rate", "40"]);
    eventually(DEADLINE, "it sends", || !kafka().records(&dlq.origin).is_empty());
    replay.interrupt();
    assert_eq!(replay.wait_for_exit(DEADLINE), 130);
    kafka().wait_until_decided(&dlq.origin);
    let sent = kafka().records(&dlq.origin).len();
    assert!(sent < 300);
    assert!(replay.stdout().contains(&format!("sent {sent} dead letters")), "{}", replay.stdout());
    assert_eq!(dlq.json("ls", &[])["letters"], 300 - sent);
}

#[test]
fn dead_letters_of_a_key_go_in_the_order_of_their_origin() {
    let dlq = Dlq::new(kafka());
    for (offset, key, value) in [(20, "a", "a2"), (5, "b", "b"), (10, "a", "a1"), (30, "a", "a3")] {
        dlq.write(&outboxd(&dlq, offset, key, value));
    }
    assert_eq!(dlq.run("replay", &["--execute"]).0, OK);
    let records = kafka().records(&dlq.origin);
    let values: Vec<_> = records.iter().map(Record::value).filter(|value| value.starts_with('a')).collect();
    assert_eq!(values, ["a1", "a2", "a3"]);
}

#[test]
fn a_record_that_comes_back_again_and_again_is_held_back_with_its_key() {
    let dlq = Dlq::new(kafka());
    let mut tired = outboxd(&dlq, 1, "k", "tired");
    tired.set("outboxd.replay.count", "2");
    dlq.write_all(&[tired, outboxd(&dlq, 2, "k", "behind"), outboxd(&dlq, 3, "other", "free")]);
    let (exit, text, _) = dlq.run("replay", &["--execute"]);
    assert_eq!(exit, HELD_BACK);
    assert!(
        text.contains("--max-replays") && text.contains("behind a dead letter of the same key"),
        "{text}"
    );
    let values = || kafka().records(&dlq.origin).iter().map(|r| r.value().to_owned()).collect::<Vec<_>>();
    assert_eq!(values(), ["free"]);
    assert_eq!(dlq.run("replay", &["--execute", "--max-replays", "3"]).0, OK);
    let records = kafka().records(&dlq.origin);
    let counts: Vec<_> =
        records.iter().map(|record| (record.value(), record.header("outboxd.replay.count"))).collect();
    assert!(counts.contains(&("tired", "3")) && counts.contains(&("behind", "1")), "{counts:?}");
}

#[test]
fn what_kafka_does_not_take_is_held_back_and_the_rest_is_sent() {
    let dlq = Dlq::new(kafka());
    kafka().alter_topic(&dlq.origin, ("max.message.bytes", "2000"));
    let large = "x".repeat(10_000);
    dlq.write_all(&[
        outboxd(&dlq, 1, "a", "small"),
        outboxd(&dlq, 2, "b", &large),
        outboxd(&dlq, 3, "b", "behind"),
        outboxd(&dlq, 4, "c", "small"),
    ]);
    let report = dlq.json_exiting(HELD_BACK, "replay", &["--execute"]);
    assert_eq!(report["letters"], 2, "{report:#}");
    assert_eq!(report["held_back"].as_array().unwrap().len(), 2, "{report:#}");
    let keys: Vec<_> = kafka().records(&dlq.origin).iter().map(|record| record.key().to_owned()).collect();
    assert_eq!(keys.iter().filter(|key| *key == "b").count(), 0, "{keys:?}");
    assert_eq!(keys.len(), 2);
}

#[test]
fn a_dead_letter_without_an_origin_is_shown_and_sent_to_the_named_topic() {
    let dlq = Dlq::new(kafka());
    dlq.write(&Letter::new("k", "v"));
    let (exit, page, _) = dlq.run("show", &["0"]);
    assert!(exit == OK && page.contains("no header has its origin"), "{page}");
    let (_, listed, _) = dlq.run("ls", &[]);
    for text in [&page, &listed] {
        assert!(text.contains("errors.deadletterqueue.context.headers.enable=true"), "{text}");
    }
    dlq.write(&outboxd(&dlq, 1, "k", "v"));
    let (_, listed, _) = dlq.run("ls", &["1"]);
    assert!(!listed.contains("context.headers"), "it tells all: {listed}");
    assert!(!page.contains(" v\n") && page.contains("1 bytes"), "{page}");
    assert!(dlq.run("show", &["0", "--value"]).1.contains("value      v\n"));
    assert_eq!(dlq.run("show", &["7"]).0, PRECONDITION);
    assert_eq!(dlq.run("replay", &["--execute"]).0, HELD_BACK);
    assert_eq!(dlq.run("replay", &["--execute", "--to", &dlq.topic]).0, USAGE);
    assert_eq!(dlq.run("replay", &["--execute", "--to", "dlq-no-such-topic"]).0, PRECONDITION);
    assert_eq!(dlq.run("replay", &["--execute", "--to", &dlq.origin]).0, OK);
    assert_eq!(kafka().records(&dlq.origin)[0].value(), "v");
    assert!(dlq.run("show", &["0"]).1.contains(&format!("replayed to {}", dlq.origin)));
}

#[test]
fn what_a_topic_created_again_has_is_not_taken_for_done() {
    let kafka = Kafka::start();
    let dlq = Dlq::new(&kafka);
    dlq.write(&outboxd(&dlq, 1, "k", "old"));
    assert_eq!(dlq.run("discard", &["--yes"]).0, OK);
    assert_eq!(dlq.json("ls", &[])["letters"], 0);
    kafka.delete_topic(&dlq.topic);
    kafka.create_topic(&dlq.topic, 1, &[]);
    dlq.write(&outboxd(&dlq, 1, "k", "new"));
    assert_eq!(dlq.json("ls", &[])["letters"], 1);
}

#[test]
fn an_export_has_every_byte() {
    let dlq = Dlq::new(kafka());
    let mut letter = outboxd(&dlq, 1, "k", "text");
    letter.value = Some(vec![0xff, 0, b'x']);
    letter.headers.insert(0, ("null".to_owned(), None));
    letter.headers.insert(0, ("bytes".to_owned(), Some(vec![0x80])));
    dlq.write_all(&[letter, Letter { value: None, ..outboxd(&dlq, 2, "ü", "") }]);
    let folder = Watcher::new("outboxd-export-");
    let file = folder.folder().join("letters.ndjson");
    let file = file.to_str().unwrap();
    assert_eq!(dlq.run("export", &["--output", file]).0, OK);
    assert_eq!(dlq.run("export", &["--output", file]).0, HELD_BACK, "it overwrites nothing");
    let exported = fs::read_to_string(file).unwrap();
    assert_eq!(dlq.run("export", &[]).1, exported);
    let lines: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let again: Vec<_> = lines.iter().map(imported).collect();
    let records = kafka().records(&dlq.topic);
    let there: Vec<_> =
        records.iter().map(|r| (r.key.clone(), r.value.clone(), r.headers.clone(), r.timestamp_ms)).collect();
    assert_eq!(again, there);
    assert_eq!(lines[0]["letter"]["origin"]["topic"], json!(dlq.origin));
}

type Contents = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>, i64);

/// Returns the record that a line of an export describes.
fn imported(line: &Value) -> Contents {
    let bytes = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.as_bytes().to_vec()),
        other => Some(STANDARD.decode(other["base64"].as_str().unwrap()).unwrap()),
    };
    let header = |header: &Value| (header[0].as_str().unwrap().to_owned(), bytes(&header[1]));
    let headers = line["headers"].as_array().unwrap().iter().map(header).collect();
    (bytes(&line["key"]), bytes(&line["value"]), headers, line["timestamp"].as_i64().unwrap())
}

#[test]
fn mistakes_are_reported() {
    let dlq = Dlq::new(kafka());
    kafka().create_topic(&format!("{}-wide", dlq.topic), 3, &[]);
    let wide = format!("{}-wide", dlq.topic);
    for (arguments, exit, told) in [
        (vec!["ls"], USAGE, "no dead-letter topic"),
        (vec!["ls", "--from", "dlq-no-such-topic"], PRECONDITION, "there is no topic"),
        (vec!["show", "0", "--from", &wide], USAGE, "PARTITION:OFFSET"),
        (vec!["show", "3:0", "--from", &wide], PRECONDITION, "there is no dead letter 3:0"),
        (vec!["ls", "--from", &wide, "--since", "soon"], USAGE, "soon"),
    ] {
        let (found, _, stderr) = dlq.run_bare(&arguments);
        assert!(found == exit && stderr.contains(told), "{arguments:?}: {found} {stderr}");
    }
}
