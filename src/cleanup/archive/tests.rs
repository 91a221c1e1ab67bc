//! Tests of archives.

use std::fs::{self, OpenOptions};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::column::{Column, Kind};
use super::segment::SUFFIX;
use super::*;

/// Longest wait of the relay until the test reports it.
const DEADLINE: Duration = Duration::from_secs(10);

/// Returns whether another task runs while rows are written to a file that a thread locks: the lock stands
/// for a slow disk.
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
    let mut archive = Archive::Lines(path.clone(), None);
    assert!(others_go_on(&mut archive, &path));
    assert_eq!(fs::read_to_string(path).unwrap(), "{}\n");
}

#[test]
fn a_file_of_lines_is_there_when_it_has_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outbox.ndjson");
    let mut archive = Archive::Lines(path.clone(), None);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        archive.keep(Vec::new()).await.unwrap();
        assert!(!path.exists() && archive.files().is_empty());
        for row in ["1", "2"] {
            archive.keep(vec![row.to_owned()]).await.unwrap();
        }
    });
    assert_eq!(archive.files(), std::slice::from_ref(&path));
    assert_eq!(fs::read_to_string(path).unwrap(), "1\n2\n");
}

#[test]
fn segments_are_begun_with_the_first_row_and_closed() {
    let folder = tempfile::tempdir().unwrap();
    let columns = vec![Column { name: "a".to_owned(), kind: Kind::Int4, nullable: false }];
    let mut segments = Segments::without_server(folder.path().to_owned(), "public.o/1", columns);
    let stop = CancellationToken::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        segments.close(&stop).await.unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        segments.keep(vec!["{\"a\":\"1\"}".to_owned()]).await.unwrap();
        segments.rotate(&stop).await.unwrap();
        let open = segments.files();
        assert!(open[0].display().to_string().ends_with(SUFFIX), "{open:?}");
        segments.close(&stop).await.unwrap();
        segments.keep(vec!["{\"a\":\"2\"}".to_owned()]).await.unwrap();
        segments.close(&stop).await.unwrap();
    });
    let files = segments.files();
    assert_eq!(files.len(), 2);
    assert!(
        files.iter().all(|file| file.extension().is_some_and(|ending| ending == "parquet") && file.exists())
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}
