//! Sessions of docs/commands.md and docs/operations.md that belong to no command's own tests.

use std::fs;
use std::path::Path;

use outboxd::internals::throwaway::unused_port;

use super::session::Session;
use super::{event, run};
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::{Relay, with};
use crate::support::watcher::Watcher;

const COMMANDS: &str = include_str!("../../../docs/commands.md");
const OPERATIONS: &str = include_str!("../../../docs/operations.md");

/// Each command is shown somewhere as it is typed. That sessions are what is seen is shown by the tests that replay them.
#[test]
fn each_command_has_a_session() {
    let typed = typed_in(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")));
    let folder = Watcher::new("outboxd-commands-");
    assert_eq!(run(&["man", "--into", folder.folder().to_str().unwrap()]).0, 0);
    let pages = fs::read_dir(folder.folder()).unwrap().map(|page| page.unwrap().file_name());
    let pages: Vec<_> =
        pages.filter_map(|page| page.to_str()?.strip_suffix(".1").map(str::to_owned)).collect();
    let has_commands = |page: &String| pages.iter().any(|other| other.starts_with(&format!("{page}-")));
    let commands: Vec<_> = pages.iter().filter(|page| !has_commands(page)).collect();
    assert!(commands.len() > 25, "{commands:?}");
    let is_shown = |command: &str| typed.iter().any(|typed| typed.starts_with(&format!("{command}-")));
    let lacking: Vec<_> = commands.into_iter().filter(|command| !is_shown(command)).collect();
    assert!(lacking.is_empty(), "no session in docs: {lacking:?}");
}

/// Returns the command lines of the sessions in these pages, with a hyphen after each word, like the name of a `man`
/// page.
fn typed_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, pages): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let pages = pages.iter().filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut typed: Vec<String> = folders.iter().flat_map(|folder| typed_in(folder)).collect();
    for page in pages {
        let text = fs::read_to_string(page).unwrap();
        let sessions = text.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
        let lines = sessions.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ "));
        typed.extend(lines.map(|line| line.split(' ').map(|word| format!("{word}-")).collect::<String>()));
    }
    typed
}

#[test]
fn a_start_is_checked_and_runs_as_shown() {
    let db = Outbox::create(postgres18());
    let (port, folder) = (unused_port().unwrap(), Watcher::new("outboxd-commands-"));
    kafka().create_topic(&db.topic("order"), 1, &[]);
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&db.config(kafka())).unwrap()).unwrap();
    let names = [("outbox.json", file), ("8080", port.to_string()), ("orders", db.name().to_owned())];
    assert_eq!(Session::of(OPERATIONS, "Commands").replay(&names), [0, 0]);
}

#[test]
fn the_demo_is_what_is_seen() {
    assert_eq!(Session::of(COMMANDS, "Demo: outboxd demo").replay(&[]), [0]);
}

#[test]
fn the_screen_is_what_is_seen() {
    let db = Outbox::create(postgres18());
    let [first, second] = [unused_port().unwrap(), unused_port().unwrap()];
    let config = with(db.config(kafka()), &[]);
    let start = |port: u16| Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    let _relay = start(first);
    db.wait_until_streaming();
    let _standby = start(second);
    get_until(second, "/status", "stands by", |page| page.body.contains("standby"));
    db.insert(&[event("order", 1), event("order", 2), event("payment", 3)]);
    get_until(first, "/status", "has sent and confirmed them", |page| {
        let seen = page.json();
        seen["events"]["sent"] == 3 && seen["lag"]["bytes"] == 0 && seen["slot"]["retained_bytes"].is_u64()
    });
    let names = [("8080", first.to_string()), ("8081", second.to_string()), ("orders", db.name().to_owned())];
    assert_eq!(Session::of(COMMANDS, "Dashboard: outboxd top").replay_on_screen(&names), Some(0));
}

#[test]
fn what_a_shell_and_man_are_given_is_what_is_seen() {
    let folder = Watcher::new("outboxd-commands-");
    let names = [("/usr/local/share/man/man1", folder.folder().join("man1").display().to_string())];
    assert_eq!(Session::of(COMMANDS, "Shell completions and man pages").replay(&names), [0, 0]);
    assert!(folder.folder().join("man1/outboxd.1").exists());
}
