//! The least that a relay can do: read a row, send its payload, confirm what the broker has acknowledged. It looks at no
//! publication, keeps no position and survives no fault, so nothing can be faster for long on the same servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use outboxd::internals::postgres::{Connection, ReplicationStream, TlsSetup};
use pg_replication::pgoutput::{self, ColumnValue, Message, Tuple};
use pg_replication::replication::{ReplicationMessage, StandbyStatusUpdate, StartReplication};
use pg_replication::wal::{Lsn, PgTimestamp};
use rdkafka::ClientConfig;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::clock::unix_us;
use crate::lab::Lab;
use crate::support::session::Address;

const MESSAGE_BYTES_MAX: usize = 64 << 20;
const UPDATE_EVERY: Duration = Duration::from_secs(1);
/// Interval at which it checks whether it must stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const FLUSHED_WITHIN: Duration = Duration::from_secs(30);
/// The outbox's columns.
const ID: usize = 0;
const KEY: usize = 2;
const PAYLOAD: usize = 4;

/// A loop at work, on a thread of its own.
#[derive(Debug)]
pub(crate) struct PlainLoop {
    is_stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Counts what the broker has acknowledged.
#[derive(Debug, Clone, Default)]
struct Acknowledged(Arc<AtomicU64>);

impl rdkafka::ClientContext for Acknowledged {}

impl ProducerContext for Acknowledged {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        assert!(result.is_ok(), "the broker has refused a record");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl PlainLoop {
    pub(crate) fn start(lab: &Lab, slot: &str, topic: &str) -> Self {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_stopping);
        let (address, bootstrap) = (lab.db.address().clone(), lab.kafka.bootstrap());
        let (slot, topic) = (slot.to_owned(), topic.to_owned());
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(relay(&address, &bootstrap, (&slot, &topic), &stop));
        });
        Self { is_stopping, thread }
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it has failed before.
    pub(crate) fn stop(self) -> Result<(), String> {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the loop has panicked".to_owned())
    }
}

async fn relay(address: &Address, bootstrap: &str, (slot, topic): (&str, &str), stop: &AtomicBool) {
    let acknowledged = Acknowledged::default();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("enable.idempotence", "true").set("linger.ms", "0");
    let producer: ThreadedProducer<Acknowledged> = config.create_with_context(acknowledged.clone()).unwrap();
    let mut stream = open(address, slot).await;
    let (mut sent, mut committed, mut told) = (0, Lsn::ZERO, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        while let Some(message) = stream.buffered().unwrap() {
            let ReplicationMessage::XLogData(data) = message else { continue };
            match pgoutput::decode(data.data).unwrap() {
                Message::Insert { new, .. } => {
                    send(&producer, topic, &new);
                    sent += 1;
                }
                Message::Commit(commit) => committed = commit.end_lsn,
                _ => {}
            }
        }
        if told.elapsed() >= UPDATE_EVERY && acknowledged.0.load(Ordering::Relaxed) == sent {
            told = Instant::now();
            stream.update(&confirmed(committed)).await.unwrap();
        }
        if let Ok(read) = timeout(LOOK_EVERY, stream.fill()).await {
            read.unwrap();
        }
    }
    producer.flush(FLUSHED_WITHIN).unwrap();
    stream.finish().await.unwrap();
}

async fn open(address: &Address, slot: &str) -> ReplicationStream {
    let options = address.options();
    let tls = TlsSetup::new(&options).unwrap();
    let connection = Connection::open(&options, &tls, "loop", MESSAGE_BYTES_MAX).await.unwrap();
    let command = StartReplication { slot, publication: Lab::publication(), messages: false, more: &[] };
    ReplicationStream::start(connection, &command).await.unwrap()
}

fn send(producer: &ThreadedProducer<Acknowledged>, topic: &str, row: &Tuple<'_>) {
    let id = Header { key: "id", value: Some(text(row, ID)) };
    let record = BaseRecord::to(topic).key(text(row, KEY)).payload(text(row, PAYLOAD));
    producer.send(record.headers(OwnedHeaders::new().insert(id))).map_err(|(error, _)| error).unwrap();
}

fn text<'r>(row: &Tuple<'r>, column: usize) -> &'r [u8] {
    match row.get(column) {
        Some(ColumnValue::Text(text)) => text,
        other => panic!("column {column} is {other:?}"),
    }
}

fn confirmed(lsn: Lsn) -> StandbyStatusUpdate {
    let sent_at = PgTimestamp::from_unix_us(unix_us());
    StandbyStatusUpdate { written: lsn, flushed: lsn, sent_at, reply_requested: false }
}
