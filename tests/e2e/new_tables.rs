//! Tables that come while the relay streams.

use outboxd::internals::throwaway::unused_port;

use crate::changes;
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{self, postgres18};
use crate::support::relay::Relay;
use crate::support::session::Session;
use crate::unseen_rows::warns_of;

/// A table that is missing in the stream is named, for any reason, and until the reason is gone.
#[test]
fn a_new_table_is_named_when_it_leaves_the_publication_or_is_unlogged() {
    let db = Outbox::create_bare(postgres18(), "CREATE TABLE shop_a (id int PRIMARY KEY)");
    let settings = [("table.include.list", "public.shop_.*"), ("publication.autocreate.mode", "filtered")];
    let port = unused_port().unwrap();
    let relay = Relay::start_with(&changes::config(&db, &settings), &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    db.execute("CREATE TABLE shop_b (id int PRIMARY KEY)");
    get_until(port, "/readyz", "names the table", |page| warns_of(page, "shop_b"));
    let publication = format!("ALTER PUBLICATION \"{}\"", db.name());
    db.execute(&format!("{publication} ADD TABLE shop_b"));
    get_until(port, "/readyz", "names it no more", |page| !warns_of(page, "shop_b"));
    db.execute(&format!("{publication} DROP TABLE shop_b"));
    get_until(port, "/readyz", "names it again", |page| warns_of(page, "shop_b"));

    db.execute("CREATE UNLOGGED TABLE shop_c (id int PRIMARY KEY)");
    let fix = "ALTER TABLE \\\"public\\\".\\\"shop_c\\\" SET LOGGED";
    get_until(port, "/readyz", "names the unlogged one", |page| page.body.contains(fix));
    get_until(port, "/metrics", "counts both", |page| page.body.contains("\noutboxd_warnings 2\n"));
    db.execute(&format!("ALTER TABLE shop_c SET LOGGED; {publication} ADD TABLE shop_b, shop_c"));
    get_until(port, "/readyz", "names none", |page| !warns_of(page, "shop_b") && !warns_of(page, "shop_c"));
    assert_eq!(relay.stop(), 0);
}

/// It is in the publication at once, and its rows are not; nor are those of one that was there before.
#[test]
fn an_unlogged_table_is_named_although_all_tables_are_published() {
    let tables =
        "CREATE TABLE shop_a (id int PRIMARY KEY); CREATE UNLOGGED TABLE shop_0 (id int PRIMARY KEY)";
    let db = Outbox::create_bare(postgres18(), tables);
    let settings = [("table.include.list", "public.shop_.*"), ("publication.autocreate.mode", "all_tables")];
    let port = unused_port().unwrap();
    let relay = Relay::start_with(&changes::config(&db, &settings), &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    get_until(port, "/readyz", "names the table that was there", |page| warns_of(page, "shop_0"));
    db.execute("CREATE UNLOGGED TABLE shop_b (id int PRIMARY KEY)");
    get_until(port, "/readyz", "names the table", |page| warns_of(page, "shop_b"));
    db.execute("ALTER TABLE shop_b SET LOGGED; ALTER TABLE shop_0 SET LOGGED");
    get_until(port, "/readyz", "names none", |page| !warns_of(page, "shop_b") && !warns_of(page, "shop_0"));
    assert_eq!(relay.stop(), 0);
}

/// Only a start adds it to the publication; what is written until then is in no stream.
#[test]
fn a_new_table_that_is_not_published_is_named_until_it_is() {
    let db = Outbox::create_bare(postgres18(), "CREATE TABLE shop_a (id int PRIMARY KEY)");
    let settings = [("table.include.list", "public.shop_.*"), ("publication.autocreate.mode", "filtered")];
    let port = unused_port().unwrap();
    let config = changes::config(&db, &settings);
    let relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    get_until(port, "/readyz", "is ready", |page| page.code == 200);
    db.execute("CREATE TABLE other (id int); CREATE TABLE shop_b (id int PRIMARY KEY); INSERT INTO shop_b VALUES (1)");

    let page = get_until(port, "/readyz", "names the table", |page| warns_of(page, "shop_b"));
    assert!(page.code == 200 && !warns_of(&page, "other"), "{page:?}");
    get_until(port, "/metrics", "counts it", |page| page.body.contains("\noutboxd_warnings 1\n"));
    let fix = format!("ALTER PUBLICATION \"{}\" ADD TABLE \"public\".\"shop_b\"", db.name());
    assert!(page.body.contains(&fix.replace('"', "\\\"")), "{page:?}");
    db.execute(&fix);
    get_until(port, "/readyz", "names it no more", |page| !warns_of(page, "shop_b"));
    db.execute("INSERT INTO shop_b VALUES (2)");
    let records = kafka().read(&changes::topic(&db, "shop_b"), 1);
    assert_eq!(records[0].key.as_deref(), Some(br#"{"id":2}"#.as_slice()));
    assert_eq!(relay.stop(), 0);
}

/// No other component reports it: rows still arrive, and reasons that exclude other rows from the stream would go
/// unnoticed.
#[test]
fn a_catalog_that_cannot_be_looked_at_is_reported() {
    let server = postgres::start(18);
    let db = Outbox::create_bare(&server, "CREATE TABLE shop_a (id int PRIMARY KEY)");
    let port = unused_port().unwrap();
    let relay = Relay::start_with(&changes::config(&db, &[]), &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    db.execute("INSERT INTO shop_a VALUES (1)");
    db.wait_until_confirmed();
    let other = Session::new(db.address().clone());
    other.execute("BEGIN; LOCK TABLE pg_publication_rel IN ACCESS EXCLUSIVE MODE");
    let warning = "the publication and its tables could not be looked at for";
    get_until(port, "/readyz", "tells it", |page| page.code == 200 && page.body.contains(warning));
    relay.wait_for_stderr(warning);
    other.execute("COMMIT");
    get_until(port, "/readyz", "tells it no more", |page| page.code == 200 && !page.body.contains(warning));
    assert_eq!(relay.stop(), 0);
}

/// A query of the outbox shows the rows of its child; the stream does not have them.
#[test]
fn a_child_that_inherits_from_the_outbox_is_reported() {
    let db = Outbox::create(postgres18());
    let relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    db.execute("CREATE TABLE child () INHERITS (outbox)");
    let said = relay.wait_for_stderr("public.child");
    assert!(said.contains("inherit from captured ones"), "{said}");
    assert_eq!(relay.stop(), 0);
}
