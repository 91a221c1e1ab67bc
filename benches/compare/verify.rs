//! `outboxd verify` over many rows: how long it takes, and how much memory.

use std::fs;
use std::time::{Duration, Instant};

use crate::options::Options;
use crate::support::backlog::Backlog;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

const WITHIN: Duration = Duration::from_secs(3_000);

/// Returns whether every record was found.
pub(crate) fn run(options: &Options) -> bool {
    let db = Outbox::create(postgres18());
    let config = with(db.config(kafka()), &[("outboxd.identity.headers", "true")]);
    kafka().create_topic(&db.topic(Backlog::TYPE), 6, &[]);
    Backlog { key_count: 10_000 }.insert(&db, 0..options.rows, 10_000);
    let mut relay = Relay::start(&config);
    let is_streaming = || db.slot().is_some_and(|slot| slot.active && slot.confirmed_flush_lsn.is_some());
    eventually(WITHIN, "the snapshot is sent", is_streaming);
    db.wait_until_confirmed_to(db.current_wal_lsn(), WITHIN);
    relay.terminate();
    relay.wait_for_exit(DEADLINE);
    let watcher = Watcher::new("outboxd-verify-");
    let file = watcher.folder().join("config.json");
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let begun = Instant::now();
    let mut command = Relay::command(&["verify", "-c", file.to_str().unwrap(), "--json"]);
    let mut peak_kb = 0;
    eventually(WITHIN, "it has compared everything", || {
        let status = fs::read_to_string(format!("/proc/{}/status", command.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        peak_kb = line.trim().trim_end_matches(" kB").parse().unwrap_or(peak_kb);
        !command.is_running()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let exit = command.wait_for_exit(DEADLINE);
    println!("{} rows: {seconds:.1} s, {} MiB at most\n{}", options.rows, peak_kb / 1_024, command.stdout());
    exit == 0
}
