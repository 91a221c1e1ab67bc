//! Debezium's own tests, as `tests/cases/debezium-tests.tsv` lists them: each is shown by a case or a unit test here, or
//! there is a reason why not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const LIST: &str = include_str!("../cases/debezium-tests.tsv");
/// Where a case or a unit test may name the tests that it shows.
const PLACES: [&str; 2] = ["tests/cases", "src"];

#[test]
fn each_test_of_debezium_is_shown_or_has_a_reason() {
    let shown = shown();
    let unshown: Vec<&str> = listed()
        .into_iter()
        .filter(|(name, reason)| reason.is_empty() && !shown.contains(*name))
        .map(|(name, _)| name)
        .collect();
    assert!(unshown.is_empty(), "no case shows {unshown:?}");
}

#[test]
fn what_cases_show_is_in_the_list_without_a_reason() {
    let listed = listed();
    let unknown: Vec<String> = shown()
        .into_iter()
        .filter(|name| listed.get(name.as_str()).is_none_or(|why| !why.is_empty()))
        .collect();
    assert!(unknown.is_empty(), "not in the list, or with a reason: {unknown:?}");
}

/// Each test with the reason why it is not shown.
fn listed() -> BTreeMap<&'static str, &'static str> {
    LIST.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once('\t').unwrap()).collect()
}

/// Every name that looks like one of Debezium's test classes, with its method.
fn shown() -> BTreeSet<String> {
    let classes: BTreeSet<&str> =
        listed().into_keys().map(|name| name.split(['.', ' ']).next().unwrap_or(name)).collect();
    let mut names = BTreeSet::new();
    for path in PLACES.iter().flat_map(|place| files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(place))) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_'));
        let named = words.map(|word| word.trim_end_matches('.'));
        names.extend(
            named.filter(|word| classes.contains(word.split('.').next().unwrap_or(word))).map(str::to_owned),
        );
    }
    names
}

/// All files below a folder but the list itself.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false if path.ends_with("debezium-tests.tsv") => {}
            false => files.push(path),
        }
    }
    files
}
