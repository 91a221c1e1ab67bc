//! Comparison of `docs/compatibility.md` with the table of keys: for each of Debezium's options the page states the
//! program's behaviour.

use std::path::Path;

use connect_data::debezium_version::{DEFAULT, TIMES_IN_ARRAYS};

use super::keys::{self, Row, Status};

/// Options of Debezium with their defaults: those that its connector reports (`/validate`), and the
/// relevant ones of its transforms, of Connect's converters and of the worker.
const OPTIONS: &str = include_str!("debezium_options.tsv");
/// The connector's options with types and defaults, as `tests/debezium follow` reads them from the jar.
const CONNECTOR_OPTIONS: &str = include_str!("../../../tests/debezium/connector_options.tsv");
const BEGIN: &str = "<!-- The table below is generated: UPDATE_DOCS=1 cargo test --lib compatibility -->\n";

#[test]
fn the_table_in_the_documentation_is_that_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/compatibility.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, table) = page.split_once(BEGIN).unwrap();
    let generated = table_of(OPTIONS);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{generated}")).unwrap();
        return;
    }
    assert!(
        table == generated,
        "docs/compatibility.md is stale: UPDATE_DOCS=1 cargo test --lib compatibility"
    );
}

#[test]
fn every_option_of_debezium_is_known() {
    let unknown: Vec<_> = options(OPTIONS).filter(|(option, _)| keys::lookup(option).is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// A default of the connector is equal in both tables. The worker's options have none in the connector's.
#[test]
fn defaults_are_those_of_the_connector() {
    let mut compared = 0;
    for line in CONNECTOR_OPTIONS.lines().skip(1) {
        let columns: Vec<_> = line.split('\t').collect();
        let [option, _, default] = *columns else { panic!("{line}") };
        let Some(listed) = default_of(option).filter(|_| !default.is_empty()) else { continue };
        assert_eq!(listed, default, "{option}");
        compared += 1;
    }
    assert!(compared > 50, "only {compared} defaults were compared");
}

/// Sentences and settings that name the versions of Debezium and Kafka.
#[test]
fn the_documentation_names_the_versions_of_the_program() {
    let kafka = default_of("key.converter.plugin.version").unwrap();
    let newer = TIMES_IN_ARRAYS.map(|number| number.to_string()).join(".");
    let named = [
        ("docs/compatibility.md", format!("compared with Debezium {DEFAULT} in Kafka Connect {kafka}:")),
        (
            "docs/compatibility.md",
            format!("the bytes of {newer} with `outboxd.debezium.version={newer}.Final`"),
        ),
        ("docs/change-events.md", format!("`source.version` is `{DEFAULT}`,")),
        ("docs/change-events.md", format!("With `{newer}.Final` or later,")),
        ("docs/configuration.md", format!("instead of `{DEFAULT}`; from `{newer}.Final` on,")),
        ("tests/debezium/README.md", format!("a real Debezium ({DEFAULT} in Kafka Connect\n{kafka},")),
        ("tests/debezium/pom.xml", format!("<debezium.version>{DEFAULT}</debezium.version>")),
        ("tests/debezium/pom.xml", format!("<kafka.version>{kafka}</kafka.version>")),
    ];
    for (file, text) in named {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        assert!(std::fs::read_to_string(path).unwrap().contains(&text), "{file} does not have: {text}");
    }
    assert_eq!(default_of("connector.plugin.version"), Some(DEFAULT));
}

fn default_of(option: &str) -> Option<&'static str> {
    options(OPTIONS).find(|(name, _)| *name == option).map(|(_, default)| default)
}

fn table_of(options_text: &str) -> String {
    let mut table = "\n| option | Debezium's default | here | |\n| --- | --- | --- | --- |\n".to_owned();
    for (option, default) in options(options_text) {
        let row = keys::lookup(option).unwrap();
        let (option, default) = (code(option), code(default));
        table.push_str(&format!("| {option} | {default} | {} | {} |\n", verdict(row), note(row)));
    }
    table
}

fn options(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().skip(1).filter_map(|line| line.split_once('\t'))
}

fn verdict(row: &Row) -> &'static str {
    match row.status {
        Status::Used => "same",
        Status::Better => "better",
        Status::Changes => "same",
        Status::Ignored => "ignored",
        Status::Refused | Status::Renamed => "refused",
    }
}

fn note(row: &Row) -> String {
    let allowed: Vec<_> = row.allowed().map(code).collect();
    let note = row.reason.replace('|', "\\|");
    match (row.status, allowed.is_empty()) {
        (Status::Changes, _) => format!("with an EventRouter: {note}"),
        (Status::Refused, false) => format!("but for {}: {note}", allowed.join(", ")),
        _ => note,
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}
