//! A configuration that cannot work is refused soon, in the user's words, and changes nothing in the database.

use outboxd::internals::secret::Secret;
use outboxd::internals::throwaway::{Authentication, Options, ThrowawayPostgres, unused_port};

use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{self, postgres15, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::wait::DEADLINE;

/// Settings, the exit code that they lead to, and what the message names.
type Mistake<'a> = (&'a [(&'a str, &'a str)], i32, &'a [&'a str]);

#[test]
fn mistakes_that_postgres_shows() {
    let port = unused_port().unwrap().to_string();
    let predicate = [
        ("predicates", "audit"),
        ("predicates.audit.type", "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"),
        ("predicates.audit.pattern", r".*\.audit"),
        ("transforms.outbox.predicate", "audit"),
    ];
    let mistakes: [Mistake<'_>; 6] = [
        (&predicate, 3, &["predicate", "public.outbox", "table.include.list"]),
        (&[("database.port", &port)], 4, &["database.port", &port]),
        (&[("database.dbname", "no_such_base")], 4, &["database.dbname", "no_such_base"]),
        (&[("database.user", "nobody_here")], 4, &["nobody_here"]),
        (&[("table.include.list", "public.outbx")], 3, &["table.include.list", "public.outbox"]),
        (
            &[("transforms.outbox.table.field.event.key", "agregateid")],
            3,
            &["table.field.event.key", "agregateid", "aggregateid", "public.outbox"],
        ),
    ];
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        mistakes.iter().for_each(|mistake| refuse(&db, *mistake));
    }
}

#[test]
fn mistakes_that_the_file_shows() {
    let illegal = [("errors.tolerance", "all"), ("errors.deadletterqueue.topic.name", "dead letters")];
    let mistakes: [Mistake<'_>; 5] = [
        (&illegal, 2, &["errors.deadletterqueue.topic.name", "character"]),
        (&[("slot.nam", "x")], 2, &["slot.nam", "slot.name"]),
        (&[("transforms.outbox.route.by.feild", "type")], 2, &["route.by.feild", "route.by.field"]),
        (&[("slot.name", "Bad-Name")], 2, &["slot.name", "Bad-Name"]),
        (&[("database.sslmode", "maybe")], 2, &["database.sslmode", "maybe"]),
    ];
    let db = Outbox::create(postgres18());
    mistakes.iter().for_each(|mistake| refuse(&db, *mistake));
}

#[test]
fn a_broker_that_cannot_be_reached() {
    let servers = format!("127.0.0.1:{}", unused_port().unwrap());
    let db = Outbox::create(postgres15());
    refuse(&db, (&[("bootstrap.servers", &servers)], 5, &["bootstrap.servers", &servers]));
}

#[test]
fn a_wrong_password() {
    let authentication = Authentication::ScramSha256(Secret::new("right"));
    let options = Options { authentication, ..postgres::options(18, &[]) };
    let server = ThrowawayPostgres::start(&options).unwrap();
    let db = Outbox::create(&server);
    refuse(&db, (&[("database.password", "hunter2")], 4, &["database.password", "postgres"]));
}

#[test]
fn a_server_without_logical_decoding() {
    let server = postgres::start_with(18, &[("wal_level", "replica")]);
    let db = Outbox::create(&server);
    refuse(&db, (&[], 3, &["wal_level", "replica", "ALTER SYSTEM SET wal_level"]));
}

#[track_caller]
fn refuse(db: &Outbox, (settings, exit, names): Mistake<'_>) {
    let mut relay = Relay::start(&with(db.config(kafka()), settings));
    let actual = relay.wait_for_exit(DEADLINE);
    let said = relay.stderr();
    assert_eq!(actual, exit, "{settings:?}: {said}");
    names.iter().for_each(|name| assert!(said.contains(name), "{settings:?} does not name {name}: {said}"));
    assert!(!said.contains("hunter2"), "a secret is shown: {said}");
    assert!(db.leftovers().is_empty(), "{settings:?} left {:?}", db.leftovers());
}
