//! Requests to one schema registry.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::timeout;
use zeroize::Zeroizing;

use super::error::Error;
use super::http::{self, ANSWER_TIMEOUT};
use super::options::Options;
use super::protocol::{Answer, Request};
use super::tls::Tls;
use crate::connect::converter::registered::{Registration, SchemaId, WrittenSchema};
use crate::credentials::{Credential, Target};
use crate::error::{Class, Diagnose as _};

/// Time for which refused credentials may be the fault of a source that is behind, as for PostgreSQL's password.
const DOUBT_LASTS: Duration = Duration::from_secs(300);

/// A schema registry that can be asked.
pub struct Client {
    options: Options,
    tls: Tls,
    /// Time of the first refusal since the credentials were last accepted.
    refused_since: Mutex<Option<Instant>>,
}

impl Client {
    /// Reads the certificates. Nothing is asked yet.
    ///
    /// # Errors
    /// When certificates cannot be read.
    pub fn new(options: Options) -> Result<Self, Error> {
        let tls = Tls::new(&options.tls, &options.converter)?;
        Ok(Self { options, tls, refused_since: Mutex::default() })
    }

    /// Returns its addresses, separated by commas and without credentials.
    #[must_use]
    pub fn addresses(&self) -> String {
        let addresses: Vec<String> = self.options.addresses.iter().map(ToString::to_string).collect();
        addresses.join(",")
    }

    /// Returns whether it is the same registry, reached in the same way.
    #[must_use]
    pub fn is_alike(&self, other: &Self) -> bool {
        let reached = |client: &Self| {
            let Options { addresses, login, headers, tls, .. } = client.options.clone();
            (addresses, login, headers, tls)
        };
        reached(self) == reached(other)
    }

    /// Returns the id of a schema, which is registered if the options allow it. Requests once; the caller may
    /// try again.
    ///
    /// # Errors
    /// When no address answers, or the registry has no id for it.
    pub async fn id(&self, registration: &Registration) -> Result<SchemaId, Error> {
        let request = Request::id(&self.options, registration);
        self.ask(&request, |answer, address| answer.id(&self.options, registration, address)).await
    }

    /// Returns the schema that has this id; `None` when none has it. Requests once.
    ///
    /// # Errors
    /// When no address answers as a registry does.
    pub(crate) async fn schema(&self, id: SchemaId) -> Result<Option<WrittenSchema>, Error> {
        self.ask(&Request::schema(id), |answer, address| answer.schema(&self.options, address)).await
    }

    /// Checks whether it responds at all.
    ///
    /// # Errors
    /// When no address answers, or not as a registry does.
    pub async fn probe(&self) -> Result<(), Error> {
        self.ask(&Request::types(), |answer, address| answer.check(&self.options, address, None)).await
    }

    /// Returns whose token let outboxd in and when it expires, for reports.
    pub(crate) async fn login(&self) -> Option<String> {
        self.options.login.description().await
    }

    /// Requests with the credentials of this moment. When they are refused and the source has others meanwhile, those are tried at once.
    async fn ask<T>(
        &self,
        request: &Request,
        read: impl Fn(&Answer, &str) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (login, target) = (&self.options.login, self.target());
        let first = login.fetch(&target).await?;
        let refusal = match self.ask_as(first.as_ref(), request, &read).await {
            Err(error) if error.refuses_credentials() => error,
            outcome => return self.accepted(outcome),
        };
        let (Some(option), Some(refused)) = (login.renewable(), first) else { return Err(refusal) };
        login.forget(&refused).await;
        let second = login.fetch(&target).await?;
        if second.as_ref().is_none_or(|second| second.value == refused.value) {
            return Err(self.refused(refusal, option));
        }
        match self.ask_as(second.as_ref(), request, &read).await {
            Err(error) if error.refuses_credentials() => {
                if let Some(second) = &second {
                    login.forget(second).await;
                }
                Err(self.refused(error, option))
            }
            outcome => self.accepted(outcome),
        }
    }

    /// Ends the doubt about the credentials after an answer.
    fn accepted<T>(&self, outcome: Result<T, Error>) -> Result<T, Error> {
        if outcome.is_ok() {
            *self.refused_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        outcome
    }

    /// Returns the refusal as one that may pass, unless it has lasted.
    fn refused(&self, refusal: Error, option: &str) -> Error {
        let mut since = self.refused_since.lock().unwrap_or_else(PoisonError::into_inner);
        if is_doubtful(&mut since, Instant::now()) { refusal.renewable(option) } else { refusal }
    }

    /// Returns the connection that credentials are for.
    fn target(&self) -> Target {
        let first = self.options.addresses.first();
        let host = first.map(|address| address.host.clone()).unwrap_or_default();
        let port = first.map(|address| address.port).unwrap_or_default();
        Target { host, port, database: String::new(), user: String::new() }
    }

    /// Requests one address after the other, until one has a final answer.
    async fn ask_as<T>(
        &self,
        credential: Option<&Credential>,
        request: &Request,
        read: &impl Fn(&Answer, &str) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let credentials = credential.and_then(|credential| self.options.login.read(credential));
        let authorization = credentials.map(|credentials| Zeroizing::new(credentials.header()));
        let mut headers: Vec<(&str, &str)> =
            self.options.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.extend(authorization.as_ref().map(|value| ("Authorization", value.as_str())));
        let mut last = None;
        for address in &self.options.addresses {
            let asking = http::ask(address, &headers, &self.tls, request);
            let answer = timeout(ANSWER_TIMEOUT, asking).await.unwrap_or_else(|_| Err(too_late()));
            let shown = address.to_string();
            let outcome = match answer {
                Ok(answer) => read(&answer, &shown),
                Err(source) => Err(Error::Unreachable { address: shown, source }),
            };
            match outcome {
                Err(error) if error.class() == Class::Transient => last = Some(error),
                settled => return settled,
            }
        }
        Err(last.unwrap_or_else(|| Error::Unreachable {
            address: self.options.converter.clone(),
            source: io::ErrorKind::AddrNotAvailable.into(),
        }))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Reports whether a refusal may still pass, and notes the first one.
fn is_doubtful(since: &mut Option<Instant>, now: Instant) -> bool {
    now.duration_since(*since.get_or_insert(now)) < DOUBT_LASTS
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_doubtful_for_a_while_from_the_first() {
        let (mut since, start) = (None, Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(is_doubtful(&mut since, after(10)));
        assert!(is_doubtful(&mut since, after(309)));
        assert!(!is_doubtful(&mut since, after(310)));
        since = None;
        assert!(is_doubtful(&mut since, after(311)));
    }
}
