//! The tables of the README name tests that exist.

use std::fs;
use std::path::Path;

const README: &str = include_str!("../../README.md");

/// Folders of the test modules.
const FOLDERS: [&str; 4] = ["tests/e2e", "tests/keys", "src", "../tests/e2e"];

/// A line of a table: its first cell, and what its last one names as tests.
struct Row {
    id: String,
    tests: Vec<String>,
}

#[test]
fn each_promise_and_each_defect_names_tests_that_exist() {
    let numbered = |letter, count| (1..=count).map(move |number| format!("{letter}{number}"));
    let expected: Vec<String> = numbered('G', 12).chain(numbered('D', 16)).collect();
    let rows = rows();
    let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, expected, "in this order, none twice");
    for Row { id, tests } in &rows {
        assert!(!tests.is_empty(), "{id} names no test");
        let missing: Vec<_> = tests.iter().filter(|test| !exists(test)).collect();
        assert!(missing.is_empty(), "{id}: {missing:?}");
    }
}

/// The test above could pass for nothing otherwise.
#[test]
fn what_does_not_exist_is_found_out() {
    assert!(exists("named::what_does_not_exist_is_found_out"));
    assert!(exists("core::tests::model::keys_keep_their_order_and_nothing_is_lost"));
    for wrong in ["named::what_does_not", "named::exists", "nowhere::what_does_not_exist_is_found_out"] {
        assert!(!exists(wrong), "{wrong}");
    }
}

fn rows() -> Vec<Row> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let (id, last) = (*cells.first()?, *cells.last()?);
        let number = id.strip_prefix(['G', 'D'])?;
        let is_number = !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit());
        let named = last.split('`').skip(1).step_by(2).map(str::to_owned);
        is_number.then(|| Row { id: id.to_owned(), tests: named.collect() })
    };
    README.lines().filter_map(row).collect()
}

/// Returns whether `path::name` is a function with a test's attribute.
fn exists(test: &str) -> bool {
    let Some((path, name)) = test.rsplit_once("::") else { return false };
    let file = format!("{}.rs", path.replace("::", "/"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    FOLDERS.iter().any(|folder| {
        let text = fs::read_to_string(root.join(folder).join(&file)).unwrap_or_default();
        has_test(&text, name)
    })
}

/// Attributes and comments stand between `#[test]` and the function.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let function = format!("fn {name}(");
    let is_it = |line: &&str| line.starts_with(&function) || line.starts_with(&format!("async {function}"));
    lines.iter().position(is_it).is_some_and(|at| {
        let above = lines.iter().take(at).rev();
        let mut attributes = above.take_while(|line| line.starts_with('#') || line.starts_with("//"));
        attributes.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}
