//! The example `sequence`.

use clap::Parser as _;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use crate::process::{Process, arguments};
use crate::sequence_app;
use crate::shop::Shop;
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::wait::{DEADLINE, eventually_eq};

/// Not a test of its own: the process of the example.
#[test]
fn ledger_process() {
    let Some(arguments) = arguments() else { return };
    sequence_app::main(sequence_app::Arguments::parse_from(arguments));
}

#[test]
fn lines_that_come_in_any_order_and_twice_are_written_in_the_order_of_their_numbers() {
    const LINES: usize = 30;
    let shop = Shop::open(postgres18(), kafka());
    let (topic, bootstrap) = (shop.topic(), kafka().bootstrap());
    let produce = |account: &str, number: usize| {
        let (id, line, number) =
            (format!("{account}-{number}"), format!("line {number}"), number.to_string());
        let headers = OwnedHeaders::new()
            .insert(Header { key: "id", value: Some(&id) })
            .insert(Header { key: "sequence", value: Some(&number) });
        kafka().produce(
            BaseRecord::to(&topic).key(account.as_bytes()).payload(line.as_bytes()).headers(headers),
        );
    };
    for account in ["a", "b", "c"] {
        // The first one that comes is the first of all; then the last ones come first, and all of them again.
        produce(account, 0);
        (1..LINES).rev().chain(0..LINES).for_each(|number| produce(account, number));
    }
    let own = ["--postgres", shop.url(), "--kafka", &bootstrap, "--topic", &topic, "--consumer", shop.name()];
    let ledger = Process::start("ledger::ledger_process", own.into_iter());
    let exists = || shop.query("SELECT FROM pg_tables WHERE tablename = 'ledger'", &[]).len() == 1;
    eventually_eq(DEADLINE, &3, || {
        let sql = "SELECT FROM ledger GROUP BY account HAVING count(*) >= 30";
        if exists() { shop.query(sql, &[]).len() } else { 0 }
    });
    shop.wait_until_committed();
    assert!(ledger.log().contains("an event of this key is missing"), "{}", ledger.log());
    ledger.stop();
    let expected: Vec<String> = (0..LINES).map(|number| format!("line {number}")).collect();
    for account in ["a", "b", "c"] {
        let rows = shop.query("SELECT line FROM ledger WHERE account = $1 ORDER BY n", &[&account]);
        let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(lines, expected, "account {account}");
    }
}
