//! Consumers in other languages, by the protocol of docs/inbox-protocol.md: killed, frozen, joined, beside the crate's own.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use outboxd::internals::throwaway::StopMode;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use crate::process::Process;
use crate::shop::{Payment, Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::{postgres18, start};
use crate::support::record::Record;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

/// Of customers with a key each.
const CUSTOMERS: i64 = 20;
const EVENTS: usize = 3_000;
/// Number of the event whose handler always fails.
const POISON: usize = 42;

fn recipe(shop: &Shop<'_>, program: &[&str]) -> Process {
    let (topic, dlq, bootstrap) = (shop.topic(), shop.dead_letter_topic(), kafka().bootstrap());
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).args([shop.url(), &bootstrap, &topic, shop.name(), &dlq]);
    Process::of(command)
}

/// Checks that each event is applied once and in order, whatever happens to the processes.
fn survives_kills_and_freezes(program: &[&str]) {
    let shop = Shop::open(postgres18(), kafka());
    shop.execute(outboxd_inbox::postgres::SCHEMA);
    let mut events = payments(i64::try_from(EVENTS).unwrap(), CUSTOMERS);
    events[POISON].fail = "always";
    shop.produce(&events[..1_000]);
    shop.produce(&events[500..1_000]);
    let first = recipe(&shop, program);
    shop.wait_for_applied(300);
    let mut second = recipe(&shop, program);
    shop.produce(&events[1_000..2_000]);
    shop.wait_for_applied(1_100);
    first.kill();
    let third = recipe(&shop, program);
    shop.wait_for_applied(1_500);
    // For longer than its session lasts.
    second.pause();
    shop.produce(&events[2_000..]);
    shop.wait_for_applied(i64::try_from(EVENTS - 1).unwrap());
    second.resume();
    // They can be no event.
    shop.produce_records(&[("0", None, None), ("1", None, Some("no-value")), ("2", Some("{}"), None)]);
    // The crate's own in the same group, and what came first once more. The others have no cooperative strategy.
    let own = shop.start(&["--retry", "none", "-X", "partition.assignment.strategy=range"]);
    shop.produce(&events[..POISON]);
    shop.wait_until_committed();
    for process in [second, third, own] {
        process.stop();
    }
    let is_applied = |payment: &&Payment| payment.fail == "no";
    shop.check(&events.iter().filter(is_applied).cloned().collect::<Vec<_>>());
    let dead = shop.wait_for_dead_letters(4);
    let id = |record: &Record| {
        record.headers.iter().find(|(name, _)| name == "id").and_then(|(_, value)| value.clone())
    };
    let ids: BTreeSet<_> = dead.iter().map(id).collect();
    let text = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(ids, BTreeSet::from([None, text("no-value"), text(&events[POISON].id)]), "{dead:?}");
}

/// Checks that a consumer which starts, or gets partitions, while the database is away waits for it.
fn waits_for_a_database_that_is_away(program: &[&str]) {
    let mut postgres = start(18);
    let shop = Shop::open(&postgres, kafka());
    shop.execute(outboxd_inbox::postgres::SCHEMA);
    let events = payments(200, CUSTOMERS);
    shop.produce(&events);
    postgres.stop(StopMode::Fast, DEADLINE).unwrap();
    let consumer = recipe(&shop, program);
    eventually(DEADLINE, "it has partitions and no database", || consumer.log().contains("again in 0.5 s"));
    postgres.start_again().unwrap();
    shop.wait_for_applied(200);
    shop.wait_until_committed();
    consumer.stop();
    shop.check(&events);
}

/// Checks that a consumer which runs on after a failover applies the events that the database has lost, and that it waits
/// while nothing can be written.
fn survives_a_failover(program: &[&str]) {
    let shop = Shop::open(postgres18(), kafka());
    shop.execute(outboxd_inbox::postgres::SCHEMA);
    let events = payments(400, CUSTOMERS);
    shop.produce(&events[..100]);
    let consumer = recipe(&shop, program);
    shop.wait_for_applied(100);
    shop.copy_database();
    shop.produce(&events[100..200]);
    shop.wait_for_applied(200);
    shop.wait_until_committed();
    shop.put_back();
    shop.produce(&events[200..300]);
    shop.wait_for_applied(300);
    let database = format!("ALTER DATABASE {}", shop.name());
    shop.execute_as_admin(&format!("{database} SET default_transaction_read_only = on"));
    shop.end_sessions();
    shop.produce(&events[300..]);
    eventually(DEADLINE, "nothing can be written", || consumer.log().contains("read-only transaction"));
    shop.execute_as_admin(&format!("{database} RESET default_transaction_read_only"));
    shop.wait_for_applied(400);
    shop.wait_until_committed();
    consumer.stop();
    shop.check(&events);
    assert_eq!(shop.dead_ids(), [""; 0]);
}

/// Checks that a topic that was deleted and created again is read from its beginning, although the database has an offset of the old one.
fn reads_a_topic_that_was_created_again(program: &[&str]) {
    let shop = Shop::open(postgres18(), kafka());
    shop.execute(outboxd_inbox::postgres::SCHEMA);
    let events = payments(300, CUSTOMERS);
    shop.produce(&events[..100]);
    let first = recipe(&shop, program);
    shop.wait_for_applied(100);
    shop.wait_until_committed();
    first.stop();
    kafka().delete_topic(&shop.topic());
    kafka().create_topic(&shop.topic(), 3, &[]);
    shop.produce(&events[100..]);
    let second = recipe(&shop, program);
    shop.wait_for_applied(300);
    second.stop();
    shop.check(&events);
}

fn recipes() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/recipes"))
}

/// Runs a check for the recipe in Python. The interpreter is Debian's, which has the packages.
fn with_python(check: fn(&[&str])) {
    let program = recipes().join("python/consumer.py");
    check(&["/usr/bin/python3", program.to_str().unwrap()]);
}

#[test]
fn the_recipe_in_python_survives_kills_and_freezes() {
    with_python(survives_kills_and_freezes);
}

#[test]
fn the_recipe_in_python_waits_for_a_database_that_is_away() {
    with_python(waits_for_a_database_that_is_away);
}

#[test]
fn the_recipe_in_python_survives_a_failover() {
    with_python(survives_a_failover);
}

#[test]
fn the_recipe_in_python_reads_a_topic_that_was_created_again() {
    with_python(reads_a_topic_that_was_created_again);
}

/// Runs all checks.
fn holds(program: &[&str]) {
    survives_kills_and_freezes(program);
    waits_for_a_database_that_is_away(program);
    survives_a_failover(program);
    reads_a_topic_that_was_created_again(program);
}

/// Copies the recipe's folder and builds it there; the folder, which is removed in the end.
fn built(language: &str, commands: &[&[&str]]) -> Watcher {
    let folder = Watcher::new("outboxd-recipe-");
    let copied = Command::new("cp").arg("-r").arg(recipes().join(language)).arg(folder.folder()).status();
    assert!(copied.unwrap().success());
    for command in commands {
        let mut build = Command::new(command[0]);
        let status = build.args(&command[1..]).current_dir(folder.folder().join(language)).status();
        assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "{command:?}: {status:?}");
    }
    folder
}

#[test]
#[ignore = "builds with Go's modules: .ci/campaign runs it"]
fn the_recipe_in_go_holds() {
    let folder = built("go", &[&["go", "build", "-buildvcs=false", "-o", "consumer", "."]]);
    holds(&[folder.folder().join("go/consumer").to_str().unwrap()]);
}

#[test]
#[ignore = "builds with npm, and librdkafka where its binary cannot be fetched: .ci/campaign runs it"]
fn the_recipe_in_typescript_holds() {
    let install = ["env", "CKJS_LINKING=dynamic", "npm", "ci", "--no-audit", "--no-fund"];
    let folder = built("typescript", &[&install, &["npm", "run", "build"]]);
    holds(&["node", folder.folder().join("typescript/consumer.js").to_str().unwrap()]);
}

#[test]
#[ignore = "builds with Maven: .ci/campaign runs it"]
fn the_recipe_in_java_holds() {
    let folder = built("java", &[&["mvn", "-q", "compile"]]);
    let target = folder.folder().join("java/target");
    let classes = format!("{0}/classes:{0}/lib/*", target.display());
    holds(&["java", "-cp", &classes, "Main"]);
}

#[test]
fn no_file_of_a_recipe_has_more_than_80_lines() {
    let files = ["python/consumer.py", "typescript/consumer.ts", "go/inbox.go", "go/main.go"];
    let java = ["Inbox", "Main"].map(|name| format!("java/src/main/java/{name}.java"));
    for file in files.map(str::to_owned).iter().chain(&java) {
        let text = fs::read_to_string(recipes().join(file)).unwrap();
        assert!(text.lines().count() <= 80, "{file}: {}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 150), "{file}: a line is too long");
    }
}

/// What the crate would do beside it: a session that freezes in a transaction is ended, and its holder refused.
#[test]
fn a_holder_that_is_frozen_in_its_transaction_is_ended_by_the_next_one() {
    let shop = Shop::open(postgres18(), kafka());
    shop.execute(outboxd_inbox::postgres::SCHEMA);
    let mut drivers = JoinSet::new();
    let mut session = || -> Client {
        shop.block_on(async {
            let (client, connection) = tokio_postgres::connect(shop.url(), NoTls).await.unwrap();
            drivers.spawn(async move { drop(connection.await) });
            client
        })
    };
    let (one, other) = (session(), session());
    shop.block_on(async {
        let take = "SELECT partition_id, epoch, next_offset FROM inbox_take('c', 't', 0)";
        let held = one.query_one(take, &[]).await.unwrap();
        let (id, epoch): (i32, i64) = (held.get(0), held.get(1));
        one.batch_execute("BEGIN").await.unwrap();
        let enter = "SELECT inbox_enter($1, $2)";
        assert!(one.query_one(enter, &[&id, &epoch]).await.unwrap().get::<_, bool>(0));
        one.query_one("SELECT inbox_claim('c', 't', 'a')", &[]).await.unwrap();
        // It has written the partition's row too.
        one.query_one("SELECT inbox_ended($1, $2, 5)", &[&id, &epoch]).await.unwrap();
        let taken = other.query_one(take, &[]).await.unwrap();
        assert_eq!((taken.get::<_, i32>(0), taken.get::<_, i64>(1)), (id, epoch + 1));
        assert!(one.batch_execute("COMMIT").await.is_err(), "its session is ended");
        assert!(!other.query_one(enter, &[&id, &epoch]).await.unwrap().get::<_, bool>(0));
        let claim = "SELECT inbox_claim('c', 't', 'a')";
        let claimed = [other.query_one(claim, &[]).await, other.query_one(claim, &[]).await];
        assert_eq!(
            claimed.map(|row| row.unwrap().get::<_, bool>(0)),
            [true, false],
            "what it had begun was undone"
        );
        other.query_one("SELECT inbox_ended($1, $2, 7)", &[&id, &(epoch + 1)]).await.unwrap();
        let again = other.query_one(take, &[]).await.unwrap();
        assert_eq!(again.get::<_, Option<i64>>(2), Some(7));
    });
}
