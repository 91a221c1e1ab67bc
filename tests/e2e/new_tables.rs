//! Tables that come while the relay streams.

use outboxd::internals::throwaway::unused_port;

use crate::changes;
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::Relay;
use crate::unseen_rows::warns_of;

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
    get_until(port, "/metrics", "counts it", |page| page.body.contains("\nrelay_warnings 1\n"));
    let cure = format!("ALTER PUBLICATION \"{}\" ADD TABLE \"public\".\"shop_b\"", db.name());
    assert!(page.body.contains(&cure.replace('"', "\\\"")), "{page:?}");
    db.execute(&cure);
    get_until(port, "/readyz", "names it no more", |page| !warns_of(page, "shop_b"));
    db.execute("INSERT INTO shop_b VALUES (2)");
    let records = kafka().read(&changes::topic(&db, "shop_b"), 1);
    assert_eq!(records[0].key.as_deref(), Some(br#"{"id":2}"#.as_slice()));
    assert_eq!(relay.stop(), 0);
}
