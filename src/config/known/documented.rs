//! Comparison of the documented defaults and ranges with the program's: setting a key to its default changes nothing,
//! another value does, and a value outside of a range is refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::keys::{self, Status};
use crate::config::source::spelling;
use crate::config::{Config, ConfigError, Sources};

/// Settings with which every documented key has an effect.
const CONTEXT: [&str; 14] = [
    "bootstrap.servers=localhost:9092",
    "topic.prefix=srv",
    "database.hostname=localhost",
    "database.user=postgres",
    "database.password=hunter2",
    "database.dbname=orders",
    "table.include.list=public.outbox",
    "transforms=outbox",
    "transforms.outbox.type=io.debezium.transforms.outbox.EventRouter",
    "offset.storage.topic=connect-offsets",
    "errors.tolerance=all",
    "errors.deadletterqueue.topic.name=dead",
    "heartbeat.interval.ms=1000",
    "outboxd.cleanup.time.column=created_at",
];
const GUARANTEES: [&str; 3] = ["at_least_once", "tail_dedupe", "exactly_once"];
/// Values of which at least one is allowed for each key and is not its default.
const OTHERS: [&str; 16] = [
    "true",
    "false",
    "7777",
    "77",
    "all",
    "snapshot",
    "always",
    "warn",
    "disable",
    "u",
    "other",
    "exactly_once",
    "delete",
    "drop",
    "parquet",
    "trust_slot",
];

/// Debezium's options with their defaults.
const DEBEZIUM: &str = include_str!("debezium_options.tsv");
/// Options with a default that differs from Debezium's, or that no value expresses.
const OTHERWISE: [&str; 9] = [
    "exactly.once.support",
    "key.converter",
    "plugin.name",
    "producer.linger.ms",
    "publication.autocreate.mode",
    "slot.max.retries",
    "slot.retry.delay.ms",
    "value.converter",
    "transforms.outbox.table.fields.additional.error.on.missing",
];

/// A row of a table whose columns are "key" and "default".
struct Row {
    key: String,
    /// The default, and those of guarantees for which it is another.
    defaults: BTreeMap<&'static str, String>,
    range: Option<(i64, Option<i64>)>,
}

#[test]
fn documented_defaults_are_those_of_the_program() {
    let rows = rows();
    assert!(rows.len() > 30, "the tables were not found: {}", rows.len());
    let mut wrong = Vec::new();
    for Row { key, defaults, .. } in &rows {
        let mut matters = false;
        for (guarantee, default) in defaults {
            let unsaid = effect(guarantee, key, None).unwrap();
            match effect(guarantee, key, Some(default)) {
                Ok(said) if said == unsaid => {}
                Ok(_) => wrong.push(format!("{key}: {default} is not the default with {guarantee}")),
                Err(error) => wrong.push(format!("{key}: {default}: {error:?}")),
            }
            let others = OTHERS.iter().filter_map(|other| effect(guarantee, key, Some(other)).ok());
            matters |= others.into_iter().any(|other| other != unsaid);
        }
        if !matters {
            wrong.push(format!("{key}: nothing that is said for it makes a difference here"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_defaults_that_are_shown_are_those_of_the_documentation() {
    let path = root().join("src/config/known/defaults.tsv");
    let generated = shown_defaults();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, generated).unwrap();
        return;
    }
    let text = fs::read_to_string(&path).unwrap();
    assert!(text == generated, "{} is stale: UPDATE_DOCS=1 cargo test --lib documented", path.display());
}

/// Returns the defaults of the page, and Debezium's own defaults of other options that are used.
fn shown_defaults() -> String {
    let rows = rows();
    let documented = rows.iter().map(|Row { key, defaults, .. }| {
        let usual = &defaults["at_least_once"];
        let others = defaults.iter().filter(|(_, default)| *default != usual);
        let others = others.map(|(guarantee, default)| format!("\t{guarantee}={default}"));
        let line = format!("{}\t{usual}{}", canonical(key), others.collect::<String>());
        line.replace("-state.srv", "-state<topic.delimiter><topic.prefix>")
    });
    let debeziums = DEBEZIUM.lines().skip(1).filter_map(|line| {
        let (key, default) = line.split_once('\t').filter(|(_, default)| !default.is_empty())?;
        let status = keys::lookup(key)?.status;
        let of_changes = status == Status::Changes;
        let is_used = of_changes || matches!(status, Status::Used | Status::Better);
        let is_used = is_used && !key.starts_with("value.converter.");
        let is_told = OTHERWISE.contains(&key) || rows.iter().any(|row| row.key == key);
        let key = key.replace("transforms.outbox.", "transforms.<alias>.");
        let mark = if of_changes { "\tchanges" } else { "" };
        (is_used && !is_told).then(|| format!("{}\t{default}{mark}", canonical(&key)))
    });
    let mut lines: Vec<_> = documented.chain(debeziums).collect();
    lines.sort();
    lines.dedup();
    format!("key\tdefault\n{}\n", lines.join("\n"))
}

/// Returns the canonical form of a key.
fn canonical(written: &str) -> String {
    let [key] = spelling::canonical(written).try_into().unwrap();
    key
}

#[test]
fn documented_ranges_are_those_of_the_program() {
    let mut checked = 0;
    for Row { key, range, .. } in rows() {
        let Some((least, most)) = range else { continue };
        let allowed = |value: i64| effect("at_least_once", &key, Some(&value.to_string())).is_ok();
        assert!(allowed(least) && !allowed(least - 1), "{key}: from {least}");
        if let Some(most) = most {
            assert!(allowed(most) && !allowed(most + 1), "{key}: to {most}");
        }
        checked += 1;
    }
    assert!(checked > 5, "{checked}");
}

/// Checks phrases such as "`KEY` (25 s)", anywhere in the documents and in the comments of the code.
#[test]
fn defaults_in_sentences_are_those_of_the_tables() {
    let rows = rows();
    let (mut found, mut wrong) = (0, Vec::new());
    for (path, text) in documents() {
        for Row { key, defaults, .. } in &rows {
            for behind in text.split(&format!("`{key}`")).skip(1) {
                let leads = [" (", ", ", " is ", " says ("];
                let named = leads.iter().find_map(|lead| behind.strip_prefix(lead)).and_then(amount);
                let Some(named) = named else { continue };
                found += 1;
                if !defaults.values().any(|default| default.parse() == Ok(named)) {
                    wrong.push(format!("{}: `{key}` is said to be {named}", path.display()));
                }
            }
        }
    }
    assert!(found > 0, "no sentence was found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn examples_can_be_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let mut loaded = Vec::new();
    for page in ["README.md", "docs/configuration.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        for block in text.split("```").skip(1).step_by(2) {
            let (kind, example) = block.split_once('\n').unwrap();
            if !["properties", "json"].contains(&kind) || !example.contains("bootstrap.servers") {
                continue;
            }
            let file = folder.path().join("outbox").with_extension(kind);
            fs::write(&file, example).unwrap();
            let environment = vec![("PGPASSWORD".into(), "hunter2".into())];
            let config = Config::load(&Sources { files: vec![file], environment, overrides: vec![] });
            loaded.push(effect_of(&config.unwrap_or_else(|error| panic!("{page}: {error:?}"))));
        }
    }
    assert_eq!(loaded.len(), 3, "one in the README, two in the configuration");
    assert_eq!(loaded[1], loaded[2], "properties and JSON say the same");
}

#[test]
fn amounts_are_read_with_their_units() {
    let cases = [
        ("25 s) and", Some(25_000)),
        ("3,500), or", Some(3_500)),
        ("4 MiB)", Some(4 << 20)),
        ("10 GiB)", Some(10 << 30)),
        ("100 ms", Some(100)),
        ("50) of", Some(50)),
        ("and so on", None),
    ];
    for (text, expected) in cases {
        assert_eq!(amount(text), expected, "{text}");
    }
}

/// Returns the options that a configuration results in, without the settings themselves.
fn effect(guarantee: &str, key: &str, value: Option<&str>) -> Result<String, ConfigError> {
    let own = format!("{key}=");
    let guarantee = format!("outboxd.delivery.guarantee={guarantee}");
    let context = CONTEXT.iter().copied().chain([guarantee.as_str()]).filter(|line| !line.starts_with(&own));
    let said = value.map(|value| format!("{own}{value}"));
    let overrides = context.map(str::to_owned).chain(said).collect();
    Ok(effect_of(&Config::load(&Sources { overrides, ..Sources::default() })?))
}

fn effect_of(config: &Config) -> String {
    let metrics = (config.debezium_metrics, config.former_metrics);
    let topics = (&config.topic_delimiter, config.extended_headers, metrics, config.tracing);
    format!("{:?}", (&config.postgres, &config.kafka, &config.relay, &config.columns, topics))
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let mut rows = Vec::new();
    let mut columns: Vec<String> = Vec::new();
    for line in page.lines() {
        let Some(line) = line.strip_prefix("| ") else {
            columns.clear();
            continue;
        };
        let cells: Vec<String> =
            line.trim_end_matches('|').split(" |").map(|cell| cell.trim().to_owned()).collect();
        if columns.is_empty() {
            columns = cells;
            continue;
        }
        if columns[0] == "key" && columns.get(1).is_some_and(|name| name == "default") {
            let range = (columns[2] == "range").then(|| range(&cells[2])).flatten();
            rows.extend(row(&cells[0], &cells[1], range));
        }
    }
    rows
}

/// Parses a row. Returns `None` if the default is empty or a sentence, which outboxd's own keys must not have.
fn row(keys: &str, default: &str, range: Option<(i64, Option<i64>)>) -> Option<Row> {
    let key = keys.strip_prefix('`').and_then(|key| key.strip_suffix('`'))?;
    if key.contains(['<', '*', '`', ',']) || default.is_empty() {
        return None;
    }
    let mut parts = default.split(';').map(str::trim);
    let Some(first) = parts.next().and_then(value) else {
        assert!(!key.starts_with("outboxd."), "{key}: the default {default} cannot be checked");
        return None;
    };
    let mut defaults = BTreeMap::from(GUARANTEES.map(|guarantee| (guarantee, first.clone())));
    for part in parts {
        let guarantee = GUARANTEES.into_iter().find(|name| part.replace(' ', "_").contains(name));
        defaults.insert(guarantee.unwrap(), value(part).unwrap());
    }
    Some(Row { key: key.to_owned(), defaults, range })
}

/// Parses a value in backticks such as `fail`, or the number at the beginning of the text.
fn value(text: &str) -> Option<String> {
    if let Some((code, _)) = text.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
        let code = code.replace("<topic.prefix>", "srv");
        return (!code.contains('<')).then_some(code);
    }
    let number = text.split(|c: char| !c.is_ascii_digit() && c != '-').next()?;
    number.parse::<i64>().is_ok().then(|| number.to_owned())
}

/// Parses a range: `1 to 100`, `1 to 2^40`, `from 1`.
fn range(text: &str) -> Option<(i64, Option<i64>)> {
    let number = |text: &str| match text.split_once('^') {
        Some((base, exponent)) => Some(base.parse::<i64>().ok()?.pow(exponent.parse().ok()?)),
        None => text.parse().ok(),
    };
    match text.strip_prefix("from ") {
        Some(least) => Some((number(least)?, None)),
        None => text.split_once(" to ").and_then(|(least, most)| Some((number(least)?, Some(number(most)?)))),
    }
}

/// Parses an amount such as `25 s`, `3,500` or `4 MiB` into the unit of the keys, which is milliseconds or bytes.
fn amount(text: &str) -> Option<i64> {
    let number = text.split(|c: char| !c.is_ascii_digit() && c != ',' && c != ' ').next()?;
    let behind = text.strip_prefix(number)?;
    let number: i64 = number.replace([',', ' '], "").parse().ok()?;
    let unit = behind.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let units = [("s", 1_000), ("min", 60_000), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    Some(number * units.iter().find(|(name, _)| *name == unit).map_or(1, |(_, factor)| *factor))
}

/// Returns all pages of the documentation and all code, with their paths.
fn documents() -> Vec<(PathBuf, String)> {
    let is_ours = |path: &Path| path.extension().is_some_and(|it| it == "md" || it == "rs");
    let mut files: Vec<PathBuf> = files_in(root());
    for folder in ["docs", "docs/adr", "docs/migrate"] {
        files.extend(files_in(&root().join(folder)));
    }
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        folders.extend(entries.filter(|path| path.is_dir()));
        files.extend(files_in(&folder));
    }
    let ours = files.into_iter().filter(|path| is_ours(path) && !path.ends_with(file!()));
    ours.map(|path| (path.clone(), fs::read_to_string(&path).unwrap())).collect()
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
