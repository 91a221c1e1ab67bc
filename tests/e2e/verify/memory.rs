use std::fs;
use std::time::{Duration, Instant};

use super::YES;
use crate::support::backlog::Backlog;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

/// By hand, with more rows: `VERIFY_ROWS=5000000 cargo test --release --test e2e verify::memory -- --ignored --nocapture`
#[test]
#[ignore = "takes minutes; what it measures is in docs/verify.md"]
fn memory_does_not_grow_with_the_number_of_rows() {
    let count: u64 = std::env::var("VERIFY_ROWS").map_or(1_000_000, |count| count.parse().unwrap());
    let db = Outbox::create(postgres18());
    let config = with(db.config(kafka()), &[("outboxd.identity.headers", "true")]);
    kafka().create_topic(&db.topic(Backlog::TYPE), 6, &[]);
    Backlog { key_count: 10_000 }.insert(&db, 0..count, 10_000);
    let mut running = Relay::start(&config);
    let is_streaming = || db.slot().is_some_and(|slot| slot.active && slot.confirmed_flush_lsn.is_some());
    eventually(Duration::from_secs(3_000), "the snapshot is sent", is_streaming);
    db.wait_until_confirmed_to(db.current_wal_lsn(), Duration::from_secs(3_000));
    running.terminate();
    let watcher = Watcher::new("outboxd-verify-");
    let file = watcher.folder().join("config.json");
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let begun = Instant::now();
    let mut command = Relay::command(&["verify", "-c", file.to_str().unwrap(), "--json"]);
    let mut peak_kb = 0;
    eventually(Duration::from_secs(3_000), "it has compared everything", || {
        let status = fs::read_to_string(format!("/proc/{}/status", command.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        peak_kb = line.trim().trim_end_matches(" kB").parse().unwrap_or(peak_kb);
        !command.is_running()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let exit = command.wait_for_exit(DEADLINE);
    println!("{count} rows: {seconds:.1} s, at most {} MB\n{}", peak_kb / 1_000, command.stdout());
    assert_eq!(exit, YES);
    assert!(peak_kb < 250_000, "{peak_kb} kB");
}
