//! Tests of dead letters.

use proptest::option;
use proptest::prelude::*;

use super::*;

type Headers = Vec<(String, Option<Vec<u8>>)>;

fn pairs(headers: &Headers) -> impl Iterator<Item = (&str, Option<&[u8]>)> + Clone {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_deref()))
}

fn owned(headers: &[(&str, &[u8])]) -> Headers {
    headers.iter().map(|(name, value)| ((*name).to_owned(), Some(value.to_vec()))).collect()
}

fn read(headers: &[(&str, &[u8])]) -> Option<DeadLetter> {
    DeadLetter::read(pairs(&owned(headers)))
}

fn origin() -> impl Strategy<Value = Origin> {
    let numbers = (option::of(any::<i32>()), option::of(any::<i64>()), option::of(any::<i64>()));
    (any::<String>(), numbers).prop_map(|(topic, (partition, offset, timestamp_ms))| Origin {
        topic,
        partition,
        offset,
        timestamp_ms,
    })
}

fn any_letter() -> impl Strategy<Value = DeadLetter> {
    let text = || option::of(any::<String>());
    let words = (text(), text(), text(), text(), text());
    let numbers = (option::of(any::<u32>()), option::of(any::<i64>()));
    (prop::sample::select(Dialect::ALL.to_vec()), option::of(origin()), words, numbers).prop_map(
        |(dialect, origin, (consumer, reason, exception, message, details), (attempts, failed_at_ms))| {
            let contents = match dialect {
                Dialect::ShareGroup => Contents::Reference,
                _ => Contents::Record,
            };
            DeadLetter {
                dialect,
                contents,
                origin,
                consumer,
                reason,
                exception,
                message,
                details,
                attempts,
                failed_at_ms,
            }
        },
    )
}

/// Removes the fields for which the dialect has no header.
fn as_far_as_it_can_be_said(mut letter: DeadLetter) -> DeadLetter {
    if matches!(letter.dialect, Dialect::Connect | Dialect::ShareGroup) {
        letter.origin = letter.origin.map(|origin| Origin { timestamp_ms: None, ..origin });
    }
    match letter.dialect {
        Dialect::Outboxd => letter,
        Dialect::Connect => DeadLetter { attempts: None, failed_at_ms: None, ..letter },
        Dialect::Spring => DeadLetter { reason: None, failed_at_ms: None, ..letter },
        Dialect::ShareGroup => {
            DeadLetter { reason: None, exception: None, details: None, failed_at_ms: None, ..letter }
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(letter in any_letter(), own in any::<Vec<(String, Vec<u8>)>>()) {
        let written = letter.headers();
        let names = || written.iter().map(|(name, _)| *name);
        prop_assert!(names().all(|name| letter.dialect.owns(name)));
        let own = own.into_iter().filter(|(name, _)| Dialect::of_header(name).is_none());
        let theirs = written.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let headers: Headers = own.chain(theirs).map(|(name, value)| (name, Some(value))).collect();
        // Spring's count of attempts alone may be in a record that is no dead letter.
        let is_recognised = names().any(|name| Dialect::of_header(name).is_some());
        let expected = is_recognised.then(|| as_far_as_it_can_be_said(letter.clone()));
        prop_assert_eq!(DeadLetter::read(pairs(&headers)), expected);
    }

    #[test]
    fn any_header_is_read_or_ignored(
        dialect in prop::sample::select(Dialect::ALL.to_vec()),
        letter in any_letter(),
        values in any::<[Option<Vec<u8>>; 12]>(),
    ) {
        let written = DeadLetter { dialect, ..letter }.headers();
        let names = written.iter().map(|(name, _)| (*name).to_owned());
        let headers: Headers = names.zip(values).collect();
        let is_recognised = headers.iter().any(|(name, _)| Dialect::of_header(name).is_some());
        prop_assert_eq!(DeadLetter::read(pairs(&headers)).is_some(), is_recognised);
    }
}

#[test]
fn a_record_of_no_dialect_is_no_dead_letter_with_a_reason() {
    assert_eq!(read(&[]), None);
    assert_eq!(read(&[("id", b"1"), ("retry_topic-attempts", &[0, 0, 0, 1])]), None);
}

#[test]
fn the_headers_that_were_written_last_count() {
    let letter = read(&[
        ("kafka_dlt-original-topic", b"orders"),
        ("__connect.errors.topic", b"orders-dlt"),
        ("__connect.errors.topic", b"orders-dlt-2"),
    ]);
    let letter = letter.unwrap();
    assert_eq!(letter.dialect, Dialect::Connect);
    assert_eq!(letter.origin.unwrap().topic, "orders-dlt-2");
}

#[test]
fn the_relays_dead_letters_are_read_with_connects_headers() {
    let headers = |reason: &'static str| {
        [
            ("__connect.errors.topic", "outbox.event.order".as_bytes()),
            ("__connect.errors.partition", b"2"),
            ("__connect.errors.connector.name", b"orders"),
            ("__connect.errors.stage", b"KAFKA_PRODUCE"),
            (
                "__connect.errors.exception.class.name",
                b"org.apache.kafka.common.errors.RecordTooLargeException",
            ),
            ("outboxd.errors.reason", reason.as_bytes()),
            ("outboxd.errors.commit.lsn", b"0/1949148"),
            ("outboxd.errors.ordinal", b"0"),
        ]
    };
    let letter = read(&headers("too_large")).unwrap();
    let expected = Origin {
        topic: "outbox.event.order".to_owned(),
        partition: Some(2),
        offset: None,
        timestamp_ms: None,
    };
    assert_eq!((letter.dialect, letter.origin), (Dialect::Outboxd, Some(expected)));
    assert_eq!((letter.consumer.as_deref(), letter.reason.as_deref()), (Some("orders"), Some("too_large")));
    assert_eq!(letter.contents, Contents::Record);
    assert_eq!(read(&headers("routing")).unwrap().contents, Contents::Row);
    let left_out =
        [&headers("too_large")[..], &[("outboxd.errors.value.left.out.bytes", b"5000000")]].concat();
    assert_eq!(read(&left_out).unwrap().contents, Contents::ValueLeftOut);
}

/// Invariant: a dead letter without its value is never read as a record without a value.
#[test]
fn a_consumers_dead_letter_without_its_value_refers_to_the_record() {
    let origin = Origin { topic: "t".to_owned(), partition: Some(0), offset: Some(7), timestamp_ms: None };
    for dialect in Dialect::ALL {
        let letter =
            DeadLetter { origin: Some(origin.clone()), ..DeadLetter::new(dialect, Contents::Record) };
        let mut headers: Vec<(&str, Vec<u8>)> = vec![(VALUE_LEFT_OUT, b"5000000".to_vec())];
        headers.extend(letter.headers());
        let headers: Headers =
            headers.into_iter().map(|(name, value)| (name.to_owned(), Some(value))).collect();
        let read = DeadLetter::read(pairs(&headers)).unwrap();
        assert_eq!((read.dialect, read.contents), (dialect, Contents::Reference));
        assert_eq!(read.origin.as_ref(), Some(&origin));
    }
}

#[test]
fn springs_numbers_are_big_endian_and_its_cause_is_what_happened() {
    let letter = read(&[
        ("kafka_dlt-exception-fqcn", b"org.springframework.kafka.listener.ListenerExecutionFailedException"),
        ("kafka_dlt-exception-cause-fqcn", b"java.lang.IllegalStateException"),
        ("kafka_dlt-original-topic", b"orders"),
        ("kafka_dlt-original-partition", &[0, 0, 0, 2]),
        ("kafka_dlt-original-offset", &[0, 0, 0, 0, 0, 0, 1, 0]),
        ("kafka_dlt-original-timestamp", &[0, 0, 1, 0x99, 0, 0, 0, 0]),
        ("retry_topic-attempts", &[3]),
    ]);
    let letter = letter.unwrap();
    let Origin { partition, offset, timestamp_ms, .. } = letter.origin.unwrap();
    assert_eq!((partition, offset, timestamp_ms), (Some(2), Some(256), Some(0x0199_0000_0000)));
    assert_eq!(letter.exception.as_deref(), Some("java.lang.IllegalStateException"));
    assert_eq!(letter.attempts, Some(3));
}

#[test]
fn a_number_that_cannot_be_read_is_omitted() {
    let letter = read(&[
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"two"),
        ("__dlq.errors.offset", b"17"),
        ("__dlq.errors.delivery.count", b"-1"),
        ("__dlq.errors.message", b"\xff"),
    ]);
    let letter = letter.unwrap();
    let Origin { partition, offset, .. } = letter.origin.unwrap();
    assert_eq!((partition, offset, letter.attempts), (None, Some(17), None));
    assert_eq!(letter.message.as_deref(), Some("\u{fffd}"));
}

#[test]
fn a_count_of_replays_that_cannot_be_read_is_over_any_limit() {
    let count = |values: &[&[u8]]| {
        let headers: Vec<_> = values.iter().map(|value| (REPLAY_COUNT, *value)).collect();
        replay_count(pairs(&owned(&headers)))
    };
    assert_eq!([count(&[]), count(&[b"2"]), count(&[b"1", b"2"])], [0, 2, 2]);
    assert_eq!([count(&[b"many"]), count(&[b"2", b""])], [u32::MAX; 2]);
}
