//! Paths of modules in the developers' documents: each names a file or folder of the sources.

use std::collections::BTreeSet;

use super::tidy::{File, repository};

const DOCUMENTS: [&str; 2] = ["docs/ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Folders of sources, and the module that each is the root of; empty for the crate itself.
const ROOTS: [(&str, &str); 4] = [
    ("src/", ""),
    ("crates/change-events/src/", ""),
    ("crates/connect-data/src/", "connect::"),
    ("crates/pg-replication/src/", ""),
];

#[test]
fn documents_name_modules_by_their_paths() {
    let files = repository();
    let known = modules(&files);
    let documents: Vec<_> = files.iter().filter(|file| DOCUMENTS.contains(&file.path.as_str())).collect();
    assert_eq!(documents.len(), DOCUMENTS.len(), "a document is missing");
    let named: usize = documents.iter().map(|file| paths(&file.text, &known).count()).sum();
    assert!(named > 100, "only {named} paths were found");
    let broken: Vec<_> = documents.iter().flat_map(|file| unknown(file, &known)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_path_without_its_folder_is_found() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let known = modules(&[file("src/relay/mod.rs", ""), file("src/relay/room/core.rs", "")]);
    let text = "`relay::room::core`, `relay::room::core::turn`, `relay::Type` and `std::fs` are paths";
    assert_eq!(unknown(&file("a.md", text), &known), Vec::<String>::new());
    let text = "one line\n`relay::core` and `relay::room::cores::turn`";
    let expected =
        ["a.md:2: there is no module relay::core", "a.md:2: there is no module relay::room::cores::turn"];
    assert_eq!(unknown(&file("a.md", text), &known), expected);
}

/// Returns the paths of all modules, such as `relay::pipeline::core`.
fn modules(files: &[File]) -> BTreeSet<String> {
    let of = |file: &File| {
        let (folder, root) = ROOTS.iter().find(|(folder, _)| file.path.starts_with(folder))?;
        let path = file.path.strip_prefix(folder)?.strip_suffix(".rs")?;
        let path = path.strip_suffix("/mod").unwrap_or(path);
        Some(format!("{root}{}", path.replace('/', "::")))
    };
    files.iter().filter_map(of).collect()
}

/// Returns the paths in backticks that begin with one of our modules, each with its line number.
fn paths<'t>(text: &'t str, known: &'t BTreeSet<String>) -> impl Iterator<Item = (usize, &'t str)> {
    let tops: BTreeSet<&str> = known.iter().filter_map(|path| path.split("::").next()).collect();
    let lines = text.lines().enumerate();
    lines
        .flat_map(|(index, line)| line.split('`').skip(1).step_by(2).map(move |path| (index + 1, path)))
        .filter(move |(_, path)| {
            let path = path.trim_end_matches("()");
            path.contains("::")
                && path.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | ':'))
                && path.split("::").next().is_some_and(|top| tops.contains(top))
        })
}

/// Returns a line for each path that names no module. One name behind a module is an item in it, and what begins with a capital
/// letter is a type.
fn unknown(file: &File, known: &BTreeSet<String>) -> Vec<String> {
    let is_known = |path: &str| {
        let path = path.split("::tests::").next().unwrap_or(path);
        let names: Vec<_> = path.trim_end_matches("()").split("::").collect();
        let modules =
            names.iter().take_while(|name| name.starts_with(|char: char| char.is_lowercase())).count();
        // A top-level module has items too, but those of its folder are named by their files.
        let shortest = modules.min(names.len()).saturating_sub(1).max(2).min(modules);
        (shortest..=modules).any(|count| count == 1 || known.contains(&names[..count].join("::")))
    };
    let broken = paths(&file.text, known).filter(|(_, path)| !is_known(path));
    broken.map(|(line, path)| format!("{}:{line}: there is no module {path}", file.path)).collect()
}
