//! A program that polls a second outbox, `polled`, and sends its events. It is right: it sends each row once, in order, whatever happens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tokio_postgres::Error;

use crate::support::session::{Address, Session};
use crate::support::wait::{DEADLINE, let_pass};

const INTERVAL: Duration = Duration::from_millis(40);

/// The mark of a row that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    SentAt,
    Status,
}

impl Mark {
    pub(crate) const fn column(self) -> &'static str {
        match self {
            Self::SentAt => "sent_at timestamptz",
            Self::Status => "status text NOT NULL DEFAULT 'NEW'",
        }
    }

    /// Returns the value of `--mark`.
    pub(crate) const fn argument(self) -> &'static str {
        match self {
            Self::SentAt => "sent_at",
            Self::Status => "status=SENT",
        }
    }

    const fn unsent(self) -> &'static str {
        match self {
            Self::SentAt => "sent_at IS NULL",
            Self::Status => "status = 'NEW'",
        }
    }

    const fn set(self) -> &'static str {
        match self {
            Self::SentAt => "sent_at = now()",
            Self::Status => "status = 'SENT'",
        }
    }
}

/// Polls until it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Poller {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Poller {
    /// Starts polling. With `sends_all` it also sends rows that have the mark, which is a mistake.
    pub(crate) fn start(
        address: &Address,
        bootstrap: &str,
        topic: &str,
        mark: Mark,
        sends_all: bool,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, session, topic) = (Arc::clone(&stop), Session::new(address.clone()), topic.to_owned());
        let mut config = ClientConfig::new();
        // As outboxd, so that a key stays in its partition.
        config.set("bootstrap.servers", bootstrap).set("partitioner", "murmur2_random");
        let producer: BaseProducer = config.create().unwrap();
        let wanted = if sends_all { "true" } else { mark.unsent() };
        let thread = thread::spawn(move || {
            let mut sent = BTreeSet::new();
            while !stopped.load(Ordering::Relaxed) {
                if poll(&session, wanted, mark, &mut sent, &producer, &topic).is_err() {
                    session.disconnect();
                }
                let_pass(INTERVAL);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Sends the rows that are not marked, and marks them. Rows in `sent` were sent before a transaction failed.
fn poll(
    session: &Session,
    wanted: &str,
    mark: Mark,
    sent: &mut BTreeSet<String>,
    producer: &BaseProducer,
    topic: &str,
) -> Result<(), Error> {
    session.try_execute("BEGIN")?;
    let rows = session.try_query(&format!(
        "SELECT id::text, aggregateid, payload FROM polled WHERE {wanted} ORDER BY created_at FOR UPDATE SKIP LOCKED"
    ))?;
    let mut ids = Vec::new();
    for row in &rows {
        let (id, key, payload): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
        ids.push(format!("'{id}'"));
        if !sent.insert(id.to_owned()) {
            continue;
        }
        let headers = OwnedHeaders::new()
            .insert(Header { key: "id", value: Some(id) })
            .insert(Header { key: "poller", value: Some("") });
        let record = BaseRecord::to(topic).key(key).payload(payload).headers(headers);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(DEADLINE).unwrap();
    if !ids.is_empty() {
        let (set, unsent, ids) = (mark.set(), mark.unsent(), ids.join(", "));
        session.try_execute(&format!("UPDATE polled SET {set} WHERE {unsent} AND id IN ({ids})"))?;
    }
    session.try_execute("COMMIT")
}
