//! A record with a header whose name is not UTF-8: brokers store it, and rdkafka neither writes nor reads it.

use outboxd_inbox::postgres::{Connector, Transaction};
use outboxd_inbox::{Delivery, Failure};
use tokio_postgres::NoTls;

use crate::running::Running;
use crate::shop::Shop;
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::raw_record::produce;

#[test]
fn a_header_whose_name_is_not_utf_8_is_skipped() {
    let shop = Shop::open(postgres18(), kafka());
    let headers: [(&[u8], &[u8]); 3] = [(b"id", b"1"), (b"na\xEFve", b"x"), (b"trace", b"y")];
    produce(&kafka().bootstrap(), &shop.topic(), &headers);
    shop.produce_records(&[("k", Some("later"), Some("2"))]);
    let handler = |transaction: Transaction, event: Delivery| async move {
        let names: Vec<&str> = event.headers.iter().map(|header| header.name.as_str()).collect();
        let applied = format!("{} {}", event.id(), names.join(" "));
        transaction.execute("INSERT INTO applied (event_id) VALUES ($1)", &[&applied]).await?;
        Ok::<_, Failure>(())
    };
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    let running = Running::start(&shop, connector, |inbox| inbox, handler);
    shop.wait_for_applied(2);
    shop.wait_until_committed();
    running.stop();
    let applied = shop.query("SELECT event_id FROM applied ORDER BY event_id", &[]);
    let applied: Vec<String> = applied.iter().map(|row| row.get(0)).collect();
    assert_eq!(applied, ["1 id trace", "2 id"]);
}
