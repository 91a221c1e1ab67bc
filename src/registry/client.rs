use std::fmt;
use std::io;

use tokio::time::timeout;

use super::error::Error;
use super::http::{self, ANSWER_TIMEOUT};
use super::options::Options;
use super::protocol::{Answer, Request};
use super::tls::Tls;
use crate::connect::converter::registered::{Registration, SchemaId, WrittenSchema};
use crate::error::{Class, Diagnose as _};

/// A schema registry that can be asked.
pub struct Client {
    options: Options,
    tls: Tls,
}

impl Client {
    /// Reads the certificates. Nothing is asked yet.
    ///
    /// # Errors
    /// When certificates cannot be read.
    pub fn new(options: Options) -> Result<Self, Error> {
        let tls = Tls::new(&options.tls, &options.converter)?;
        Ok(Self { options, tls })
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
            let Options { addresses, credentials, tls, .. } = client.options.clone();
            (addresses, credentials, tls)
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

    /// Requests one address after the other, until one has a final answer.
    async fn ask<T>(
        &self,
        request: &Request,
        read: impl Fn(&Answer, &str) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut last = None;
        for address in &self.options.addresses {
            let credentials = self.options.credentials.as_ref();
            let asking = http::ask(address, credentials, &self.tls, request);
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

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()))
}
