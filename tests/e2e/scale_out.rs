//! Several processes share one outbox: each has a slot and a publication whose row filter takes its share of the keys.

use outboxd::internals::throwaway::{ThrowawayPostgres, unused_port};

use crate::support::backlog::Backlog;
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually};

const EVENTS: u64 = 2_000;

#[test]
fn two_processes_share_an_outbox_by_key_and_keep_each_keys_order() {
    share(postgres15());
    share(postgres18());
}

fn share(server: &ThrowawayPostgres) {
    let db = Outbox::create(server);
    let topic = db.topic(Backlog::TYPE);
    kafka().create_topic(&topic, 3, &[]);
    let relays = [0, 1].map(|share| Sharer::start(&db, share));
    let backlog = Backlog { key_count: 40 };
    backlog.insert(&db, 0..EVENTS, 7);
    let end = db.current_wal_lsn().to_string();
    let confirmed = "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE $1 || '%' AND
                     confirmed_flush_lsn >= $2::text::pg_lsn";
    eventually(DEADLINE, "both slots are confirmed", || {
        db.query(confirmed, &[&db.name(), &end])[0].get::<_, i64>(0) == 2
    });
    assert_eq!(backlog.check(&kafka().records(&topic), 0..EVENTS), 0, "repeats");
    let shares = relays.map(|relay| relay.stop(&topic));
    assert!(shares.iter().all(|share| *share > 0.0), "{shares:?}");
}

struct Sharer {
    relay: Relay,
    /// Of its status.
    port: u16,
}

impl Sharer {
    fn start(db: &Outbox, share: usize) -> Self {
        let name = format!("{}_{share}", db.name());
        db.execute(&format!(
            "CREATE PUBLICATION {name} FOR TABLE outbox
             WHERE ((hashtextextended(aggregateid, 0) % 2 + 2) % 2 = {share}) WITH (publish = 'insert')"
        ));
        let port = unused_port().unwrap();
        let settings = [
            ("slot.name", name.as_str()),
            ("publication.name", &name),
            ("publication.autocreate.mode", "disabled"),
            ("snapshot.mode", "no_data"),
        ];
        let relay =
            Relay::start_with(&with(db.config(kafka()), &settings), &["--http", &port.to_string()], &[]);
        get_until(port, "/readyz", "is ready", |page| page.code == 200);
        Self { relay, port }
    }

    /// Stops it; how many events it has published.
    fn stop(self, topic: &str) -> f64 {
        let series = format!("outboxd_events_published_total{{topic=\"{topic}\"}}");
        let page = get_until(self.port, "/metrics", "counts", |page| page.sample(&series).is_some());
        assert_eq!(self.relay.stop(), 0);
        page.sample(&series).unwrap_or_default()
    }
}
