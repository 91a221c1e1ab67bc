//! Messages that real servers sent, decoded: `tests/golden/pgoutput/<case>.<server>.hex` against
//! `<case>.<server>.expected`.
//!
//! `UPDATE_GOLDEN=1` rewrites the expectations; `tests/golden/capture.sh` records the messages again.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use pg_replication::pgoutput::{ColumnValue, Message, OldTuple, Relation, Tuple, decode};
use pg_replication::wal::Lsn;

#[test]
fn captured_messages_are_decoded_as_expected() {
    let captures = files("hex");
    assert!(!captures.is_empty(), "no captures found");
    let update = env::var_os("UPDATE_GOLDEN").is_some();
    let wrong: Vec<String> = captures.iter().filter_map(|capture| check(capture, update)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_case_was_captured_from_every_server_and_nothing_is_left_over() {
    let cases = files("sql");
    for server in ["pg15", "pg18"] {
        for case in &cases {
            let capture = case.with_extension(format!("{server}.hex"));
            assert!(capture.exists(), "{} is missing: run capture.sh", capture.display());
        }
    }
    for file in files("hex").iter().chain(&files("expected")) {
        let case = file.with_extension("").with_extension("sql");
        assert!(case.exists(), "{} belongs to no case", file.display());
    }
}

/// Compares one capture with its expectation, or rewrites that; returns the difference.
fn check(capture: &Path, update: bool) -> Option<String> {
    let expectation = capture.with_extension("expected");
    let found: String = fs::read_to_string(capture).unwrap().lines().map(render_line).collect();
    if update {
        fs::write(&expectation, &found).unwrap();
        return None;
    }
    let expected = fs::read_to_string(&expectation).unwrap_or_default();
    if found == expected {
        return None;
    }
    let at = found.lines().zip(expected.lines()).take_while(|(found, expected)| found == expected).count();
    let line = |text: &str| text.lines().nth(at).unwrap_or("(nothing)").to_owned();
    let (file, number) = (expectation.display(), at + 1);
    Some(format!("{file}:{number}\n  expected {}\n  found    {}", line(&expected), line(&found)))
}

fn files(extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pgoutput");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    files
}

fn render_line(line: &str) -> String {
    let (lsn, digits) = line.split_once(' ').unwrap();
    let lsn: Lsn = lsn.parse().unwrap();
    match decode(&unhex(digits)) {
        Ok(message) => format!("{lsn} {}\n", render(&message)),
        Err(error) => format!("{lsn} error: {error}\n"),
    }
}

fn unhex(digits: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.as_bytes().chunks(2).map(byte).collect()
}

fn render(message: &Message<'_>) -> String {
    match message {
        Message::Begin(begin) => {
            let (lsn, time, xid) = (begin.final_lsn, begin.commit_time.unix_us(), begin.xid);
            format!("begin final_lsn={lsn} commit_time_us={time} xid={xid}")
        }
        Message::Commit(commit) => {
            let (lsn, end, time) = (commit.commit_lsn, commit.end_lsn, commit.commit_time.unix_us());
            format!("commit commit_lsn={lsn} end_lsn={end} commit_time_us={time}")
        }
        Message::Origin { lsn, name } => format!("origin lsn={lsn} name={name:?}"),
        Message::Relation(relation) => render_relation(relation),
        Message::Type { oid, schema, name } => format!("type {oid} {schema:?}.{name:?}"),
        Message::Insert { relation, new } => format!("insert {relation}{}", render_tuple("new", new)),
        Message::Update { relation, old, new } => {
            let old = old.as_deref().map(render_old).unwrap_or_default();
            format!("update {relation}{old}{}", render_tuple("new", new))
        }
        Message::Delete { relation, old } => format!("delete {relation}{}", render_old(old)),
        Message::Truncate { relations, cascade, restart_identity } => {
            let relations: Vec<u32> = relations.iter().map(|oid| oid.0).collect();
            format!("truncate {relations:?} cascade={cascade} restart_identity={restart_identity}")
        }
        Message::LogicalMessage(message) => {
            let (lsn, prefix, content) = (message.lsn, message.prefix, message.content.escape_ascii());
            let transactional = message.transactional;
            format!("message lsn={lsn} transactional={transactional} prefix={prefix:?} content=\"{content}\"")
        }
    }
}

fn render_relation(relation: &Relation) -> String {
    let Relation { oid, schema, table, replica_identity, columns } = relation;
    let mut text = format!("relation {oid} {schema:?}.{table:?} identity={replica_identity:?}");
    for column in columns {
        let identity = if column.in_identity { " in identity" } else { "" };
        let (name, oid, modifier) = (&column.name, column.type_oid, column.type_modifier);
        write!(text, "\n    column {name:?} type={oid} modifier={modifier}{identity}").unwrap();
    }
    text
}

fn render_old(old: &OldTuple<'_>) -> String {
    match old {
        OldTuple::Key(key) => render_tuple("old key", key),
        OldTuple::Full(row) => render_tuple("old row", row),
    }
}

fn render_tuple(title: &str, tuple: &Tuple<'_>) -> String {
    let columns: Vec<String> = tuple.columns().iter().map(render_column).collect();
    format!("\n    {title}: {}", columns.join(", "))
}

/// Renders a column. A long value is abbreviated to its beginning and its length.
fn render_column(column: &ColumnValue<'_>) -> String {
    let (kind, bytes) = match column {
        ColumnValue::Null => return "null".to_owned(),
        ColumnValue::UnchangedToast => return "unchanged".to_owned(),
        ColumnValue::Text(text) => ("", text),
        ColumnValue::Binary(bytes) => ("binary ", bytes),
    };
    match str::from_utf8(bytes) {
        Ok(text) if kind.is_empty() && bytes.len() <= 100 => format!("{text:?}"),
        _ if bytes.len() <= 100 => format!("{kind}\"{}\"", bytes.escape_ascii()),
        _ => format!("{kind}\"{}\"… ({} bytes)", bytes.get(..8).unwrap().escape_ascii(), bytes.len()),
    }
}
