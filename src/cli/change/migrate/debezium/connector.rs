//! A connector in Connect's REST interface.

use std::fmt;
use std::io;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, header};
use serde_json::Value;
use tokio::time::timeout;

use crate::cli::change::migrate::error::MigrateError;
use crate::cli::shell::notice::Notice;
use crate::http_client::{Address, USER_AGENT, connect, connector as tls, exchange, secure};

/// Time that Connect may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

const NOT_FOUND: u16 = 404;

/// A connector, by its address in Connect's REST interface.
#[derive(Debug, Clone)]
pub(super) struct Connector(Address);

impl Connector {
    /// Reads `http://HOST:PORT/connectors/NAME`.
    pub(super) fn parse(text: &str) -> Result<Self, MigrateError> {
        let address = Address::parse(text).filter(|address| {
            let mut parts = address.path.rsplit('/');
            parts.next().is_some_and(|name| !name.is_empty()) && parts.next() == Some("connectors")
        });
        address.map(Self).ok_or_else(|| MigrateError::NoConnectorAddress(text.to_owned()))
    }

    pub(super) fn name(&self) -> &str {
        self.0.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the connector's state, as Connect names it: `RUNNING`, `STOPPED`; `None` when there is no such connector.
    pub(super) async fn state(&self) -> Result<Option<String>, MigrateError> {
        let (status, body) = self.ask(Method::GET, "/status").await?;
        if status == NOT_FOUND {
            return Ok(None);
        }
        let answer: Option<Value> = serde_json::from_str(&body).ok();
        let state = answer.as_ref().and_then(|answer| answer.pointer("/connector/state")?.as_str());
        match state {
            Some(state) if status == 200 => Ok(Some(state.to_owned())),
            _ => Err(self.refused(status)),
        }
    }

    pub(super) async fn stop(&self) -> Result<(), MigrateError> {
        self.order(Method::PUT, "/stop").await
    }

    pub(super) async fn resume(&self) -> Result<(), MigrateError> {
        self.order(Method::PUT, "/resume").await
    }

    pub(super) async fn delete(&self) -> Result<(), MigrateError> {
        self.order(Method::DELETE, "").await
    }

    async fn order(&self, method: Method, path: &str) -> Result<(), MigrateError> {
        let (status, _) = self.ask(method, path).await?;
        if (200..300).contains(&status) { Ok(()) } else { Err(self.refused(status)) }
    }

    fn refused(&self, status: u16) -> MigrateError {
        MigrateError::ConnectRefused { connector: self.to_string(), status }
    }

    async fn ask(&self, method: Method, path: &str) -> Result<(u16, String), MigrateError> {
        let _notice = Notice::new(format!("Kafka Connect at {self}"));
        let asked = timeout(PATIENCE, self.exchange(method, path)).await;
        let asked = asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        asked.map_err(|source| MigrateError::NoAnswer { connector: self.to_string(), source })
    }

    async fn exchange(&self, method: Method, path: &str) -> io::Result<(u16, String)> {
        let Self(address) = self;
        let mut transport = connect(address).await?;
        if address.tls {
            let session = tls(None)?.configure().map_err(io::Error::other)?;
            transport = secure(transport, &address.host, session).await?;
        }
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", address.path))
            .header(header::HOST, address.authority())
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, "application/json");
        if let Some(user) = &address.user {
            request = request.header(header::AUTHORIZATION, user.header());
        }
        let request = request.body(String::new()).map_err(io::Error::other)?;
        exchange(transport, request, PATIENCE, read).await
    }
}

async fn read(response: Response<Incoming>) -> io::Result<(u16, String)> {
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(io::Error::other)?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

impl fmt::Display for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connector_is_named_by_its_address() {
        let connector = Connector::parse("http://connect:8083/connectors/orders/").unwrap();
        assert_eq!(
            (connector.name(), connector.to_string().as_str()),
            ("orders", "http://connect:8083/connectors/orders")
        );
        assert_eq!(
            Connector::parse("https://me:secret@c/x/connectors/a").unwrap().to_string(),
            "https://c:443/x/connectors/a"
        );
        for text in [
            "",
            "orders",
            "http://connect:8083",
            "http://connect:8083/connectors",
            "http://c/connectors/",
            "http://c/a/b",
        ] {
            assert!(Connector::parse(text).is_err(), "{text}");
        }
    }
}
