//! `docs/failure-modes.md` names tests that exist, and has a row for each failure mode.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const TABLE: &str = include_str!("../../docs/failure-modes.md");

/// Minimum number of rows with a test.
const TESTED_MIN: usize = 165;

/// A line of the table.
struct Row {
    id: String,
    what: String,
    /// Names of tests.
    tests: Vec<String>,
    /// Remaining text.
    why: String,
}

#[test]
fn each_failure_mode_has_one_row() {
    let ids: Vec<String> = rows().into_iter().map(|row| row.id).collect();
    assert_eq!(ids.first().map(String::as_str), Some("A1"));
    for pair in ids.windows(2) {
        let (group, number) = parts(&pair[0]);
        let follows = [(group, number + 1), (char::from(u8::try_from(group).unwrap() + 1), 1)];
        assert!(
            follows.contains(&parts(&pair[1])),
            "{} after {}: in order, none twice, none left out",
            pair[1],
            pair[0]
        );
    }
}

/// Returns the letter of the group and the number in it.
fn parts(id: &str) -> (char, u32) {
    let group = id.chars().next().unwrap();
    (group, id.trim_start_matches(group).parse().unwrap())
}

#[test]
fn each_row_says_what_happens_and_shows_it_or_says_why_not() {
    for row in rows() {
        assert!(!row.what.is_empty() && row.what != "—", "{}: nothing is said", row.id);
        let reason = row.why.strip_prefix("—: ").is_some_and(|reason| !reason.is_empty());
        assert!(!row.tests.is_empty() || reason, "{}: neither a test nor a reason", row.id);
    }
}

#[test]
fn each_test_that_is_named_exists() {
    let missing: Vec<String> = rows()
        .iter()
        .flat_map(|row| row.tests.iter().map(move |test| (row, test)))
        .filter(|(_, test)| !exists(test))
        .map(|(row, test)| format!("{}: {test}", row.id))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn enough_rows_have_a_test() {
    let rows = rows();
    let untested: BTreeSet<&str> =
        rows.iter().filter(|row| row.tests.is_empty()).map(|row| row.id.as_str()).collect();
    let tested = rows.len() - untested.len();
    println!("{tested} of {} rows have a test; without: {untested:?}", rows.len());
    assert!(tested >= TESTED_MIN, "{tested} have; without: {untested:?}");
}

/// The reader finds what it must: else the tests above could pass for nothing.
#[test]
fn what_does_not_exist_is_found_out() {
    assert!(exists("checks/failure_modes::what_does_not_exist_is_found_out"));
    assert!(exists("pg-replication/wal/lsn::postgres_forms_are_read") && exists("cases/relay/defaults"));
    for wrong in [
        "pg-replication/wal/lsn::postgres_forms",
        "pg-replication/wal/lsn::new",
        "pg-replication/wal/nowhere::postgres_forms_are_read",
        "cases/relay/none",
    ] {
        assert!(!exists(wrong), "{wrong}");
    }
}

/// A panic in a task, or in a callback that librdkafka calls, must not leave a process that lives on by half.
#[test]
fn a_panic_ends_the_process() {
    let manifest = include_str!("../../Cargo.toml");
    let release = manifest.split("[profile.release]").nth(1).unwrap();
    let release = release.split("\n[").next().unwrap();
    assert!(release.lines().any(|line| line == "panic = \"abort\""), "{release}");
}

/// What the image is that people run.
#[test]
fn the_image_has_no_shell_and_does_not_run_as_root() {
    let stages = include_str!("../../docker/Dockerfile");
    let last = stages.rsplit("\nFROM ").next().unwrap();
    let instruction = |name: &str| last.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    assert!(last.starts_with("gcr.io/distroless/"), "{last}");
    assert_eq!((instruction("USER "), instruction("STOPSIGNAL ")), ("65532:65532", "SIGTERM"));
    assert!(
        !last.contains("RUN ") && !last.contains("ARG "),
        "nothing is run in it, and nothing handed in: {last}"
    );
    let secrets = ["PASSWORD", "SECRET", "TOKEN"];
    assert!(secrets.iter().all(|word| !stages.to_uppercase().contains(word)), "no secret is in a layer");
}

fn rows() -> Vec<Row> {
    TABLE.lines().filter_map(row).collect()
}

/// Parses `| id | failure | behaviour | tests |`; headings have no id.
fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [id, _, what, tests] = cells[..] else { return None };
    let named = tests.split('`').skip(1).step_by(2);
    id.starts_with(|first: char| first.is_ascii_uppercase()).then(|| Row {
        id: id.to_owned(),
        what: what.to_owned(),
        tests: named.map(str::to_owned).collect(),
        why: tests.to_owned(),
    })
}

/// Returns whether `path::name` is a function with a test's attribute, or a path without name a case.
pub(super) fn exists(test: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some((path, name)) = test.split_once("::") else {
        return root.join("tests").join(format!("{test}.yaml")).is_file();
    };
    let mut places = vec![root.join("tests").join(format!("{path}.rs"))];
    let in_crate =
        path.split_once('/').map(|(name, rest)| (root.join("crates").join(name).join("src"), rest));
    for (source, path) in in_crate.into_iter().chain([(root.join("src"), path)]) {
        places.extend([source.join(format!("{path}.rs")), source.join(path).join("mod.rs")]);
    }
    let text = places.iter().find_map(|place| fs::read_to_string(place).ok()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let function = format!("fn {name}(");
    let found = lines
        .iter()
        .position(|line| line.starts_with(&function) || line.starts_with(&format!("async {function}")));
    // Attributes and comments stand between `#[test]` and the function.
    found.is_some_and(|at| {
        let above = lines.iter().take(at).rev();
        let mut attributes = above.take_while(|line| line.starts_with('#') || line.starts_with("//"));
        attributes.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}
