//! The service's database is put back to an older state.

use crate::shop::{Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::wait::{DEADLINE, eventually};

impl Shop<'_> {
    /// Ends all sessions of the database.
    pub(crate) fn end_sessions(&self) {
        let name = self.name();
        self.execute_as_admin(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        ));
    }

    fn allow_connections(&self, is_allowed: bool) {
        self.execute_as_admin(&format!("ALTER DATABASE {} ALLOW_CONNECTIONS {is_allowed}", self.name()));
    }

    /// Copies the database. Its sessions are ended.
    pub(crate) fn copy_database(&self) {
        let name = self.name();
        self.allow_connections(false);
        eventually(DEADLINE, "the database is copied", || {
            self.end_sessions();
            self.try_execute_as_admin(&format!("CREATE DATABASE {name}_copy TEMPLATE {name}")).is_ok()
        });
        self.allow_connections(true);
    }

    /// Puts the copy in the place of the database.
    pub(crate) fn put_back(&self) {
        let name = self.name();
        self.allow_connections(false);
        self.execute_as_admin(&format!("DROP DATABASE {name} WITH (FORCE)"));
        self.execute_as_admin(&format!("ALTER DATABASE {name}_copy RENAME TO {name}"));
    }
}

/// Invariant: an offset counts for the database whose transactions it stands for.
#[test]
fn what_a_database_has_lost_is_applied_again_by_a_consumer_that_runs_on() {
    for more in [&["--batch", "10"][..], &["--dedupe", "sequence", "--first-number", "0"]] {
        let shop = Shop::open(postgres18(), kafka());
        let events = payments(400, 20);
        shop.produce(&events[..100]);
        let consumer = shop.start(more);
        shop.wait_for_applied(100);
        shop.wait_until_committed();
        shop.copy_database();
        shop.produce(&events[100..200]);
        shop.wait_for_applied(200);
        shop.wait_until_committed();
        shop.put_back();
        shop.produce(&events[200..]);
        shop.wait_for_applied(400);
        shop.wait_until_committed();
        consumer.stop();
        shop.check(&events);
    }
}

/// The same where no offset is stored between the copy and the end of the database.
#[test]
fn the_last_moment_that_a_database_has_lost_is_applied_again() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(2_000, 20);
    // For 5 s no offset behind it is stored.
    events[100].fail = "slow";
    let partition = 1;
    shop.produce_to(partition, &events[..100]);
    let consumer = shop.start(&[]);
    shop.wait_for_applied(100);
    shop.wait_until_committed();
    shop.produce_to(partition, &events[100..1_000]);
    shop.wait_for_applied(120);
    shop.copy_database();
    shop.wait_for_applied(shop.applied_count() + 50);
    shop.put_back();
    shop.produce_to(partition, &events[1_000..]);
    shop.wait_for_applied(2_000);
    shop.wait_until_committed();
    consumer.stop();
    shop.check(&events);
}

#[test]
fn what_a_database_has_lost_is_applied_again_after_a_start() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(300, 20);
    shop.produce(&events[..100]);
    let first = shop.start(&[]);
    shop.wait_for_applied(100);
    shop.wait_until_committed();
    first.stop();
    shop.copy_database();
    shop.produce(&events[100..200]);
    let second = shop.start(&[]);
    shop.wait_for_applied(200);
    shop.wait_until_committed();
    second.stop();
    shop.put_back();
    shop.produce(&events[200..]);
    let third = shop.start(&[]);
    shop.wait_for_applied(300);
    shop.wait_until_committed();
    assert!(third.log().contains("has been put back to an older state"), "{}", third.log());
    third.stop();
    shop.check(&events);
}

/// The same with a state from before the consumer was first started: it has no offset that could be compared.
#[test]
fn what_a_database_has_lost_that_never_knew_the_consumer_is_applied_again() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(60, 20);
    shop.copy_database();
    shop.produce(&events);
    let first = shop.start(&[]);
    shop.wait_for_applied(60);
    shop.wait_until_committed();
    first.stop();
    shop.put_back();
    let second = shop.start(&[]);
    shop.wait_for_applied(60);
    second.stop();
    shop.check(&events);
}

/// Removes all that was applied, as if a backup without it had been put back into the tables.
const PUT_BACK_ROWS: &str = "TRUNCATE applied, inbox_message; UPDATE customers SET lifetime_value = 0; \
     UPDATE inbox_partition SET next_offset = 0";

/// Invariant: offsets are compared at the first time that a partition is taken, however often that has failed before.
#[test]
fn what_a_database_has_lost_is_applied_again_if_partitions_cannot_be_taken_at_first() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(60, 20);
    shop.produce(&events);
    let first = shop.start(&[]);
    shop.wait_for_applied(60);
    shop.wait_until_committed();
    first.stop();
    shop.execute(PUT_BACK_ROWS);
    shop.execute("ALTER FUNCTION inbox_take_over RENAME TO hidden");
    let second = shop.start(&[]);
    eventually(DEADLINE, "it is logged", || second.log().contains("a partition is not taken yet"));
    shop.execute("ALTER FUNCTION hidden RENAME TO inbox_take_over");
    shop.wait_for_applied(60);
    second.stop();
    shop.check(&events);
}

/// Invariant: rows of a backup that are put back under a running consumer are noticed, although server and tables are the same.
#[test]
fn rows_that_are_put_back_under_a_running_consumer_are_noticed() {
    // The second backup does not know the consumer.
    for more in ["", "DELETE FROM inbox_partition"] {
        let shop = Shop::open(postgres18(), kafka());
        let events = payments(120, 20);
        shop.produce(&events[..60]);
        let consumer = shop.start(&["--batch", "5"]);
        shop.wait_for_applied(60);
        shop.wait_until_committed();
        shop.execute(PUT_BACK_ROWS);
        shop.execute(more);
        shop.produce(&events[60..]);
        shop.wait_for_applied(120);
        consumer.stop();
        shop.check_each(&events);
    }
}
