use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use super::shape::Shape;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::session::Session;
use crate::support::wait::{DEADLINE, let_pass};

const INTERVAL: Duration = Duration::from_millis(50);

/// With this variable another program polls: a real one. See pollers/README.md.
const OTHER: &str = "OUTBOXD_TEST_POLLER";

/// A polling relay: its SQL is that of the articles that pollers are copied from, with its defects.
#[derive(Debug)]
pub(crate) enum Poller {
    Ours { stop: Arc<AtomicBool>, thread: Option<JoinHandle<()>> },
    Other(Child),
}

impl Poller {
    pub(crate) fn start(db: &Outbox, shape: Shape, topic: &str) -> Self {
        if let Some(program) = std::env::var_os(OTHER) {
            let address = db.address();
            let password = address.password.as_deref().unwrap_or_default();
            let dsn = format!(
                "host={} port={} user={} password='{password}' dbname={} sslmode=disable",
                address.host, address.port, address.user, address.database
            );
            let mut command = Command::new(program);
            command.args([shape.name, &dsn, &kafka().bootstrap(), topic]).stdin(Stdio::null());
            return Self::Other(command.spawn().unwrap());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, session, topic) =
            (Arc::clone(&stop), Session::new(db.address().clone()), topic.to_owned());
        let thread = thread::spawn(move || {
            let producer: BaseProducer =
                ClientConfig::new().set("bootstrap.servers", kafka().bootstrap()).create().unwrap();
            while !stopped.load(Ordering::Relaxed) {
                batch(&session, shape, &producer, &topic);
                let_pass(INTERVAL);
            }
        });
        Self::Ours { stop, thread: Some(thread) }
    }

    /// Lets it send its batch and end.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        match self {
            Self::Ours { stop, thread } => {
                stop.store(true, Ordering::Relaxed);
                if let Some(thread) = thread.take() {
                    drop(thread.join());
                }
            }
            Self::Other(process) => {
                drop(process.kill());
                drop(process.wait());
            }
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.end();
    }
}

fn batch(session: &Session, shape: Shape, producer: &BaseProducer, topic: &str) {
    let Shape { table, unsent, set, .. } = shape;
    let select = format!("SELECT id::text, aggregate_id, payload::text FROM {table} WHERE {unsent}");
    if shape.locks {
        session.execute("BEGIN");
        let select = format!("{select} ORDER BY created_at ASC LIMIT 100 FOR UPDATE SKIP LOCKED");
        let ids: Vec<String> = send(session, &select, producer, topic);
        session.query(&format!("UPDATE {table} SET {set} WHERE id = ANY($1::text[]::uuid[])"), &[&ids]);
        session.execute("COMMIT");
        return;
    }
    for id in send(session, &select, producer, topic) {
        session.query(&format!("UPDATE {table} SET {set} WHERE id = $1::text::uuid"), &[&id]);
    }
}

/// Sends what a query brings, and waits until Kafka has it.
fn send(session: &Session, select: &str, producer: &BaseProducer, topic: &str) -> Vec<String> {
    let rows = session.query(select, &[]);
    for row in &rows {
        let (id, key, payload): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
        let headers = OwnedHeaders::new()
            .insert(Header { key: "id", value: Some(id) })
            .insert(Header { key: "poller", value: Some("") });
        let record = BaseRecord::to(topic).key(key).payload(payload).headers(headers);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(DEADLINE).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}
