//! The process has less than it needs.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

/// Whatever cannot be opened, the process ends, and logs the reason before.
#[test]
fn without_file_descriptors_it_ends_and_does_not_live_on_by_half() {
    let db = Outbox::create(postgres18());
    let watcher = Watcher::new("outboxd-limits-");
    let config = watcher.folder().join("config.json");
    fs::write(&config, serde_json::to_vec(&db.config(kafka())).unwrap()).unwrap();
    let script = r#"ulimit -n "$2"; exec "$0" run -c "$1" 2>"$3""#;
    let mut running: Vec<(u32, Child)> = [8, 11, 14]
        .into_iter()
        .map(|limit| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script, env!("CARGO_BIN_EXE_outboxd")]).arg(&config).arg(limit.to_string());
            command.arg(watcher.folder().join(limit.to_string()));
            (limit, command.stdin(Stdio::null()).spawn().unwrap())
        })
        .collect();
    for (limit, child) in &mut running {
        let mut status = None;
        eventually(DEADLINE, "it has left", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        assert!(!status.unwrap().success(), "with {limit}");
    }
    let said = |limit: u32| fs::read_to_string(watcher.folder().join(limit.to_string())).unwrap();
    assert!([8, 11, 14].iter().any(|limit| said(*limit).contains("Too many open files")), "{}", said(14));
    assert!(db.leftovers().is_empty(), "{:?}", db.leftovers());
}
