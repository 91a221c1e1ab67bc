//! Posts notifications of snapshots to an HTTP server (`notification.enabled.channels=http`), beside
//! everything else: a server that is away delays nothing.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, Uri, header};
use openssl::ssl::SslConnector;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::mailbox::{Mailbox, Posting};
use crate::error::chain;
use crate::http_client::{Address, USER_AGENT, connect, connector, exchange, secure};
use crate::secret::Secret;
use crate::telemetry::Metrics;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The last notification of a snapshot is tried again at least so often, as in Debezium.
const LAST_RETRIES_MIN: u32 = 3;

/// The first wait before a notification is posted again, twice as long each time, and the longest; as in Debezium.
const WAIT: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Longest wait at the end for postings that are left, as in Debezium.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Destination of notifications. `Debug` shows neither user nor path: a path may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PostOptions {
    /// Address without the path.
    address: Address,
    /// Host and port, as they stand in the URL.
    host: String,
    /// Path and query, likewise.
    target: Secret,
    /// Timeout of a posting.
    timeout: Duration,
    /// Retries of a posting.
    retries: u32,
}

impl PostOptions {
    /// Creates the options; `None` when it is no URL of HTTP.
    pub(crate) fn new(url: &str, timeout: Duration, retries: u32) -> Option<Self> {
        let (mut address, uri) = (Address::parse(url)?, url.trim().parse::<Uri>().ok()?);
        let host = uri.authority()?.as_str().rsplit('@').next()?.to_owned();
        address.path.clear();
        let target = Secret::new(uri.path_and_query().map_or("/", |target| target.as_str()));
        Some(Self { address, host, target, timeout, retries })
    }
}

/// The notifications on their way, and where they go.
#[derive(Debug, Clone)]
pub(crate) struct NotificationPosts {
    options: PostOptions,
    mailbox: Mailbox,
    woken: Arc<Notify>,
}

/// Task that posts them.
#[derive(Debug)]
pub(in crate::relay) struct Poster {
    posts: NotificationPosts,
    metrics: Metrics,
    task: JoinSet<()>,
    stop: CancellationToken,
}

impl NotificationPosts {
    /// Creates it with an empty mailbox.
    pub(crate) fn new(options: PostOptions) -> Self {
        let woken = Arc::new(Notify::new());
        let waker = Arc::clone(&woken);
        Self { options, mailbox: Mailbox::new(move || waker.notify_one()), woken }
    }

    pub(in crate::relay) const fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Begins to post.
    pub(in crate::relay) fn start(&self, metrics: Metrics) -> Poster {
        let (mut task, stop) = (JoinSet::new(), CancellationToken::new());
        let losses = Losses { url: self.options.address.to_string(), metrics: metrics.clone(), count: 0 };
        task.spawn(run(self.clone(), losses, stop.clone()));
        Poster { posts: self.clone(), metrics, task, stop }
    }

    /// Posts a notification, with retries. The error has the number of attempts and the last cause.
    async fn deliver(&self, posting: &Posting) -> Result<(), (u32, io::Error)> {
        let retries = self.options.retries.max(if posting.is_last { LAST_RETRIES_MIN } else { 0 });
        let (mut wait, mut attempts) = (WAIT, 0_u32);
        loop {
            attempts = attempts.saturating_add(1);
            match self.post(posting).await {
                Ok(()) => return Ok(()),
                Err(error) if attempts > retries => return Err((attempts, error)),
                Err(error) => tracing::debug!(error = chain(&error), "a notification is posted again soon"),
            }
            sleep(wait).await;
            wait = wait.saturating_mul(2).min(WAIT_MAX);
        }
    }

    async fn post(&self, posting: &Posting) -> io::Result<()> {
        let limit = self.options.timeout;
        let late = || {
            let why = format!("no answer within {} ms", limit.as_millis());
            io::Error::new(io::ErrorKind::TimedOut, why)
        };
        let asked = timeout(limit, self.ask(posting.body.clone(), limit)).await;
        match asked.unwrap_or_else(|_| Err(late()))? {
            200..=299 => Ok(()),
            status => Err(io::Error::other(format!("the server answers {status}"))),
        }
    }

    async fn ask(&self, body: String, patience: Duration) -> io::Result<u16> {
        let PostOptions { address, host, target, .. } = &self.options;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(target.expose())
            .header(header::HOST, host)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, USER_AGENT);
        if let Some(user) = &address.user {
            request = request.header(header::AUTHORIZATION, user.header());
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(io::Error::other)?;
        let transport = connect(address).await?;
        let transport = match address.tls {
            true => {
                let tls: SslConnector = connector(None)?;
                secure(transport, &address.host, tls.configure()?).await?
            }
            false => transport,
        };
        exchange(transport, request, patience, read).await
    }
}

impl Poster {
    /// Waits a little for what is still to be posted.
    pub(in crate::relay) async fn end(mut self) {
        self.stop.cancel();
        let in_time = timeout(END_PATIENCE, self.task.join_next()).await.is_ok();
        self.task.shutdown().await;
        let left_out = self.posts.mailbox.clear();
        if !in_time && left_out > 0 {
            self.metrics.notifications_lost(left_out);
            let url = self.posts.options.address.to_string();
            tracing::warn!(
                url,
                left_out,
                "notifications are dropped: the server did not accept them in time"
            );
        }
    }
}

/// Posts one after the other, until nothing waits after `stop`.
async fn run(posts: NotificationPosts, mut losses: Losses, stop: CancellationToken) {
    loop {
        while let Some(posting) = posts.mailbox.first() {
            match posts.deliver(&posting).await {
                Ok(()) => losses.arrived(),
                Err((attempts, error)) => losses.lost(posting.kind, attempts, &error),
            }
            posts.mailbox.remove_first();
            losses.without_room(posts.mailbox.take_left_out());
        }
        if stop.is_cancelled() {
            return;
        }
        stop.run_until_cancelled(posts.woken.notified()).await;
    }
}

/// Lost notifications. They are reported once, until something arrives again.
struct Losses {
    url: String,
    metrics: Metrics,
    /// Since something arrived.
    count: u64,
}

impl Losses {
    fn lost(&mut self, kind: &str, attempts: u32, error: &io::Error) {
        if self.count == 0 {
            tracing::warn!(
                url = self.url,
                kind,
                attempts,
                error = chain(error),
                "cannot post a notification, which is dropped; further ones are only counted until one \
                 succeeds"
            );
        }
        self.add(1);
    }

    /// Counts postings dropped for lack of room, because the server accepts none, or is slow.
    fn without_room(&mut self, count: u64) {
        if count > 0 && self.count == 0 {
            tracing::warn!(url = self.url, "notifications are dropped: the server accepts them too slowly");
        }
        self.add(count);
    }

    fn arrived(&mut self) {
        if self.count > 0 {
            tracing::info!(url = self.url, left_out = self.count, "notifications are posted again");
        }
        self.count = 0;
    }

    fn add(&mut self, count: u64) {
        self.count = self.count.saturating_add(count);
        self.metrics.notifications_lost(count);
    }
}

/// Reads a response, of which only the status matters. The body is read so that the server does not see the
/// connection break.
async fn read(response: Response<Incoming>) -> io::Result<u16> {
    let status = response.status().as_u16();
    drop(Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await);
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_used_as_it_stands() {
        let cases = [
            ("http://host", Some(("host", "/"))),
            ("https://me:secret@host:8443/a/b/?c=d", Some(("host:8443", "/a/b/?c=d"))),
            ("host:80/a", None),
            ("ftp://host/a", None),
            ("", None),
        ];
        for (url, target) in cases {
            let options = PostOptions::new(url, Duration::from_secs(5), 2);
            assert_eq!(
                options.as_ref().map(|options| (options.host.as_str(), options.target.expose())),
                target,
                "{url}"
            );
        }
    }

    #[test]
    fn a_url_is_shown_without_what_may_be_secret() {
        let url = "https://me:hunter2@hooks/services/hunter2?token=hunter2";
        let options = PostOptions::new(url, Duration::from_secs(5), 2).unwrap();
        assert_eq!(options.address.to_string(), "https://hooks:443");
        assert!(!format!("{options:?}").contains("hunter2"), "{options:?}");
    }
}
