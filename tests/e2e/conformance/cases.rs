//! Which cases run.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::case::Case;

/// The folders of cases.
pub(super) const FOLDERS: [&str; 4] = ["relay", "inventory", "generated", "tables"];

/// Without `OUTBOXD_ALL_CASES`, one case in this number, in the order of their names, runs end to end.
const SPREAD: usize = 10;

/// A file of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    /// With its folder, without its ending.
    pub(super) name: String,
    path: PathBuf,
}

impl File {
    pub(super) fn read(&self) -> Case {
        Case::read(&self.path)
    }
}

/// Returns the cases of a folder, in the order of their names.
pub(super) fn all(folder: &str) -> Vec<File> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(folder);
    let paths = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let named = files.map(|path| {
        let name = format!("{folder}/{}", path.file_stem().unwrap().to_string_lossy());
        File { name, path }
    });
    let mut files: Vec<File> = named.collect();
    files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    assert!(!files.is_empty());
    files
}

/// Returns the cases of a folder that `CASES` names, or all.
pub(super) fn named(folder: &str) -> Vec<File> {
    let mut files = all(folder);
    if let Some(wanted) = wanted() {
        files.retain(|file| wanted.contains(file));
    }
    files
}

/// Returns the cases that run end to end.
pub(super) fn end_to_end() -> Vec<File> {
    match wanted() {
        Some(wanted) => wanted,
        None if env::var_os("OUTBOXD_ALL_CASES").is_some() => everywhere(),
        None => spread(everywhere()),
    }
}

/// Returns the cases of all folders.
fn everywhere() -> Vec<File> {
    FOLDERS.iter().flat_map(|folder| all(folder)).collect()
}

/// Returns the cases that `CASES` names, with or without folders.
fn wanted() -> Option<Vec<File>> {
    let names = env::var("CASES").ok()?;
    let files = everywhere();
    let called = |name: &str| {
        let stem = |file: &File| file.name.split_once('/').is_some_and(|(_, stem)| stem == name);
        let found: Vec<File> = files.iter().filter(|file| file.name == name || stem(file)).cloned().collect();
        assert!(!found.is_empty(), "CASES: there is no case {name}");
        found
    };
    Some(names.split(',').flat_map(called).collect())
}

fn spread(files: Vec<File>) -> Vec<File> {
    files.into_iter().step_by(SPREAD).collect()
}

#[test]
fn every_folder_has_cases_that_run_end_to_end() {
    let spread = spread(everywhere());
    for folder in FOLDERS {
        let count = spread.iter().filter(|file| file.name.starts_with(&format!("{folder}/"))).count();
        assert!(count >= 2, "{folder}: {count}");
    }
}
