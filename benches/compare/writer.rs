use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::interval;
use tokio_postgres::{Client, NoTls};

use crate::support::session::Address;

/// The payload contains the time at which it was written, before the commit.
const INSERT: &str = "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
    SELECT gen_random_uuid(), 'order', 'o-' || ($1::bigint + n) % 1000, 'OrderCreated', jsonb_build_object(
        't', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 'filling', repeat('x', $3::int))
    FROM generate_series(1, $2::bigint) AS n";
/// Approximate size of the payload without the filling.
const PAYLOAD_BYTES_BESIDE: u64 = 45;

/// Load of the writer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// The time from one transaction to the next; those that come late are made up for.
    pub(crate) every: Duration,
    /// Rows of a transaction.
    pub(crate) rows: u64,
    /// Bytes of a payload, about.
    pub(crate) payload: u64,
}

/// Commits transactions at a steady rate, from a thread of its own, until it is stopped.
#[derive(Debug)]
pub(crate) struct Writer {
    progress: Arc<Progress>,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Progress {
    written: AtomicU64,
    stopped: AtomicBool,
}

impl Writer {
    pub(crate) fn start(address: &Address, load: Load) -> Self {
        let progress = Arc::new(Progress::default());
        let (shared, address) = (Arc::clone(&progress), address.clone());
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(write(&address, load, &shared));
        });
        Self { progress, thread }
    }

    /// Returns the number of committed rows. Panics if the writer has failed.
    pub(crate) fn written(&self) -> u64 {
        assert!(!self.thread.is_finished(), "nothing is written any more");
        self.progress.written.load(Ordering::Relaxed)
    }

    /// Stops the writer and returns the number of all committed rows.
    pub(crate) fn stop(self) -> u64 {
        self.progress.stopped.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.progress.written.load(Ordering::Relaxed)
    }
}

async fn write(address: &Address, load: Load, progress: &Progress) {
    let mut config = tokio_postgres::Config::new();
    config.host(&address.host).port(address.port).user(&address.user).dbname(&address.database);
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::select! {
        biased; // Only the connection's end is looked for first; it never comes before the writer's.
        ended = connection => panic!("the writer's connection has ended: {ended:?}"),
        () = commit(&client, load, progress) => {}
    }
}

async fn commit(client: &Client, load: Load, progress: &Progress) {
    let insert = client.prepare(INSERT).await.unwrap();
    let number = |value: u64| i64::try_from(value).unwrap();
    let filling = i32::try_from(load.payload.saturating_sub(PAYLOAD_BYTES_BESIDE)).unwrap();
    let mut ticks = interval(load.every);
    while !progress.stopped.load(Ordering::Relaxed) {
        ticks.tick().await;
        let first = number(progress.written.load(Ordering::Relaxed));
        client.execute(&insert, &[&first, &number(load.rows), &filling]).await.unwrap();
        progress.written.fetch_add(load.rows, Ordering::Relaxed);
    }
}
