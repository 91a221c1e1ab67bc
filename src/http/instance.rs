//! Requests to a running outboxd.

use std::fmt;
use std::io;
use std::time::Duration;

use hyper::{Request, header};
use tokio::time;

use super::probe::answer;
use crate::http_client::{Address, USER_AGENT, connect, exchange};
use crate::telemetry::Overview;

const OK: u16 = 200;

/// A running outboxd, by its status port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance(Address);

/// A text that names no status port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not the address of a status port: give 8080 (this machine), HOST:PORT, or http://HOST:PORT/PATH"
)]
pub(crate) struct InvalidInstance(String);

/// Reason why an instance returned nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// No answer, or none of HTTP.
    #[error("no answer from {0}")]
    NoAnswer(Instance, #[source] io::Error),
    /// Something answers that is no outboxd, or an older one.
    #[error("{0} is not the status port of an outboxd of this version (HTTP {1})")]
    Foreign(Instance, u16),
}

impl Instance {
    /// Reads `8080`, `HOST:PORT` or `http://HOST:PORT/PATH`.
    ///
    /// # Errors
    /// When the text is none of these. The status port has no TLS; what stands before it may be named by `http` only.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidInstance> {
        let port = text.strip_prefix(':').unwrap_or(text);
        let url = if text.contains("://") {
            text.to_owned()
        } else if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
            format!("http://127.0.0.1:{port}")
        } else {
            // An instance that listens on every interface is asked on this machine.
            format!("http://{text}").replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        };
        let address = Address::parse(&url).filter(|address| !address.tls);
        address.map(Self).ok_or_else(|| InvalidInstance(text.to_owned()))
    }

    /// Requests its present state.
    ///
    /// # Errors
    ///
    /// When there is no answer within `patience`, or it is not outboxd's.
    pub(crate) async fn overview(&self, patience: Duration) -> Result<Overview, AskError> {
        let asked = match time::timeout(patience, self.ask(patience)).await {
            Ok(asked) => asked,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        let (code, body) = asked.map_err(|error| AskError::NoAnswer(self.clone(), error))?;
        let read = (code == OK).then(|| serde_json::from_str(&body).ok()).flatten();
        read.ok_or_else(|| AskError::Foreign(self.clone(), code))
    }

    async fn ask(&self, patience: Duration) -> io::Result<(u16, String)> {
        let path = format!("{}/status", self.0.path);
        let mut request = Request::get(path)
            .header(header::HOST, self.0.authority())
            .header(header::USER_AGENT, USER_AGENT);
        if let Some(user) = &self.0.user {
            request = request.header(header::AUTHORIZATION, user.header());
        }
        let request = request.body(String::new()).map_err(io::Error::other)?;
        exchange(connect(&self.0).await?, request, patience, answer).await
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_client::test_server;

    #[test]
    fn an_instance_is_named_in_several_ways() {
        let cases = [
            ("8080", Some("http://127.0.0.1:8080")),
            (":8080", Some("http://127.0.0.1:8080")),
            ("0.0.0.0:8080", Some("http://127.0.0.1:8080")),
            ("[::]:8080", Some("http://[::1]:8080")),
            ("relay-1:8080", Some("http://relay-1:8080")),
            ("http://relay-1/outboxd/", Some("http://relay-1:80/outboxd")),
            ("https://relay-1", None),
            ("", None),
            ("a b", None),
        ];
        for (text, expected) in cases {
            let found = Instance::parse(text).ok().map(|instance| instance.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn another_server_is_distinguished_from_none() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ask = |port: u16| {
            let instance = Instance::parse(&port.to_string()).unwrap();
            runtime.block_on(instance.overview(Duration::from_secs(5))).unwrap_err().to_string()
        };
        for (status, body) in [("200 OK", "{}"), ("404 Not Found", "not here")] {
            let (port, serving) = test_server::serve(&test_server::answer(status, body), None);
            assert!(ask(port).contains("is not the status port"), "{status}");
            assert!(serving.join().unwrap().starts_with("GET /status HTTP/1.1\r\n"));
        }
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert!(ask(free).starts_with("no answer from http://127.0.0.1:"));
    }
}
