//! Properties of every message, generated here or captured from a server.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

use super::encode::encode;
use super::{
    Begin, Column, ColumnValue, Commit, LogicalMessage, Message, OldTuple, Relation, ReplicaIdentity, Tuple,
    decode,
};
use crate::wal::{Lsn, Oid, PgTimestamp, Xid};

/// Generates bytes. Messages borrow, so the bytes are leaked, a few per case.
fn bytes() -> impl Strategy<Value = &'static [u8]> {
    prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| &*bytes.leak())
}

/// Generates a protocol string: any text without a zero byte.
fn name() -> impl Strategy<Value = &'static str> {
    "[^\0]{0,20}".prop_map(|text| &*text.leak())
}

fn lsn() -> impl Strategy<Value = Lsn> {
    any::<u64>().prop_map(Lsn::new)
}

fn oid() -> impl Strategy<Value = Oid> {
    any::<u32>().prop_map(Oid)
}

fn time() -> impl Strategy<Value = PgTimestamp> {
    any::<i64>().prop_map(PgTimestamp)
}

fn tuple() -> impl Strategy<Value = Tuple<'static>> {
    let column = prop_oneof![
        Just(ColumnValue::Null),
        Just(ColumnValue::UnchangedToast),
        bytes().prop_map(ColumnValue::Text),
        bytes().prop_map(ColumnValue::Binary),
    ];
    prop::collection::vec(column, 0..20).prop_map(Tuple::from_iter)
}

fn old_tuple() -> impl Strategy<Value = OldTuple<'static>> {
    prop_oneof![tuple().prop_map(OldTuple::Key), tuple().prop_map(OldTuple::Full)]
}

fn relation() -> impl Strategy<Value = Relation> {
    let identity = prop::sample::select(vec![
        ReplicaIdentity::Default,
        ReplicaIdentity::Nothing,
        ReplicaIdentity::Full,
        ReplicaIdentity::Index,
    ]);
    let column = (name(), oid(), any::<i32>(), any::<bool>()).prop_map(
        |(name, type_oid, type_modifier, in_identity)| Column {
            name: name.to_owned(),
            type_oid,
            type_modifier,
            in_identity,
        },
    );
    let schema = name().prop_map(|schema| if schema.is_empty() { "pg_catalog" } else { schema });
    (oid(), schema, name(), identity, prop::collection::vec(column, 0..20)).prop_map(
        |(oid, schema, table, replica_identity, columns)| Relation {
            oid,
            schema: schema.to_owned(),
            table: table.to_owned(),
            replica_identity,
            columns,
        },
    )
}

fn boundary() -> impl Strategy<Value = Message<'static>> {
    prop_oneof![
        (lsn(), time(), any::<u32>()).prop_map(|(final_lsn, commit_time, xid)| {
            Message::Begin(Begin { final_lsn, commit_time, xid: Xid(xid) })
        }),
        (lsn(), lsn(), time()).prop_map(|(commit_lsn, end_lsn, commit_time)| {
            Message::Commit(Commit { commit_lsn, end_lsn, commit_time })
        }),
        (lsn(), name()).prop_map(|(lsn, name)| Message::Origin { lsn, name }),
    ]
}

fn change() -> impl Strategy<Value = Message<'static>> {
    prop_oneof![
        (oid(), tuple()).prop_map(|(relation, new)| Message::Insert { relation, new }),
        (oid(), prop::option::of(old_tuple().prop_map(Box::new)), tuple())
            .prop_map(|(relation, old, new)| Message::Update { relation, old, new }),
        (oid(), old_tuple()).prop_map(|(relation, old)| Message::Delete { relation, old }),
        (prop::collection::vec(oid(), 0..10), any::<bool>(), any::<bool>()).prop_map(
            |(relations, cascade, restart_identity)| Message::Truncate {
                relations,
                cascade,
                restart_identity
            }
        ),
        (any::<bool>(), lsn(), name(), bytes()).prop_map(|(transactional, lsn, prefix, content)| {
            Message::LogicalMessage(LogicalMessage { transactional, lsn, prefix, content })
        }),
    ]
}

fn message() -> impl Strategy<Value = Message<'static>> {
    let description = prop_oneof![
        relation().prop_map(Message::Relation),
        (oid(), name(), name()).prop_map(|(oid, schema, name)| Message::Type { oid, schema, name }),
    ];
    prop_oneof![boundary(), change(), description]
}

proptest! {
    #[test]
    fn a_message_is_read_as_it_was_written(message in message()) {
        prop_assert_eq!(decode(encode(&message).leak()), Ok(message));
    }

    #[test]
    fn a_message_cut_short_anywhere_is_refused(message in message()) {
        let wire = encode(&message);
        for end in 0..wire.len() {
            prop_assert!(decode(&wire[..end]).is_err(), "cut at {end} of {}", wire.len());
        }
    }

    #[test]
    fn a_message_with_a_byte_too_many_is_refused(message in message(), more: u8) {
        let mut wire = encode(&message);
        wire.push(more);
        prop_assert!(decode(&wire).is_err());
    }

    #[test]
    fn a_changed_byte_is_read_or_refused(message in message(), at: Index, byte: u8) {
        let mut wire = encode(&message);
        let at = at.index(wire.len());
        wire[at] = byte;
        drop(decode(&wire));
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        tag in prop::sample::select(b"BCORYIUDTM?".to_vec()),
        mut body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        body.insert(0, tag);
        drop(decode(&body));
    }
}

/// Returns every message that `tests/golden/capture.sh` captured from a server.
fn captured() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/pgoutput");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let captures = files.filter(|path| path.extension().is_some_and(|extension| extension == "hex"));
    let mut messages = Vec::new();
    for path in captures {
        for (number, line) in (1..).zip(fs::read_to_string(&path).unwrap().lines()) {
            let digits = line.split_once(' ').unwrap().1.as_bytes();
            let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
            messages.push((format!("{}:{number}", path.display()), digits.chunks(2).map(byte).collect()));
        }
    }
    messages
}

#[test]
fn what_a_server_sent_is_what_the_encoder_writes() {
    let captured = captured();
    assert!(captured.len() > 500, "{} messages found", captured.len());
    for (place, wire) in captured {
        assert_eq!(encode(&decode(&wire).unwrap()), wire, "{place}");
    }
}

#[test]
fn what_a_server_sent_is_refused_when_cut_short_and_survives_a_changed_byte() {
    for (place, wire) in captured() {
        for at in 0..wire.len() {
            assert!(decode(&wire[..at]).is_err(), "{place} cut at {at}");
            for flip in [0x01, 0x80, 0xFF] {
                let mut changed = wire.clone();
                changed[at] ^= flip;
                drop(decode(&changed));
            }
        }
    }
}

#[test]
fn every_kind_of_message_was_captured_from_every_server() {
    let captured = captured();
    for server in ["pg15", "pg18"] {
        for tag in b"BCORYIUDTM" {
            let found =
                captured.iter().any(|(place, wire)| place.contains(server) && wire.first() == Some(tag));
            assert!(found, "no {:?} in the captures of {server}", char::from(*tag));
        }
    }
}
