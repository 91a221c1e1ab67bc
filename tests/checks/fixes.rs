//! Every fix that can be pasted, and the test that executes it: `fixes.tsv`.
//!
//! A line of the table is a statement, a command or a setting that a file of the source prints as a fix, and one of these:
//!
//! - the test that executes it in the state that prints it;
//! - `reports:` and what it shows, for what changes nothing;
//! - `no fix:` and the reason, for what is printed for another purpose;
//! - a dash and the reason why no test executes it.
//!
//! `UPDATE_DOCS=1 cargo test --test checks fixes` adds what is new, with `?` for the test, and removes what is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;
use std::{env, fs};

use fancy_regex::Regex;

use super::failure_modes::exists;
use super::tidy::{File, product_lines, repository};

const TABLE: &str = "tests/checks/fixes.tsv";

/// Maximum number of fixes that no test executes.
const UNTESTED_MAX: usize = 12;

/// Marks of what is no fix, or not executed. The reason follows.
const REPORTS: &str = "reports: ";
const NO_FIX: &str = "no fix: ";
const UNTESTED: &str = "— ";

/// Words of the commands and statements that change nothing.
const READ_ONLY: [&str; 15] = [
    "SELECT ",
    "curl -s ",
    "curl -v ",
    "outboxd check ",
    "outboxd dlq ls ",
    "outboxd inbox ls ",
    "outboxd lag ",
    "outboxd migrate status",
    "outboxd slot ls ",
    "outboxd status ",
    "outboxd verify ",
    "tool_lines::topics --describe ",
    "tool_lines::topics --list",
    "find-hanging",
    "outboxd explain ",
];

/// Statements of SQL, up to their end.
const STATEMENT: &str = r"(?:ALTER (?:SYSTEM|ROLE|TABLE|PUBLICATION|DATABASE|INDEX) |ALTER_REPLICATION_SLOT |GRANT |REVOKE |CREATE (?:TABLE|PUBLICATION|INDEX|ROLE|UNIQUE|SCHEMA|EXTENSION|DATABASE) |DROP (?:PUBLICATION|TABLE|TRIGGER) |ROLLBACK PREPARED |SELECT )[^;\n]+";
/// Commands of outboxd, with a second word: one word alone is the program's name in a sentence.
const COMMAND: &str = r"outboxd (?:run|check|init|migrate|move|slot|dlq|cleanup|verify|status|explain|inbox|signal|tail|top|lag|debug|demo|config)(?: (?:--?[A-Za-z][a-z-]*|[a-z.]+=[^ ;,)]+|[A-Z]{2,}\b|\{[^}]*\}|start|rollback|finish|status|plan|cut-over|drop|ls|create|advance|replay|skip|retry|release))+";
/// Commands of other programs.
const TOOL: &str = r"(?:kafka-[a-z]+(?:\.sh)? --|curl -|keytool -|chmod |helm template|apt-get |useradd |psql |mkdir -)[^;,\n]+";
/// Settings, after a word that makes them a fix.
const SETTING: &str = r"(?m)(?:-X |\bset |\bor |^)(?<setting>[a-z{}]+\.[a-z._]+=[^ ,;):]+)";
/// Lines for Kafka's tools.
const TOOL_LINE: &str = r"tool_lines::(?<made>topics|topics_at|set_property|allow)\(";
/// Literals of Rust.
const LITERAL: &str = r#"(?s)"(?<text>(?:[^"\\]|\\.)*)""#;

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

static PATTERNS: LazyLock<[Regex; 3]> = LazyLock::new(|| [STATEMENT, COMMAND, TOOL].map(regex));
static SETTINGS: LazyLock<Regex> = LazyLock::new(|| regex(SETTING));
static TOOL_LINES: LazyLock<Regex> = LazyLock::new(|| regex(TOOL_LINE));
static LITERALS: LazyLock<Regex> = LazyLock::new(|| regex(LITERAL));
static FIX_WORDS: LazyLock<Regex> = LazyLock::new(|| regex("(?i)fix|diagnosis|tool_lines::"));
/// Words of a literal that make it a fix wherever it is.
static SPOKEN: LazyLock<Regex> = LazyLock::new(|| {
    regex("fix: |n the standby|as a superuser: |as the owner |pg_terminate_backend|ROLLBACK PREPARED")
});
static ITEM: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^ {0,4}(?:pub(?:\([^)]*\))? )?(?:const |async |fn |static |impl )"));

/// A file of the source, and a fix that it prints.
type Fix = (String, String);

#[test]
fn every_printed_fix_has_a_test_or_a_reason() {
    let printed = printed_fixes(&repository());
    if env::var_os("UPDATE_DOCS").is_some() {
        update(&printed);
    }
    let table = table();
    let new: Vec<_> = printed.iter().filter(|fix| !table.contains_key(*fix)).collect();
    let gone: Vec<_> = table.keys().filter(|fix| !printed.contains(*fix)).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "UPDATE_DOCS=1 cargo test --test checks fixes, and name the tests. New: {new:#?}; gone: {gone:#?}"
    );
    let has_reason = |test: &str| {
        let reasons = [REPORTS, NO_FIX, UNTESTED].iter().filter_map(|mark| test.strip_prefix(mark));
        reasons.into_iter().any(|reason| !reason.trim().is_empty())
    };
    let unnamed: Vec<_> = table.iter().filter(|(_, test)| !has_reason(test) && !exists(test)).collect();
    assert!(unnamed.is_empty(), "neither a test nor a reason: {unnamed:#?}");
    let changes: Vec<_> =
        table.iter().filter(|(fix, test)| test.starts_with(REPORTS) && !only_reads(&fix.1)).collect();
    assert!(changes.is_empty(), "these may change something: {changes:#?}");
    let untested = table.values().filter(|test| test.starts_with(UNTESTED)).count();
    println!("{untested} of {} fixes are not executed", table.len());
    assert!(untested <= UNTESTED_MAX, "{untested} fixes are not executed by a test");
}

/// The reader finds what it must: else the test above could pass for nothing.
#[test]
fn fixes_are_found_where_they_are_printed() {
    let text = r#"
fn fix(&self) -> String {
    // outboxd slot drop -c FILE
    let line = tool_lines::set_property(topic, "cleanup.policy=compact");
    format!("as a superuser: ALTER ROLE \"{user}\" REPLICATION;\n\
             then outboxd slot drop -c FILE, or set slot.name=other; outboxd is a program")
}
fn other() -> &'static str {
    "ALTER TABLE t SET LOGGED"
}
"#;
    let file = File { path: "src/a.rs".to_owned(), text: text.to_owned() };
    let found: Vec<_> = printed_fixes(&[file]).into_iter().map(|(_, fix)| fix).collect();
    let expected = [
        r#"ALTER ROLE "{user}" REPLICATION"#,
        "outboxd slot drop -c FILE",
        "slot.name=other",
        "tool_lines::set_property cleanup.policy=compact",
    ];
    assert_eq!(found, expected);
}

/// Reports whether a statement or a command changes nothing. A function of a SELECT may.
fn only_reads(fix: &str) -> bool {
    let calls =
        ["pg_terminate_backend", "pg_drop_", "pg_create_", "pg_copy_", "pg_reload_conf", "slot_advance"];
    READ_ONLY.iter().any(|words| fix.contains(words)) && !calls.iter().any(|call| fix.contains(call))
}

#[test]
fn a_statement_that_changes_something_is_no_report() {
    assert!(only_reads("SELECT gid FROM pg_prepared_xacts") && only_reads("outboxd verify -c FILE"));
    assert!(!only_reads("SELECT pg_drop_replication_slot('s')") && !only_reads("outboxd slot drop -c FILE"));
}

fn printed_fixes(files: &[File]) -> BTreeSet<Fix> {
    let is_product = |path: &str| {
        (path.starts_with("src/") || path.starts_with("crates/change-events/"))
            && path.ends_with(".rs")
            && !["/tests", "/cases", "/simulation"].iter().any(|part| path.contains(part))
    };
    let files = files.iter().filter(|file| is_product(&file.path) && file.path != "src/kafka/tool_lines.rs");
    files.flat_map(|file| of_file(file).into_iter().map(|fix| (file.path.clone(), fix))).collect()
}

fn of_file(file: &File) -> BTreeSet<String> {
    let mut items = vec![String::new()];
    for (_, line) in product_lines(&file.text) {
        let trimmed = line.trim_start();
        if trimmed.starts_with("//") || trimmed.starts_with("#[") {
            continue;
        }
        if ITEM.is_match(line).unwrap() {
            items.push(String::new());
        }
        let item = items.last_mut().unwrap();
        item.push_str(line);
        item.push('\n');
    }
    items.iter().flat_map(|item| of_item(item)).collect()
}

/// Returns the fixes in a function or a constant. One that makes fixes names them outside of its literals.
fn of_item(item: &str) -> BTreeSet<String> {
    let makes_fixes = FIX_WORDS.is_match(LITERALS.replace_all(item, "\"\"").as_ref()).unwrap();
    let texts = literals(item).filter(|text| makes_fixes || SPOKEN.is_match(text).unwrap());
    let lines: Vec<_> = tool_lines(item).collect();
    let in_line = |fix: &String| lines.iter().any(|line| line.contains(fix.as_str()));
    let mut fixes: BTreeSet<_> = texts.flat_map(|text| of_text(&text)).filter(|fix| !in_line(fix)).collect();
    fixes.extend(lines);
    fixes
}

fn tool_lines(item: &str) -> impl Iterator<Item = String> {
    TOOL_LINES.captures_iter(item).map(|call| {
        let call = call.unwrap();
        let arguments = up_to_end(item.get(call.get(0).unwrap().end()..).unwrap());
        let arguments: Vec<_> = literals(arguments).collect();
        format!("tool_lines::{} {}", call.name("made").unwrap().as_str(), arguments.join(" "))
    })
}

/// Returns the arguments of a call up to its closing parenthesis.
fn up_to_end(arguments: &str) -> &str {
    let mut open = 1_usize;
    let end = arguments.char_indices().find(|(_, c)| {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        open == 0
    });
    arguments.get(..end.map_or(arguments.len(), |(at, _)| at)).unwrap()
}

/// Returns the texts of the literals, as they are printed.
fn literals(item: &str) -> impl Iterator<Item = String> {
    static CONTINUED: LazyLock<Regex> = LazyLock::new(|| regex(r"\\\n\s*"));
    LITERALS.captures_iter(item).map(|literal| {
        let literal = literal.unwrap();
        let text = CONTINUED.replace_all(literal.name("text").unwrap().as_str(), "");
        text.replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\")
    })
}

fn of_text(text: &str) -> Vec<String> {
    // A statement that outboxd executes itself.
    if text.contains("$1") || text.contains("({values})") {
        return Vec::new();
    }
    let commands = PATTERNS.iter().flat_map(|pattern| pattern.find_iter(text));
    let mut fixes: Vec<_> = commands.map(|found| found.unwrap().as_str().trim().to_owned()).collect();
    let settings = SETTINGS.captures_iter(text).map(|found| found.unwrap().name("setting").unwrap());
    let settings = settings.map(|setting| setting.as_str().trim_end_matches('.').to_owned());
    let more: Vec<_> = settings.filter(|setting| !fixes.iter().any(|fix| fix.contains(setting))).collect();
    fixes.extend(more);
    fixes
}

/// Returns each fix of the table with its test.
fn table() -> BTreeMap<Fix, String> {
    let text = fs::read_to_string(path()).unwrap_or_default();
    let row = |line: &str| {
        let mut cells = line.split('\t').map(str::to_owned);
        Some(((cells.next()?, cells.next()?), cells.next()?))
    };
    text.lines().map(|line| row(line).unwrap_or_else(|| panic!("three cells: {line:?}"))).collect()
}

fn update(printed: &BTreeSet<Fix>) {
    let known = table();
    let line = |fix: &Fix| {
        let test = known.get(fix).map_or("?", String::as_str);
        format!("{}\t{}\t{test}\n", fix.0, fix.1)
    };
    fs::write(path(), printed.iter().map(line).collect::<String>()).unwrap();
}

fn path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLE)
}
