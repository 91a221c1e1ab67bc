//! Downloads over HTTPS.

#[cfg(test)]
pub(super) mod tests;

use std::io;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Request, Response, Uri, header};
use openssl::ssl::SslConnector;
use tokio::time::{sleep, timeout};

use super::FetchError;
use super::proxy::{Proxies, tunnel};
use crate::http_client::{Address, Transport, USER_AGENT, connect, connector, exchange, secure};

/// Time until a server, behind a proxy or not, must accept a request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest silence of a server after a request.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Each file is asked for this often.
const ATTEMPTS_MAX: u32 = 4;
/// Pause before the second attempt; twice as long before each one after it.
const PAUSE: Duration = Duration::from_secs(1);
/// Most redirects from one URL to the next.
const REDIRECTS_MAX: usize = 5;

/// Gets files, over https or http, through the environment's proxy.
pub(super) struct Client {
    tls: SslConnector,
    proxies: Proxies,
    pause: Duration,
}

/// Response of a server to one request.
enum Answer {
    Whole(Vec<u8>),
    TooLong,
    /// The `Location`, when there is one that is text.
    Elsewhere(Option<String>),
    Refused(u16),
}

impl Client {
    pub(super) fn new() -> Result<Self, FetchError> {
        let tls = connector(None).map_err(FetchError::Certificates)?;
        Ok(Self { tls, proxies: Proxies::of_environment(), pause: PAUSE })
    }

    /// Fetches the file at a URL; passing failures are tried again.
    pub(super) async fn get(&self, url: &str, bytes_max: usize) -> Result<Vec<u8>, FetchError> {
        let mut pause = self.pause;
        for _ in 1..ATTEMPTS_MAX {
            match self.follow(url, bytes_max).await {
                Err(error) if error.is_transient() => {
                    tracing::debug!(error = &error as &dyn std::error::Error, "trying again");
                }
                settled => return settled,
            }
            sleep(pause).await;
            pause = pause.saturating_mul(2);
        }
        self.follow(url, bytes_max).await
    }

    /// Follows redirects.
    async fn follow(&self, url: &str, bytes_max: usize) -> Result<Vec<u8>, FetchError> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            match self.ask(&url, bytes_max).await? {
                Answer::Whole(bytes) => return Ok(bytes),
                Answer::TooLong => return Err(FetchError::TooLong { url, bytes_max }),
                Answer::Refused(status) => return Err(FetchError::Status { url, status }),
                Answer::Elsewhere(location) => match location.and_then(|to| resolve(&url, &to)) {
                    Some(next) => url = next,
                    None => return Err(FetchError::Redirect { url }),
                },
            }
        }
        Err(FetchError::Redirect { url })
    }

    async fn ask(&self, url: &str, bytes_max: usize) -> Result<Answer, FetchError> {
        let unreachable = |source| FetchError::Unreachable { url: url.to_owned(), source };
        let no_url = || unreachable(io::ErrorKind::InvalidInput.into());
        let address = Address::parse(url).ok_or_else(no_url)?;
        let proxy = self.proxies.towards(&address)?;
        let connecting = timeout(CONNECT_TIMEOUT, self.connect(&address, proxy.as_ref()));
        let transport = connecting.await.unwrap_or_else(|late| Err(late.into())).map_err(unreachable)?;
        let request = request(url, &address).map_err(|error| unreachable(io::Error::other(error)))?;
        let read = |response| answer(response, bytes_max);
        exchange(transport, request, SILENCE_MAX, read).await.map_err(unreachable)
    }

    async fn connect(&self, target: &Address, proxy: Option<&Address>) -> io::Result<Box<dyn Transport>> {
        let transport = match proxy {
            Some(proxy) => tunnel(self.reach(proxy).await?, proxy, target).await?,
            None => connect(target).await?,
        };
        self.secure(transport, target).await
    }

    async fn reach(&self, proxy: &Address) -> io::Result<Box<dyn Transport>> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("the proxy at {proxy} cannot be reached: {error}"))
        };
        self.secure(connect(proxy).await.map_err(named)?, proxy).await.map_err(named)
    }

    async fn secure(&self, transport: Box<dyn Transport>, to: &Address) -> io::Result<Box<dyn Transport>> {
        if !to.tls {
            return Ok(transport);
        }
        secure(transport, &to.host, self.tls.configure()?).await
    }
}

fn request(url: &str, address: &Address) -> Result<Request<String>, hyper::http::Error> {
    let uri: Uri = url.parse()?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Request::builder()
        .uri(path)
        .header(header::HOST, address.authority())
        .header(header::USER_AGENT, USER_AGENT)
        .body(String::new())
}

async fn answer(response: Response<Incoming>, bytes_max: usize) -> io::Result<Answer> {
    let status = response.status();
    if status.is_redirection() {
        let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
        return Ok(Answer::Elsewhere(location.map(str::to_owned)));
    }
    if !status.is_success() {
        return Ok(Answer::Refused(status.as_u16()));
    }
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(SILENCE_MAX, body.frame()).await? {
        let Ok(data) = frame.map_err(io::Error::other)?.into_data() else { continue };
        if data.len() > bytes_max.saturating_sub(bytes.len()) {
            return Ok(Answer::TooLong);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Answer::Whole(bytes))
}

/// Returns the URL of a `Location`; none that leads away from https. A path is relative to the present URL.
fn resolve(from: &str, location: &str) -> Option<String> {
    let at = Address::parse(from)?;
    if location.starts_with('/') && !location.starts_with("//") {
        let scheme = if at.tls { "https" } else { "http" };
        return Some(format!("{scheme}://{}{location}", at.authority()));
    }
    let to = Address::parse(location)?;
    (to.tls || !at.tls).then(|| location.to_owned())
}
