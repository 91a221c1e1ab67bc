//! The status page, in a real browser without scripts.

use outboxd::internals::throwaway::unused_port;
use serde_json::Value;

use crate::dead_letters;
use crate::support::browser::{Browser, Look};
use crate::support::http::{get_until, try_get};
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Relay, with};
use crate::support::wait::DEADLINE;

const DESKTOP: Look = Look { width: 1100, height: 900, phone: false, dark: false };
const PHONE: Look = Look { width: 360, height: 780, phone: true, dark: false };

const PAYLOAD: &str = "not-for-the-page";

#[test]
fn a_person_sees_how_it_is_on_any_screen() {
    let db = Outbox::create(postgres18());
    let port = unused_port().unwrap();
    let _relay = Relay::start_with(&db.config(kafka()), &["--http", &port.to_string()], &[]);
    let event =
        |kind: &str, n: u32| Event::new(kind, &n.to_string(), "Made", &format!("{{\"x\":\"{PAYLOAD}\"}}"));
    db.wait_until_streaming();
    db.insert(&[event("order", 1), event("order", 2), event("payment", 3)]);
    db.insert(&[event("order", 4)]);
    let seen = get_until(port, "/status", "has the events", |page| page.json()["events"]["sent"] == 4).json();
    assert_eq!(
        (&seen["state"]["words"], &seen["state"]["level"]),
        (&"streaming".into(), &"well".into()),
        "{seen}"
    );
    assert_eq!(seen["topics"][0]["topic"], db.topic("order"), "{seen}");
    assert_eq!(seen["source"]["database"], db.name());

    let html = try_get(port, "/").unwrap().body;
    assert!(!html.contains("<script") && !html.contains(PAYLOAD), "{html}");
    let outside = ["src=", "@import", "url(", "//"];
    assert!(outside.iter().all(|outside| !html.contains(outside)), "something from elsewhere: {html}");

    let icon = try_get(port, "/favicon.svg").unwrap();
    assert!(icon.code == 200 && icon.body.starts_with("<svg "), "{icon:?}");

    let grounds = [(DESKTOP, false), (DESKTOP, true), (PHONE, false), (PHONE, true)].map(|(look, dark)| {
        let browser = Browser::open(Look { dark, ..look });
        browser.visit(&format!("http://127.0.0.1:{port}/"));
        let text = browser.text();
        let topics = [db.topic("order"), db.topic("payment")];
        let words = ["streaming", db.name(), "Lag", "Slot's runway", "PostgreSQL", "Kafka", "15 min ago"];
        for word in words.into_iter().chain(topics.iter().map(String::as_str)) {
            assert!(text.contains(word), "{word:?} is not in, {look:?}: {text}");
        }
        let overflow = browser.evaluate("document.documentElement.scrollWidth - window.innerWidth");
        assert!(overflow.as_i64().unwrap() <= 0, "{overflow} px too wide, {look:?}");
        let broken = browser.evaluate(BROKEN_NAMES);
        assert_eq!(broken, Value::from(""), "broken inside a word, {look:?}");
        assert!(browser.screenshot().starts_with(b"\x89PNG"));
        browser.evaluate("getComputedStyle(document.body).backgroundColor")
    });
    assert_ne!(grounds[0], grounds[1], "dark is not light");
    assert_eq!((&grounds[0], &grounds[1]), (&grounds[2], &grounds[3]));
}

/// Names, or their parts between separators, that are on more than one line.
const BROKEN_NAMES: &str = "[...document.querySelectorAll('td.name')].flatMap(cell => [...cell.childNodes])
    .filter(node => node.nodeType === Node.TEXT_NODE).filter(node => {
        const range = document.createRange();
        range.selectNodeContents(node);
        return range.getClientRects().length > 1;
    }).map(node => node.textContent).join(' ')";

/// Opens the page of a relay, once `/status` has the wanted content.
fn page_of(port: u16, what: &str, wanted: impl Fn(&Value) -> bool) -> String {
    get_until(port, "/status", what, |page| wanted(&page.json()));
    let browser = Browser::open(PHONE);
    browser.visit(&format!("http://127.0.0.1:{port}/"));
    let overflow = browser.evaluate("document.documentElement.scrollWidth - window.innerWidth");
    assert!(overflow.as_i64().unwrap() <= 0, "{overflow} px too wide");
    browser.text()
}

fn contains(text: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(text.contains(word), "{word:?} is not in: {text}"));
}

#[test]
fn a_snapshot_that_continues_is_seen() {
    let db = Outbox::create(postgres18());
    db.insert(&[Event::new("order", "1", "Made", &format!("{{\"x\":\"{PAYLOAD}\"}}"))]);
    // The server does not come to the first row.
    let settings = [
        ("snapshot.select.statement.overrides", "public.outbox"),
        (
            "snapshot.select.statement.overrides.public.outbox",
            "SELECT * FROM public.outbox WHERE pg_sleep(3600) IS NOT NULL",
        ),
    ];
    let port = unused_port().unwrap();
    let _relay = Relay::start_with(&with(db.config(kafka()), &settings), &["--http", &port.to_string()], &[]);
    let text = page_of(port, "tells of the snapshot", |seen| seen["snapshot"]["remaining"] == 1);
    contains(&text, &["sending a snapshot", "Snapshot", db.name()]);
    assert!(!text.contains(PAYLOAD), "{text}");
}

#[test]
fn dead_letters_and_rows_that_are_not_sent_are_seen() {
    let db = Outbox::create(postgres18());
    db.execute("ALTER TABLE outbox ALTER COLUMN aggregatetype DROP NOT NULL; CREATE TABLE other (n int)");
    db.execute(&format!("CREATE PUBLICATION {} FOR TABLE outbox, other", db.name()));
    let port = unused_port().unwrap();
    let relay = Relay::start_with(&dead_letters::config(&db), &["--http", &port.to_string()], &[]);
    let list = format!("outboxd dlq ls -c {}", relay.file().display());
    db.wait_until_streaming();
    let payload = format!("{{\"x\":\"{PAYLOAD}\"}}");
    db.execute(&format!("INSERT INTO outbox VALUES (gen_random_uuid(), NULL, 'o-1', 'Lost', '{payload}')"));
    db.execute("INSERT INTO other VALUES (1)");
    let both = |seen: &Value| seen["dead_letters"][0]["events"] == 1 && seen["rows_not_sent"][0]["rows"] == 1;
    let text = page_of(port, "tells of the letter and the row", both);
    let words = [
        "Dead letters since the start",
        "no topic, no partition or no timestamp",
        list.as_str(),
        "Rows not sent since the start",
        "public.other",
        "table.include.list",
    ];
    contains(&text, &words);
    assert!(!text.contains(PAYLOAD), "{text}");
    let mut status = Relay::command(&["status", "--http", &port.to_string()]);
    status.wait_for_exit(DEADLINE);
    let said = status.stdout();
    assert!(said.contains("1 letter: ") && said.contains("1 row of public.other: "), "{said}");
    // Two cannot have the port.
    let mut other = Relay::start_with(&dead_letters::config(&db), &["--http", &port.to_string()], &[]);
    assert_eq!(other.wait_for_exit(DEADLINE), 1);
    assert!(other.stderr().contains("give --http another port"), "{}", other.stderr());
}
