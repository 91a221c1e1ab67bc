//! Debezium's own tests: `tests/cases/debezium-suite.txt` has their names, `tests/cases/debezium-tests.tsv` has what covers each
//! or why it cannot apply, and `docs/debezium-suite.md` is the table of both.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const DECISIONS: &str = include_str!("../cases/debezium-tests.tsv");
const SUITE: &str = include_str!("../cases/debezium-suite.txt");
const PAGE: &str = "docs/debezium-suite.md";
const BEGIN: &str =
    "<!-- The tables below are generated: UPDATE_DOCS=1 cargo test --test checks inventory -->\n";
const UNCOVERED: &str = "no case yet";
/// Places in which a case or a unit test may name the tests that it shows.
const PLACES: [&str; 3] = ["tests/cases", "src", "crates"];
const CODE: [&str; 3] = ["tests/e2e", "src", "crates"];

#[test]
fn each_test_of_debezium_that_is_listed_is_shown_or_has_a_reason() {
    let shown = shown();
    let unshown: Vec<&str> = decisions()
        .into_iter()
        .filter(|(name, reason)| reason.is_empty() && !shown.contains_key(*name))
        .map(|(name, _)| name)
        .collect();
    assert!(unshown.is_empty(), "no case shows {unshown:?}");
}

#[test]
fn what_cases_show_is_in_the_list_without_a_reason() {
    let listed = decisions();
    let unknown: Vec<String> = shown()
        .into_keys()
        .filter(|name| listed.get(name.as_str()).is_none_or(|why| !why.is_empty()))
        .collect();
    assert!(unknown.is_empty(), "not in the list, or with a reason: {unknown:?}");
}

#[test]
fn each_listed_name_is_a_test_or_a_class_of_the_suite() {
    let known: BTreeSet<&str> = suite().flat_map(|test| [test, class_of(test)]).collect();
    let unknown: Vec<&str> = decisions().into_keys().filter(|name| !known.contains(name)).collect();
    assert!(unknown.is_empty(), "not in Debezium's suite: {unknown:?}");
}

/// A decision names tests as `module::function` and cases as `case: name`.
#[test]
fn what_covers_a_test_exists() {
    let code: String = CODE.iter().flat_map(|place| files(&root(place))).map(|path| read(&path)).collect();
    let cases: BTreeSet<String> = files(&root("tests/cases")).iter().map(|path| stem(path)).collect();
    let is_missing = |reason: &str| {
        let words = reason.split(|c: char| !(c.is_alphanumeric() || "_:/-".contains(c)));
        let functions = words.filter_map(|word| word.rsplit_once("::")).map(|(_, function)| function);
        let named = reason.strip_prefix("case: ").into_iter().flat_map(|names| names.split(", "));
        functions.into_iter().any(|function| !code.contains(&format!("fn {function}(")))
            || named.into_iter().any(|name| !cases.contains(name))
    };
    let missing: Vec<_> = decisions().into_iter().filter(|(_, reason)| is_missing(reason)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_page_has_every_test_of_the_suite() {
    let page = read(&root(PAGE));
    let (head, table) = page.split_once(BEGIN).unwrap();
    let generated = tables();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root(PAGE), format!("{head}{BEGIN}{generated}")).unwrap();
        return;
    }
    assert!(table == generated, "{PAGE} is stale: UPDATE_DOCS=1 cargo test --test checks inventory");
}

/// Returns one table for each class.
fn tables() -> String {
    let (decisions, shown) = (decisions(), shown());
    let (mut text, mut class) = (String::new(), "");
    for test in suite() {
        if class_of(test) != class {
            class = class_of(test);
            write!(text, "\n## {class}\n\n| test | covered by, or why not |\n| --- | --- |\n").unwrap();
        }
        let named = [test, class].into_iter().find_map(|name| Some((name, *decisions.get(name)?)));
        let verdict = match named {
            None => UNCOVERED.to_owned(),
            Some((name, "")) => {
                format!("case: {}", shown.get(name).map_or_else(String::new, |cases| cases.join(", ")))
            }
            Some((_, reason)) => reason.replace('|', "\\|"),
        };
        writeln!(text, "| {} | {verdict} |", test.rsplit('.').next().unwrap_or(test)).unwrap();
    }
    text
}

fn suite() -> impl Iterator<Item = &'static str> {
    SUITE.lines().filter(|line| !line.starts_with('#'))
}

fn class_of(test: &str) -> &str {
    test.split('.').next().unwrap_or(test)
}

/// Returns each listed test or class: nothing if a case shows it, else the test that covers it or the reason why it
/// cannot apply.
fn decisions() -> BTreeMap<&'static str, &'static str> {
    DECISIONS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once('\t').unwrap())
        .collect()
}

/// Returns every name that looks like one of Debezium's test classes, with its method, and the files that name it.
fn shown() -> BTreeMap<String, Vec<String>> {
    let classes: BTreeSet<&str> =
        decisions().into_keys().map(|name| name.split(['.', ' ']).next().unwrap_or(name)).collect();
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in PLACES.iter().flat_map(|place| files(&root(place))) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_'));
        let named: BTreeSet<&str> = words
            .map(|word| word.trim_end_matches('.'))
            .filter(|word| classes.contains(class_of(word)))
            .collect();
        for name in named {
            names.entry(name.to_owned()).or_default().push(stem(&path));
        }
    }
    names
}

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns all files below a folder except the lists themselves, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false if path.ends_with("debezium-tests.tsv") || path.ends_with("debezium-suite.txt") => {}
            false => files.push(path),
        }
    }
    files
}
