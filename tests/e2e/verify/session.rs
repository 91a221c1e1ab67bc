//! The session in docs/verify.md, typed into the real command.

use std::fs;

use super::{advance, event, relay};
use crate::commands::session::Session;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::{Relay, with};
use crate::support::watcher::Watcher;

const PAGE: &str = include_str!("../../../docs/verify.md");

#[test]
fn the_session_of_the_docs_is_what_is_seen() {
    let db = Outbox::create(postgres18());
    // A relay that keeps its position does not start on a slot that was moved.
    let settings = [("outboxd.position.topic", ""), ("outboxd.identity.headers", "true")];
    let config = with(db.config(kafka()), &settings);
    let folder = Watcher::new("outboxd-verify-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    // Rows that a snapshot sends have no place in the stream.
    relay(&db, &config);
    db.insert(&[event("1", "{}"), event("2", "{}")]);
    relay(&db, &config);
    let lost = event("3", "{}");
    let names = [
        ("outbox.json", file),
        ("0d0c6f1e-8f0a-4c57-9d0e-5a1c6d9b7e21", lost.id.to_string()),
        ("orders", db.name().to_owned()),
    ];
    assert_eq!(Session::of(PAGE, "Example session").replay(&names), [0]);
    db.insert(std::slice::from_ref(&lost));
    advance(&db);
    let _relay = Relay::start(&config);
    db.wait_until_streaming();
    assert_eq!(Session::of(PAGE, "Example: a lost row").replay(&names), [1]);
}
