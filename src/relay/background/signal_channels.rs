//! Signals from a file and from a topic. Each is written to the WAL, as a logical message: so the stream brings it, in its
//! place, and again until what it asked for is done.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::error::{Diagnose as _, chain};
use crate::kafka::{self, SignalRecord, SignalTopic};
use crate::postgres::{self, Sql, TlsSetup};
use crate::relay::capture::preflight::application;
use crate::relay::capture::standby::ForwardedSignal;
use crate::relay::parts::RelayParts;
use crate::relay::pipeline::signals::SIGNAL_PREFIX;
use crate::relay::time::backoff::Backoff;
use crate::signal::Signal;

/// A longer file is none of signals.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Longest wait of the thread for a record.
const SLICE: Duration = Duration::from_millis(500);

/// Reasons why a channel could not go on.
#[derive(Debug, thiserror::Error)]
enum ChannelError {
    #[error("signal.file {path} cannot be read or emptied")]
    File { path: String, source: io::Error },
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
    #[error("the thread that reads signals was aborted")]
    Aborted,
}

impl ChannelError {
    fn fix(&self) -> Option<String> {
        match self {
            Self::Postgres(error) => error.fix(),
            Self::Kafka(error) => error.fix(),
            Self::File { .. } | Self::Aborted => None,
        }
    }
}

/// Writes signals to the WAL, on a connection of its own. On a standby it hands them to the session.
struct Scribe<'p> {
    parts: &'p RelayParts,
    tls: &'p TlsSetup,
    sql: Option<Sql>,
    hand: Option<mpsc::Sender<ForwardedSignal>>,
}

/// Polls the file of signals.
pub(in crate::relay) async fn read_file(
    parts: Arc<RelayParts>,
    tls: TlsSetup,
    hand: Option<mpsc::Sender<ForwardedSignal>>,
    stop: CancellationToken,
) {
    let Some(path) = parts.relay.signals.file.clone() else { return };
    let mut scribe = Scribe { parts: &parts, tls: &tls, sql: None, hand };
    loop {
        if stop.run_until_cancelled(sleep(parts.relay.signals.poll_interval)).await.is_none() {
            return;
        }
        let Some(taken) = stop.run_until_cancelled(take_file(&path, &mut scribe)).await else { return };
        if let Err(error) = taken {
            scribe.sql = None;
            tracing::warn!(error = chain(&error), fix = error.fix(), "cannot read signals; retrying");
        }
    }
}

/// Reads the topic of signals.
pub(in crate::relay) async fn read_topic(
    parts: Arc<RelayParts>,
    tls: TlsSetup,
    hand: Option<mpsc::Sender<ForwardedSignal>>,
    stop: CancellationToken,
) {
    let Some(topic) = parts.relay.signals.topic.clone() else { return };
    let mut scribe = Scribe { parts: &parts, tls: &tls, sql: None, hand };
    let mut backoff = Backoff::default();
    loop {
        let Some(read) = stop.run_until_cancelled(take_topic(&parts, &topic, &mut scribe)).await else {
            return;
        };
        if let Err(error) = read {
            scribe.sql = None;
            tracing::warn!(error = chain(&error), fix = error.fix(), topic, "cannot read signals; retrying");
        }
        if stop.run_until_cancelled(sleep(backoff.next(fastrand::f64()))).await.is_none() {
            return;
        }
    }
}

/// Applies the signals of the file, and then empties it.
async fn take_file(path: &Path, scribe: &mut Scribe<'_>) -> Result<(), ChannelError> {
    let failed = |source| ChannelError::File { path: path.display().to_string(), source };
    let place = path.to_owned();
    let text = in_thread(move || read(&place)).await?.map_err(failed)?;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        scribe.write(line).await?;
    }
    if text.is_empty() {
        return Ok(());
    }
    let place = path.to_owned();
    in_thread(move || empty(&place, &text)).await?.map_err(failed)
}

/// Removes from the file what was read of it. Signals that were written to it meanwhile stay for the next
/// time.
fn empty(path: &Path, taken: &str) -> io::Result<()> {
    let now = read(path)?;
    fs::write(path, now.strip_prefix(taken).unwrap_or(&now))
}

/// Returns the contents of the file, empty if there is none.
fn read(path: &Path) -> io::Result<String> {
    let size = match fs::metadata(path) {
        Ok(facts) if facts.is_file() => facts.len(),
        Ok(_) => 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    match size {
        0 => Ok(String::new()),
        1..=FILE_BYTES_MAX => fs::read_to_string(path),
        _ => Err(io::Error::other(format!("it is longer than {FILE_BYTES_MAX} bytes"))),
    }
}

async fn take_topic(parts: &RelayParts, topic: &str, scribe: &mut Scribe<'_>) -> Result<(), ChannelError> {
    let (mut options, name) = (parts.kafka.clone(), topic.to_owned());
    if let Some(servers) = &parts.relay.signals.servers {
        options.bootstrap_servers.clone_from(servers);
    }
    let group = parts.relay.signals.group.clone();
    let opening = tokio::task::spawn_blocking(move || SignalTopic::open(&options, &name, &group));
    let mut reader = opening.await.map_err(|_| ChannelError::Aborted)??;
    loop {
        let record;
        (reader, record) = in_thread(move || {
            let record = reader.next(SLICE);
            (reader, record)
        })
        .await?;
        let Some(record) = record else { continue };
        if let Some(document) = document(&record, &parts.relay.signals.key) {
            scribe.write(&document).await?;
        }
        let committed;
        (reader, committed) = in_thread(move || {
            let committed = reader.commit(&record);
            (reader, committed)
        })
        .await?;
        committed?;
    }
}

async fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ChannelError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ChannelError::Aborted)
}

/// Returns the document of a record for this relay, which has `topic.prefix` as its key.
fn document<'r>(record: &'r SignalRecord, key: &str) -> Option<Cow<'r, str>> {
    if record.key.as_deref() != Some(key.as_bytes()) {
        tracing::debug!("a signal is for another connector");
        return None;
    }
    record.value.as_deref().map(String::from_utf8_lossy)
}

impl Scribe<'_> {
    async fn write(&mut self, document: &str) -> Result<(), ChannelError> {
        if let Err(error) = Signal::parse_document(document) {
            tracing::warn!(%error, "a signal is skipped");
            return Ok(());
        }
        if let Some(hand) = &self.hand {
            let (kept, is_kept) = oneshot::channel();
            let handed = ForwardedSignal { document: document.to_owned(), kept };
            hand.send(handed).await.map_err(|_| ChannelError::Aborted)?;
            return is_kept.await.map_err(|_| ChannelError::Aborted);
        }
        let sql = match self.sql.take().filter(|sql| !sql.is_closed()) {
            Some(sql) => sql,
            None => {
                let options = &self.parts.postgres;
                Sql::open(&options.server, self.tls, &application(options)).await?
            }
        };
        let statement = "SELECT pg_logical_emit_message(true, $1, $2::text)::text";
        let sql = self.sql.insert(sql);
        sql.query("writing a signal to the WAL", statement, &[&SIGNAL_PREFIX, &document]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_to_the_file_while_it_is_read_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("signals");
        let left = |now: &str| {
            fs::write(&path, now).unwrap();
            empty(&path, "a\nb\n").unwrap();
            fs::read_to_string(&path).unwrap()
        };
        assert_eq!(left("a\nb\n"), "");
        assert_eq!(left("a\nb\nc\n"), "c\n");
        assert_eq!(left("of another file\n"), "of another file\n");
        fs::remove_file(&path).unwrap();
        empty(&path, "a\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }
}
