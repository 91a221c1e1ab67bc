//! The rules of structure that the compiler does not know: who may name what, how long a file may be, what is documented.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the root without I/O. They must not name a socket, a clock or a file, and neither must the crates in `crates`.
const SANS_IO: [&str; 4] = ["error", "secret", "ack", "verification"];

/// The same of the relay: what decides takes the time as an argument.
const RELAY_SANS_IO: [&str; 20] = [
    "time/backoff",
    "capture/captured",
    "pipeline/core",
    "delivery/dead_letters",
    "delivery/dispatch",
    "error",
    "delivery/exactly_once",
    "pipeline/feed",
    "delivery/flight",
    "pipeline/heartbeat",
    "lifecycle/memory",
    "lifecycle/order",
    "delivery/needs",
    "options",
    "origin",
    "delivery/repeats/position_text",
    "delivery/repeats/tails",
    "capture/resolution",
    "lifecycle/retry",
    "delivery/tolerance",
];
/// And of the consumer's half, below `inbox/src`.
const INBOX_SANS_IO: [&str; 11] = [
    "core",
    "dead_letter",
    "event",
    "http/header",
    "http/problem",
    "idempotency/answer",
    "idempotency/claim",
    "idempotency/fingerprint",
    "idempotency/heartbeat",
    "idempotency/key",
    "idempotency/record",
];
const IO: [&str; 10] = [
    "tokio",
    "std::net",
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "SystemTime",
    "Instant::now",
    "rdkafka",
    "postgres_openssl",
];
const POSTGRES: [&str; 2] = ["tokio_postgres", "crate::postgres"];
const KAFKA: [&str; 2] = ["rdkafka", "crate::kafka"];

/// The only modules that may know both PostgreSQL and Kafka.
const BOTH: [&str; 4] = ["relay", "cli", "config", "internals"];

/// Lines of a file of Rust.
const LINES_MAX: usize = 450;

/// Places of the machines this was written on; in pieces, so that this file does not contain them.
const WORKPLACE: [&str; 4] =
    [concat!("../", "shared"), concat!("/work", "/"), concat!("/tmp", "/bg"), concat!("/root", "/")];

/// A file of the repository: its path from the root, with `/`, and its text.
#[derive(Clone)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

#[test]
fn the_rules_hold() {
    let files = repository();
    assert!(files.iter().any(|file| file.path == "src/lib.rs"), "the repository was not found");
    let broken = violations(&files);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_broken_rule_is_found() {
    let long = "//\n".repeat(LINES_MAX + 1);
    let cases = [
        (
            "crates/pg-replication/src/wal/a.rs",
            "use std::fs;",
            "crates/pg-replication/src/wal/a.rs:1: std::fs in a sans-io module",
        ),
        ("src/error.rs", "\nstd::fs::read()", "src/error.rs:2: std::fs in a sans-io module"),
        ("src/ack/a.rs", "let now = Instant::now();", "src/ack/a.rs:1: Instant::now in a sans-io module"),
        ("src/ack/b.rs", "use std::{fmt, fs};", "src/ack/b.rs:1: std::fs in a sans-io module"),
        (
            "src/postgres/a.rs",
            "use crate::kafka::P;",
            "src/postgres/a.rs:1: crate::kafka in the PostgreSQL half",
        ),
        (
            "src/kafka/a.rs",
            "use crate::{ack, postgres};",
            "src/kafka/a.rs:1: crate::postgres in the Kafka half",
        ),
        (
            "src/relay/pipeline/core/a.rs",
            "Instant::now()",
            "src/relay/pipeline/core/a.rs:1: Instant::now in a sans-io module",
        ),
        (
            "src/relay/lifecycle/retry.rs",
            "use tokio::time;",
            "src/relay/lifecycle/retry.rs:1: tokio in a sans-io module",
        ),
        ("inbox/src/core/a.rs", "Instant::now()", "inbox/src/core/a.rs:1: Instant::now in a sans-io module"),
        ("inbox/src/event/mod.rs", "mod id;", "inbox/src/event/mod.rs: no //! doc"),
        ("src/http/a.rs", "rdkafka::A; tokio_postgres::B;", "src/http knows both PostgreSQL and Kafka"),
        ("src/ack/a.rs", &long, "src/ack/a.rs: 451 lines, more than 450"),
        ("tests/support/a.rs", &long, "tests/support/a.rs: 451 lines, more than 450"),
        ("crates/a/src/wal/mod.rs", "mod lsn;", "crates/a/src/wal/mod.rs: no //! doc"),
        (
            "src/relay/a.rs",
            "tokio::select! {\n    () = a => {}\n",
            "src/relay/a.rs:1: a select! that is not biased",
        ),
        (
            "src/http/a.rs",
            "fn a<T>(b: u8,\n    (mut c, d): (u8, &str),\n) {",
            "src/http/a.rs:1: a tuple among the parameters: name its parts with a struct",
        ),
        ("docs/a.md", WORKPLACE[0], "docs/a.md:1: names a place of the workshop"),
        ("docker/a", &format!("COPY {}main", WORKPLACE[1]), "docker/a:1: names a place of the workshop"),
    ];
    for (path, text, expected) in cases {
        assert_eq!(violations(&[file(path, text)]), [expected]);
    }
}

#[test]
fn a_file_that_no_module_names_is_found() {
    let parent = || file("src/http/mod.rs", "//! Doc.\nmod answer;");
    let broken = violations(&[parent(), file("src/http/answer.rs", ""), file("src/http/old.rs", "")]);
    assert_eq!(broken, ["src/http/old.rs: no module names it"]);
    let root = file("src/lib.rs", "pub mod ack;\n");
    let broken = violations(&[root, parent(), file("src/ack/mod.rs", "//! Doc.")]);
    assert_eq!(broken, ["src/http/mod.rs: no module names it"]);
}

#[test]
fn what_the_rules_allow_is_let_through() {
    let tests = "fn a() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
    let cases = [
        ("crates/a/src/wal.rs", "// std::fs would not do here\nuse std::fmt;"),
        ("crates/a/src/wal.rs", tests),
        ("src/postgres/a.rs", "use tokio_postgres::Client;"),
        ("src/relay/pipeline/core_like.rs", "use tokio::time;"),
        ("src/relay/a.rs", "use crate::kafka::A;\nuse crate::postgres::B;"),
        ("src/relay/a.rs", "select! {\n    // Both mean the same.\n    biased;\n    () = a => {}\n"),
        (
            "src/http/a.rs",
            "fn a(b: (u8, u8), c: impl Fn((u8, u8)) -> u8) {\n    b.map(|(d, e): (u8, u8)| d);",
        ),
        ("src/http/a.rs", "fn a(&self, (): ()) {"),
        ("src/http/a.rs", "impl From<(u8, u8)> for A {\n    fn from((b, c): (u8, u8)) -> Self {"),
        ("docs/a.md", "a network/stack"),
    ];
    for (path, text) in cases {
        assert_eq!(violations(&[file(path, text)]), [""; 0]);
    }
    let parent = file("crates/a/src/wal/mod.rs", "//! Doc.\n#[cfg(test)]\nmod properties;\nmod lsn;\n");
    let child = file("crates/a/src/wal/properties.rs", "use std::fs;");
    assert_eq!(violations(&[parent, child]), [""; 0]);
}

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

fn violations(files: &[File]) -> Vec<String> {
    let sources: Vec<&File> =
        files.iter().filter(|file| file.path.starts_with("src/") && file.path.ends_with(".rs")).collect();
    let mut broken = Vec::new();
    broken.extend(sources.iter().flat_map(|file| names_what_it_may_not(file, files)));
    broken.extend(modules_that_know_both(&sources));
    broken.extend(super::imports::violations(files));
    broken.extend(
        files
            .iter()
            .filter(|file| is_of_sans_io_crate(&file.path) || sans_io_of_the_inbox(&file.path))
            .filter(|file| !is_test_module(&file.path, files))
            .flat_map(names_io),
    );
    broken.extend(files.iter().filter(|file| file.path.ends_with(".rs")).filter_map(|file| {
        let lines = file.text.lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines, more than {LINES_MAX}", file.path))
    }));
    let sources = files.iter().filter(|file| is_source(&file.path));
    broken.extend(sources.filter_map(|file| {
        let undocumented = file.path.ends_with("/mod.rs") && !file.text.starts_with("//! ");
        undocumented.then(|| format!("{}: no //! doc", file.path))
    }));
    broken.extend(files.iter().filter(|file| is_source(&file.path)).flat_map(chooses_by_chance));
    broken.extend(files.iter().filter(|file| is_source(&file.path)).flat_map(takes_tuples_apart));
    let sources = files.iter().filter(|file| is_source(&file.path));
    broken.extend(
        sources
            .filter(|file| is_left_behind(&file.path, files))
            .map(|file| format!("{}: no module names it", file.path)),
    );
    broken.extend(files.iter().flat_map(|file| {
        let workplace = |(_, line): &(usize, &str)| WORKPLACE.iter().any(|place| contains(line, place));
        (1..)
            .zip(file.text.lines())
            .filter(workplace)
            .map(|(number, _)| format!("{}:{number}: names a place of the workshop", file.path))
    }));
    broken
}

/// Reports the names that the module of a source file must not use in code that is compiled into the product.
fn names_what_it_may_not(file: &File, files: &[File]) -> Vec<String> {
    let module = module(&file.path);
    let (forbidden, place): (&[&str], _) = match module {
        "postgres" => (&KAFKA, "the PostgreSQL half"),
        "kafka" => (&POSTGRES, "the Kafka half"),
        _ if SANS_IO.contains(&module) || decides(&file.path) => (&IO, "a sans-io module"),
        _ => return Vec::new(),
    };
    if is_test_module(&file.path, files) {
        return Vec::new();
    }
    named_in(file, forbidden, place)
}

/// Reports the lines of code that is compiled into the product that name one of these.
fn named_in(file: &File, forbidden: &[&str], place: &str) -> Vec<String> {
    let found = product_lines(&file.text).into_iter().flat_map(|(number, line)| {
        let names = forbidden.iter().filter(move |name| contains(line, name));
        names.map(move |name| format!("{}:{number}: {name} in {place}", file.path))
    });
    found.collect()
}

/// Reports each `select!` that polls its branches in a random order.
fn chooses_by_chance(file: &File) -> Vec<String> {
    let lines = product_lines(&file.text);
    let pairs = lines.iter().zip(lines.iter().skip(1));
    let random =
        pairs.filter(|((_, line), (_, next))| line.contains("select! {") && next.trim() != "biased;");
    random.map(|((number, _), _)| format!("{}:{number}: a select! that is not biased", file.path)).collect()
}

/// Reports each function with a tuple that it takes apart among its parameters. That of `From` has no choice.
fn takes_tuples_apart(file: &File) -> Vec<String> {
    let lines = product_lines(&file.text);
    let has_tuple = |(index, (_, line)): &(usize, &(usize, &str))| {
        let Some((_, signature)) = line.split_once("fn ").filter(|(_, rest)| !rest.starts_with("from("))
        else {
            return false;
        };
        let others = lines.iter().skip(index + 1).map(|(_, line)| *line);
        let text: Vec<&str> = std::iter::once(signature).chain(others).collect();
        has_tuple_pattern(&text.join(" "))
    };
    let found = lines.iter().enumerate().filter(has_tuple);
    found
        .map(|(_, (number, _))| {
            format!("{}:{number}: a tuple among the parameters: name its parts with a struct", file.path)
        })
        .collect()
}

/// Returns whether one of the parameters of this function, which begins with its name, is `(a, b): …`.
fn has_tuple_pattern(function: &str) -> bool {
    let (mut depth, mut begins, mut is_pattern, mut parts) = (0_u32, false, false, 0_usize);
    let mut rest = function.chars();
    while let Some(c) = rest.next() {
        match c {
            '(' => {
                (is_pattern, parts) = if depth == 1 { (begins, 0) } else { (is_pattern, parts) };
                depth += 1;
            }
            ',' if depth == 2 => parts += 1,
            ')' if depth == 2 && is_pattern && parts > 0 && rest.as_str().starts_with(": ") => return true,
            ')' if depth <= 1 => return false,
            ')' => depth -= 1,
            '{' | ';' if depth == 0 => return false,
            _ => {}
        }
        begins = depth == 1 && (matches!(c, '(' | ',') || c.is_whitespace() && begins);
    }
    false
}

fn names_io(file: &File) -> Vec<String> {
    named_in(file, &IO, "a sans-io module")
}

/// Returns whether a file is Rust that is compiled into one of the libraries.
fn is_source(path: &str) -> bool {
    let of_library = ["src/", "inbox/src/"].iter().any(|folder| path.starts_with(folder));
    path.ends_with(".rs") && (of_library || path.starts_with(WITH_KAFKA)) || is_of_sans_io_crate(path)
}

/// The crate of `crates` that knows the client library.
const WITH_KAFKA: &str = "crates/rdkafka-gaps/src/";

/// Returns whether a file is compiled into a crate without I/O.
fn is_of_sans_io_crate(path: &str) -> bool {
    if path.starts_with(WITH_KAFKA) {
        return false;
    }
    let inside = path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
    path.ends_with(".rs") && inside.is_some_and(|(_, inside)| inside.starts_with("src/"))
}

fn sans_io_of_the_inbox(path: &str) -> bool {
    let inside = path.strip_prefix("inbox/src/").filter(|inside| inside.ends_with(".rs"));
    inside.is_some_and(|inside| {
        INBOX_SANS_IO
            .iter()
            .any(|name| inside.strip_prefix(name).is_some_and(|rest| rest.starts_with(['/', '.'])))
    })
}

/// Returns whether a source file of the relay is one of those without I/O.
fn decides(path: &str) -> bool {
    let Some(inside) = path.strip_prefix("src/relay/") else { return false };
    RELAY_SANS_IO
        .iter()
        .any(|name| inside.strip_prefix(name).is_some_and(|rest| rest.starts_with(['/', '.'])))
}

fn modules_that_know_both(sources: &[&File]) -> Vec<String> {
    let mut modules: Vec<&str> = sources.iter().map(|file| module(&file.path)).collect();
    modules.dedup();
    modules.retain(|module| !BOTH.contains(module) && !["postgres", "kafka"].contains(module));
    let knows = |of: &str, names: &[&str]| {
        let of = sources.iter().filter(|file| module(&file.path) == of);
        of.flat_map(|file| product_lines(&file.text)).any(|(_, line)| names.iter().any(|n| contains(line, n)))
    };
    modules.retain(|module| knows(module, &POSTGRES) && knows(module, &KAFKA));
    modules.iter().map(|module| format!("src/{module} knows both PostgreSQL and Kafka")).collect()
}

/// Returns the module of a file: `ack` of `src/ack/ledger.rs`, `error` of `src/error.rs`.
pub(super) fn module(path: &str) -> &str {
    let inside = path.strip_prefix("src/").unwrap_or(path);
    inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs")
}

/// Returns whether the parent exists, and neither it nor a neighbour declares the file: the compiler never sees it
/// then.
fn is_left_behind(path: &str, files: &[File]) -> bool {
    let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let Some((folder, name)) = module.rsplit_once('/') else { return false };
    let parents = ["mod.rs", "lib.rs", "main.rs"].map(|parent| format!("{folder}/{parent}"));
    let parents: Vec<_> = files.iter().filter(|file| parents.contains(&file.path)).collect();
    let declaration = format!("mod {name};");
    let is_declared = |parent: &&File| parent.text.lines().any(|line| line.ends_with(&declaration));
    let by_path = format!("#[path = \"{name}.rs\"]");
    let is_beside = |file: &File| file.path.rsplit_once('/').is_some_and(|(beside, _)| beside == folder);
    let is_root = ["lib", "main"].contains(&name);
    !is_root
        && !parents.is_empty()
        && !parents.iter().any(is_declared)
        && !files.iter().any(|file| is_beside(file) && file.text.contains(&by_path))
}

/// Returns whether the parent declares the file under `#[cfg(test)]`.
pub(super) fn is_test_module(path: &str, files: &[File]) -> bool {
    let Some((folder, name)) = path.trim_end_matches(".rs").rsplit_once('/') else { return false };
    let parent = files.iter().find(|file| file.path == format!("{folder}/mod.rs"));
    let declaration = format!("mod {name};");
    parent.is_some_and(|parent| {
        let declared = parent.text.lines().any(|line| line.ends_with(&declaration));
        declared && !product_lines(&parent.text).iter().any(|(_, line)| line.ends_with(&declaration))
    })
}

/// Returns the lines without comments and without the items under `#[cfg(test)]`, which rustfmt ends at their own
/// indentation.
pub(super) fn product_lines(text: &str) -> Vec<(usize, &str)> {
    let mut kept = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let indentation = line.len() - line.trim_start().len();
            let ends = |line: &str| {
                line.trim_end().ends_with([';', '}']) && line.len() - line.trim_start().len() == indentation
            };
            lines.by_ref().find(|(_, line)| ends(line));
        } else if !line.trim_start().starts_with("//") {
            kept.push((number, line));
        }
    }
    kept
}

/// Returns whether a line contains a name, not as the end of a longer word, also when `use a::{b, c}` separates its
/// parts.
fn contains(line: &str, name: &str) -> bool {
    let inside_word = |at: usize| line.split_at(at).0.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let written_out = line.match_indices(name).any(|(at, _)| !inside_word(at));
    let grouped = name.split_once("::").is_some_and(|(root, leaf)| {
        let group = line.split_once(&format!("use {root}::{{")).map(|(_, group)| group);
        group.is_some_and(|group| group.split([',', '{', '}', ' ', ':']).any(|part| part == leaf))
    });
    written_out || grouped
}

/// Returns every text file that is, or could be, committed.
pub(super) fn repository() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir()
                && ![".git", "target", "corpus", "artifacts", "coverage"].contains(&name.as_str())
            {
                folders.push(path);
            } else if path.is_file() && name != ".git" {
                let relative = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
                files.extend(fs::read_to_string(&path).ok().map(|text| File { path: relative, text }));
            }
        }
    }
    files
}
