//! Identity providers that issue tokens over HTTP.
//!
//! ```text
//!   ClientCredentials · Azure · Google ──▶ Endpoint: a form or a query ──▶ Credential
//! ```

mod azure;
mod client;
mod endpoint;
mod error;
mod google;
mod service_account;
mod variables;

pub(crate) use azure::Azure;
pub(crate) use client::ClientCredentials;
pub(crate) use error::IdentityError;
pub(crate) use google::Google;
pub(crate) use variables::Variables;

use super::source::Credential;

/// The identity whose tokens are asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// A client with a name and a secret.
    Client(ClientCredentials),
    /// An identity of Azure, with tokens of Microsoft Entra.
    Azure(Azure),
    /// An identity of Google Cloud.
    Google(Google),
}

impl Identity {
    /// Asks for a token.
    pub(super) async fn token(&self) -> Result<Credential, IdentityError> {
        match self {
            Self::Client(client) => client.token().await,
            Self::Azure(azure) => azure.token().await,
            Self::Google(google) => google.token().await,
        }
    }

    /// Returns whose tokens they are, for reports; None where the token itself has it.
    pub(super) fn description(&self) -> Option<String> {
        match self {
            Self::Client(client) => Some(client.description()),
            Self::Azure(azure) => Some(azure.description()),
            Self::Google(google) => google.description(),
        }
    }
}
