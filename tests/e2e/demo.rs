//! `outboxd demo`: a whole system that shows its events and leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};

use crate::printed_lines::tool_line;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::Relay;
use crate::support::session::{Address, Session};
use crate::support::wait::{DEADLINE, eventually, eventually_some};

/// Folder of throwaway servers.
const PARENT: &str = "/var/tmp";
/// The process that keeps the server, and the server, name their folder on the command line.
const FOLDER: &str = "outboxd-postgres-";

#[test]
fn it_shows_every_event_and_ends_by_itself() {
    let mut demo = Relay::command(&["demo", "--for", "5s"]);
    let folder = folder_of(&demo);
    assert_eq!(demo.wait_for_exit(DEADLINE), 0, "{}", demo.stderr());
    let (records, talk) = (demo.stdout(), demo.stderr());
    let created = records.lines().filter(|line| line.contains("eventType=OrderCreated")).count();
    assert!(created > 2, "{records}");
    assert!(records.lines().all(|line| line.starts_with("outbox.event.order partition=")), "{records}");
    assert!(!records.contains('\u{1b}') && !talk.contains('\u{1b}'));
    assert!(talk.contains("none missing") && talk.contains("commit → ack"), "{talk}");
    let received = format!("{} received", records.lines().count());
    assert!(talk.contains(&received), "{received}: {talk}");
    assert!(!is_there(&folder));
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    for says in [None, Some("Ctrl-C stops")] {
        let mut demo = Relay::command(&["demo"]);
        let folder = folder_of(&demo);
        if let Some(text) = says {
            demo.wait_for_stderr(text);
        }
        demo.interrupt();
        assert_eq!(demo.wait_for_exit(DEADLINE), 0, "{says:?}: {}", demo.stderr());
        assert!(!is_there(&folder), "{says:?}");
    }
}

#[test]
fn a_kill_leaves_nothing_behind() {
    let mut demo = Relay::command(&["demo"]);
    let folder = folder_of(&demo);
    demo.wait_for_stderr("Ctrl-C stops");
    demo.kill();
    eventually(DEADLINE, "server and folder are gone", || !is_there(&folder));
}

#[test]
fn rows_of_others_are_shown_too() {
    let mut demo = Relay::command(&["demo", "--rate", "1"]);
    let hint = demo.wait_for_stderr("INSERT INTO public.outbox");
    let url = hint.split('\'').nth(1).unwrap().to_owned();
    let port = url.rsplit_once(':').unwrap().1.split_once('/').unwrap().0.parse().unwrap();
    let session =
        Session::new(Address { port, database: "shop".to_owned(), ..Address::of(postgres18(), "shop") });
    session.execute(
        "INSERT INTO public.outbox (aggregate_type, aggregate_id, event_type, payload)
         VALUES ('order', '7', 'OrderPraised', '{}')",
    );
    eventually(DEADLINE, "the record is shown", || {
        demo.stdout().contains("eventType=OrderPraised latency=- value={}")
    });
    drop(session);
    demo.interrupt();
    assert_eq!(demo.wait_for_exit(DEADLINE), 0);
    assert!(demo.stderr().contains("1 more that were not the demo's own"), "{}", demo.stderr());
}

#[test]
fn servers_of_the_user_are_left_as_they_were() {
    let db = Outbox::create(postgres18());
    let url = format!("postgresql://postgres@127.0.0.1:{}/{}", postgres18().port(), db.name());
    let arguments = ["demo", "--postgres", &url, "--kafka", &kafka().bootstrap()];
    // The topic of a demo that has died.
    kafka().create_topic("outboxd_demo.event.order", 1, &[]);
    let mut refused = Relay::command(&arguments);
    assert_eq!(refused.wait_for_exit(DEADLINE), 3, "{}", refused.stderr());
    kafka().run_tool(tool_line(&refused.stderr()));
    eventually(DEADLINE, "the topic is deleted", || kafka().topics("outboxd_demo.").is_empty());
    let mut demo = Relay::command(&arguments);
    demo.wait_for_stderr("Ctrl-C stops");
    assert_eq!(kafka().topics("outboxd_demo."), ["outboxd_demo.event.order"]);

    let mut second = Relay::command(&arguments);
    assert_eq!(second.wait_for_exit(DEADLINE), 3);
    assert!(second.stderr().contains("already has topic outboxd_demo.event.order"), "{}", second.stderr());
    let mut second = Relay::command(&arguments[..3]);
    assert_eq!(second.wait_for_exit(DEADLINE), 3);
    let refusal = second.stderr();
    assert!(
        refusal.contains("schema outboxd_demo, publication outboxd_demo, replication slot outboxd_demo"),
        "{refusal}"
    );

    eventually(DEADLINE, "a record is shown", || {
        demo.stdout().contains("outboxd_demo.event.order partition=")
    });
    demo.interrupt();
    assert_eq!(demo.wait_for_exit(DEADLINE), 0, "{}", demo.stderr());
    let left = db.query(
        "SELECT nspname FROM pg_namespace WHERE nspname = 'outboxd_demo'
         UNION ALL SELECT pubname FROM pg_publication WHERE pubname = 'outboxd_demo'
         UNION ALL SELECT slot_name FROM pg_replication_slots WHERE slot_name = 'outboxd_demo'",
        &[],
    );
    assert!(left.is_empty(), "{left:?}");
    eventually(DEADLINE, "the topic is deleted", || kafka().topics("outboxd_demo.").is_empty());
}

/// Returns the folder of the demo's server. It is an argument of the keeper, which is a child of one of the demo's
/// threads.
fn folder_of(demo: &Relay) -> PathBuf {
    let threads = format!("/proc/{}/task", demo.id());
    let prefix = format!("{PARENT}/{FOLDER}");
    eventually_some(DEADLINE, "the demo starts PostgreSQL", || {
        let threads = fs::read_dir(&threads).ok()?.flatten();
        let children: String =
            threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
        let mut lines =
            children.split_whitespace().filter_map(|id| fs::read(format!("/proc/{id}/cmdline")).ok());
        lines.find_map(|line| {
            let line = String::from_utf8_lossy(&line).into_owned();
            line.split('\0').find(|word| word.starts_with(&prefix)).map(PathBuf::from)
        })
    })
}

/// Returns whether the folder, or a process that names it, is left.
fn is_there(folder: &Path) -> bool {
    let name = folder.as_os_str().as_encoded_bytes();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    folder.exists() || lines.any(|line| line.windows(name.len()).any(|window| window == name))
}
