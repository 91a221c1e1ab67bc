use std::fs::{self, OpenOptions};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::*;

/// So long the relay may wait before the test says that it did.
const DEADLINE: Duration = Duration::from_secs(10);

/// Whether something else is done while rows are written to a file that a thread holds back: a lock stands for a slow disk.
fn others_go_on(archive: &mut Archive, file: &std::path::Path) -> bool {
    let held = OpenOptions::new().append(true).create(true).open(file).unwrap();
    held.lock().unwrap();
    let (tell, told) = channel();
    let holder = thread::spawn(move || {
        let is_told = told.recv_timeout(DEADLINE).is_ok();
        held.unlock().unwrap();
        is_told
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let keeping = archive.keep(vec!["{}".to_owned()]);
        let (kept, ()) = tokio::join!(keeping, async { tell.send(()).unwrap_or_default() });
        kept.unwrap();
    });
    holder.join().unwrap()
}

#[test]
fn a_slow_disk_does_not_hold_the_relay_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outbox.ndjson");
    let mut archive = Archive::Lines(Arc::new(Lines::open(&path).unwrap()));
    assert!(others_go_on(&mut archive, &path));
    assert_eq!(fs::read_to_string(path).unwrap(), "{}\n");
}
