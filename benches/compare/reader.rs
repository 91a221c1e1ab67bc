//! outboxd's own reading with nothing behind it: takes what the walsender sends and throws it away.

use std::process;
use std::time::{Duration, Instant};

use outboxd::internals::postgres::{Connection, ReplicationStream, TlsSetup};
use pg_replication::replication::{ReplicationMessage, StandbyStatusUpdate, StartReplication};
use pg_replication::wal::{Lsn, PgTimestamp};
use pg_replication::wire::READ_BYTES;
use tokio::runtime::Builder;

use crate::clock::unix_us;
use crate::contestant::Took;
use crate::drain::Trial;
use crate::lab::Lab;
use crate::usage::{Usage, usage};

const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// A reader that wakes for every message costs the walsender a wake-up for every message. After a full read more is there.
const GATHER: Duration = Duration::from_millis(4);
/// Within `wal_sender_timeout`.
const UPDATE_EVERY: Duration = Duration::from_secs(5);

/// Drains the slot in this process, so only its time is reported.
pub(crate) fn drain(trial: &Trial<'_>) -> Took {
    let before = usage(process::id());
    let start = Instant::now();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(read(trial));
    let wall = start.elapsed();
    let used = usage(process::id()).zip(before).map(|(after, before)| after.since(before));
    let usage = used.map(|used| Usage { peak_bytes: None, ..used });
    Took { wall, first: None, usage }
}

async fn read(trial: &Trial<'_>) {
    let options = trial.lab.db.address().options();
    let tls = TlsSetup::new(&options).unwrap();
    let connection = Connection::open(&options, &tls, "reader", MESSAGE_BYTES_MAX).await.unwrap();
    let command =
        StartReplication { slot: trial.slot, publication: Lab::publication(), messages: false, more: &[] };
    let mut stream = ReplicationStream::start(connection, &command).await.unwrap();
    let mut told = Instant::now();
    loop {
        let mut sent = Lsn::ZERO;
        while let Some(message) = stream.buffered().unwrap() {
            sent = sent.max(position(&message));
        }
        if sent >= trial.end {
            return;
        }
        if told.elapsed() >= UPDATE_EVERY {
            told = Instant::now();
            stream.update(&nothing_is_flushed(sent)).await.unwrap();
        }
        if stream.fill().await.unwrap() < READ_BYTES {
            tokio::time::sleep(GATHER).await;
        }
    }
}

/// Returns a position before which everything has been sent.
const fn position(message: &ReplicationMessage<'_>) -> Lsn {
    match message {
        ReplicationMessage::XLogData(data) => data.wal_start,
        ReplicationMessage::PrimaryKeepalive(keepalive) => keepalive.wal_end,
    }
}

fn nothing_is_flushed(written: Lsn) -> StandbyStatusUpdate {
    let sent_at = PgTimestamp::from_unix_us(unix_us());
    StandbyStatusUpdate { written, flushed: Lsn::ZERO, sent_at, reply_requested: false }
}
