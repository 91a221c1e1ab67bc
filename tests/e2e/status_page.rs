//! The status page, in a real browser without scripts.

use outboxd::internals::throwaway::unused_port;

use crate::support::browser::{Browser, Look};
use crate::support::http::{get_until, try_get};
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::Relay;

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
        assert!(browser.screenshot().starts_with(b"\x89PNG"));
        browser.evaluate("getComputedStyle(document.body).backgroundColor")
    });
    assert_ne!(grounds[0], grounds[1], "dark is not light");
    assert_eq!((&grounds[0], &grounds[1]), (&grounds[2], &grounds[3]));
}
