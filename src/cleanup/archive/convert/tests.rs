//! A crash after each step, and what the next start makes of it.

use std::collections::BTreeSet;

use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::record::RowAccessor as _;

use super::*;
use crate::cleanup::archive::column::{Column, Kind};
use crate::cleanup::archive::segment::{Header, SEGMENT_SECONDS, SUFFIX};

const NAME: &str = "public.outbox-1000";

fn header(since: u64) -> Header {
    let columns = vec![Column { name: "a".to_owned(), kind: Kind::Text, nullable: false }];
    Header { table: "public.outbox".to_owned(), columns, since: Some(since) }
}

fn row(text: &str) -> String {
    format!("{{\"a\":\"{text}\"}}")
}

fn begun(folder: &Path) -> Segment {
    let segment = Segment::open(folder, header(1_000)).unwrap();
    segment.append(&[row("1"), row("2")]).unwrap();
    segment
}

fn names(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn rows(file: &Path) -> Vec<String> {
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(|row| row.unwrap().get_string(0).unwrap().clone()).collect()
}

/// Checks that nothing is left to do, and the rows are where they must be.
fn is_done(folder: &Path, case: &str) {
    let done = convert_all(folder, Which::All, &CancellationToken::new()).unwrap();
    assert!(done.iter().all(|converted| converted.file.is_ok()), "{case}: {done:?}");
    let file = format!("{NAME}.parquet");
    assert_eq!(names(folder), BTreeSet::from([file.clone()]), "{case}");
    assert_eq!(rows(&folder.join(file)), ["1", "2"], "{case}");
}

#[test]
fn a_crash_after_any_step_loses_no_row_and_leaves_none_twice() {
    // The rows are read, then written.
    let steps = [Step::Row, Step::Row, Step::Begun, Step::Row, Step::Row].into_iter().chain([
        Step::Written,
        Step::Synced,
        Step::Named,
        Step::Removed,
    ]);
    for (at, step) in steps.enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let segment = begun(folder.path());
        let mut seen = Vec::new();
        let crashed = convert(&segment, &mut |step| {
            seen.push(step);
            if seen.len() > at { Err(ConvertError::Stopped) } else { Ok(()) }
        });
        assert!(matches!(crashed, Err(ConvertError::Stopped)), "{step:?}");
        assert_eq!(seen.last(), Some(&step));
        // The lock goes with the process.
        drop(segment);
        is_done(folder.path(), &format!("{at}: {step:?}"));
    }
}

#[test]
fn what_a_crash_leaves_is_taken_up_or_away() {
    type Leave = fn(&Path) -> io::Result<()>;
    let cases: [(&str, Leave); 5] = [
        ("a segment without a line", |folder| fs::write(folder.join("public.outbox-5.parquet.ndjson"), "")),
        ("a segment with half a first line", |folder| {
            fs::write(folder.join("public.outbox-5.parquet.ndjson"), "{\"table\":")
        }),
        ("a half row, which is still in the table", |folder| {
            let path = folder.join(format!("{NAME}{SUFFIX}"));
            let text = fs::read_to_string(&path)? + "{\"a\":\"3";
            fs::write(path, text)
        }),
        ("half of a Parquet file", |folder| fs::write(folder.join(format!(".{NAME}.parquet.part")), "PAR1")),
        ("half of a Parquet file whose segment somebody took away", |folder| {
            fs::write(folder.join(".other-1.parquet.part"), "PAR1")
        }),
    ];
    for (case, leave) in cases {
        let folder = tempfile::tempdir().unwrap();
        drop(begun(folder.path()));
        leave(folder.path()).unwrap();
        is_done(folder.path(), case);
    }
}

#[test]
fn a_file_with_other_rows_is_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let theirs = folder.path().join(format!("{NAME}.parquet"));
    fs::write(&theirs, "theirs").unwrap();
    let file = finish(&begun(folder.path()), &stop).unwrap().unwrap();
    assert_eq!(file, folder.path().join(format!("{NAME}.2.parquet")));
    assert_eq!(
        (rows(&file), fs::read(&theirs).unwrap()),
        (vec!["1".to_owned(), "2".to_owned()], b"theirs".to_vec())
    );
    // The same rows again, as of a partition that did not go: the file has them.
    assert_eq!(finish(&begun(folder.path()), &stop).unwrap().unwrap(), file);
    assert_eq!(names(folder.path()).len(), 2);
}

#[test]
fn only_files_without_a_writer_become_parquet_files() {
    let folder = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let converted = |which| convert_all(folder.path(), which, &stop).unwrap().len();
    let segment = begun(folder.path());
    assert_eq!(converted(Which::All), 0, "somebody has it");
    drop(segment);
    assert_eq!(converted(Which::Due(1_000 + SEGMENT_SECONDS - 1)), 0, "it is young");
    // The next pass continues with it.
    let again = Segment::open(folder.path(), header(1_001)).unwrap();
    again.append(&[row("3")]).unwrap();
    // Another process begins one of its own.
    drop(Segment::open(folder.path(), header(1_001)).unwrap());
    drop(again);
    // So does an archive with other columns.
    let mut other = header(1_001);
    other.columns[0].nullable = true;
    drop(Segment::open(folder.path(), other).unwrap());
    assert_eq!(names(folder.path()).len(), 3);
    assert_eq!(converted(Which::Due(1_000 + SEGMENT_SECONDS)), 1);
    assert_eq!(rows(&folder.path().join(format!("{NAME}.parquet"))), ["1", "2", "3"]);
    converted(Which::All);
    assert_eq!(names(folder.path()).len(), 1, "what has no row becomes no file");
}

#[test]
fn a_stop_is_obeyed_and_the_rest_is_done_later() {
    let folder = tempfile::tempdir().unwrap();
    drop(begun(folder.path()));
    let stop = CancellationToken::new();
    stop.cancel();
    let left = convert_all(folder.path(), Which::All, &stop).unwrap();
    assert!(matches!(left[0].file, Err(ConvertError::Stopped)));
    is_done(folder.path(), "stopped");
}
