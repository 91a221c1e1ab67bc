//! Identity providers that issue tokens over HTTP.
//!
//! ```text
//!   ClientCredentials ──▶ endpoint: POST a form ──▶ Credential
//! ```

mod client;
mod endpoint;
mod error;

pub(crate) use client::ClientCredentials;
pub use error::IdentityError;

use super::source::Credential;

/// The identity whose tokens are asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// A client with a name and a secret.
    Client(ClientCredentials),
}

impl Identity {
    /// Asks for a token.
    pub(super) async fn token(&self) -> Result<Credential, IdentityError> {
        match self {
            Self::Client(client) => client.token().await,
        }
    }

    /// Returns whose tokens they are, for reports.
    pub(super) fn description(&self) -> String {
        match self {
            Self::Client(client) => client.description(),
        }
    }
}
