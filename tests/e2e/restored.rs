//! A copy of the server's data is restored: same system identifier, same timeline, and after some new rows a longer WAL
//! than before. The relay's data about the lost history must not be applied to these rows.

use std::collections::BTreeSet;

use outboxd::internals::throwaway::{ThrowawayPostgres, unused_port};
use serde_json::Value;

use crate::support::backlog::Backlog;
use crate::support::backup::Backup;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres;
use crate::support::proxy::{Protocol, Proxy};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

const BACKLOG: Backlog = Backlog { key_count: 5 };

const AT_LEAST_ONCE: (&str, &str) = ("outboxd.delivery.guarantee", "at_least_once");
const TAIL_DEDUPE: (&str, &str) = ("outboxd.delivery.guarantee", "tail_dedupe");
const EXACTLY_ONCE: (&str, &str) = ("outboxd.delivery.guarantee", "exactly_once");

/// Numbers of the rows that are written after the copy was put back.
const NEW_ROWS: std::ops::Range<u64> = 100..112;

#[test]
fn a_running_relay_ends_when_a_copy_was_put_back() {
    for guarantee in [AT_LEAST_ONCE, TAIL_DEDUPE, EXACTLY_ONCE] {
        let mut bench = Bench::start(guarantee);
        let mut relay = Relay::start(&bench.config);
        let backup = bench.write_and_copy();
        bench.go_back(backup);
        assert_eq!(relay.wait_for_exit(DEADLINE), 7, "{guarantee:?}: {}", relay.stderr());
        let said = relay.stderr();
        assert!(said.contains("a copy or a backup was put back"), "{guarantee:?}: {said}");
        bench.check_that_nothing_is_lost(guarantee);
    }
}

/// Of what was sent only the state of exactly-once is remembered, and it must not be believed.
#[test]
fn a_relay_that_was_stopped_loses_nothing_when_a_copy_was_put_back() {
    for guarantee in [AT_LEAST_ONCE, TAIL_DEDUPE, EXACTLY_ONCE] {
        let mut bench = Bench::start(guarantee);
        let relay = Relay::start(&bench.config);
        let backup = bench.write_and_copy();
        assert_eq!(relay.stop(), 0);
        bench.go_back(backup);
        if guarantee == EXACTLY_ONCE {
            let mut relay = Relay::start(&bench.config);
            assert_eq!(relay.wait_for_exit(DEADLINE), 7, "{}", relay.stderr());
            assert!(relay.stderr().contains("later than all of that"), "{}", relay.stderr());
        }
        bench.check_that_nothing_is_lost(guarantee);
    }
}

struct Bench {
    server: ThrowawayPostgres,
    db: Outbox,
    link: Proxy,
    config: Config,
}

impl Bench {
    fn start(guarantee: (&str, &str)) -> Self {
        let server = postgres::start(18);
        let (db, link) = (Outbox::create(&server), Proxy::start(Protocol::Postgres, server.port()));
        let port = link.port().to_string();
        let settings = [("database.port", port.as_str()), ("database.sslmode", "disable"), guarantee];
        let config = with(db.config(kafka()), &settings);
        Self { server, db, link, config }
    }

    /// Copies the data between two runs of rows. Everything is confirmed.
    fn write_and_copy(&mut self) -> Backup {
        self.db.wait_until_streaming();
        BACKLOG.insert(&self.db, 0..10, 5);
        self.db.wait_until_confirmed();
        self.db.disconnect();
        let backup = Backup::take(&mut self.server);
        self.db.wait_until_streaming();
        BACKLOG.insert(&self.db, 10..16, 1);
        self.write_noise(20_000);
        self.db.wait_until_confirmed();
        backup
    }

    /// Puts the copy back, and writes rows that lie before what was confirmed, and behind it. A relay that runs does not see the
    /// server meanwhile.
    fn go_back(&mut self, backup: Backup) {
        let before = self.db.current_wal_lsn();
        self.db.disconnect();
        self.link.redirect(unused_port().unwrap());
        backup.put_back(&mut self.server);
        let middle = (NEW_ROWS.start + NEW_ROWS.end) / 2;
        BACKLOG.insert(&self.db, NEW_ROWS.start..middle, 1);
        assert!(self.db.current_wal_lsn() < before, "no new row lies before what was confirmed");
        self.write_noise(40_000);
        BACKLOG.insert(&self.db, middle..NEW_ROWS.end, 1);
        assert!(self.db.current_wal_lsn() > before, "the WAL is shorter than it was");
        self.link.redirect(self.server.port());
    }

    fn write_noise(&self, rows: u64) {
        self.db.execute(&format!("CREATE TABLE IF NOT EXISTS noise AS SELECT generate_series(1, {rows})"));
    }

    /// Checks that no row is lost after the fix that the message names.
    fn check_that_nothing_is_lost(&self, guarantee: (&str, &str)) {
        let state = format!("__outboxd-state-anew.{}", self.db.name());
        let anew: &[(&str, &str)] = match guarantee {
            EXACTLY_ONCE => &[("outboxd.exactly.once.state.topic", &state)],
            _ => &[],
        };
        let relay = Relay::start(&with(self.config.clone(), anew));
        eventually(DEADLINE, "all rows that were written after the copy was put back are sent", || {
            NEW_ROWS.collect::<BTreeSet<_>>().is_subset(&self.sent())
        });
        assert_eq!(relay.stop(), 0);
    }

    fn sent(&self) -> BTreeSet<u64> {
        let records = kafka().records(&self.db.topic(Backlog::TYPE));
        let number = |value: &str| serde_json::from_str::<Value>(value).unwrap()["n"].as_u64().unwrap();
        records.iter().map(|record| number(record.value())).collect()
    }
}
