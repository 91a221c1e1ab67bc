//! Errors of identity providers.

use std::io;

/// Failure to get a token of an identity provider. It has no secret.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// It does not answer.
    #[error("{service} at {url} does not answer")]
    Silent {
        /// The service, in words.
        service: &'static str,
        /// Its address.
        url: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It refuses.
    #[error("{service} at {url} answers {status}{reason}")]
    Refused {
        /// The service, in words.
        service: &'static str,
        /// Its address.
        url: String,
        /// The status of HTTP.
        status: u16,
        /// The service's own words, with a colon before them.
        reason: String,
    },
    /// The answer has no token.
    #[error("{service} at {url}: {reason}")]
    Answer {
        /// The service, in words.
        service: &'static str,
        /// Its address.
        url: String,
        /// The reason, without the answer.
        reason: &'static str,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read")]
    File {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A variable needs another one.
    #[error("{by} needs {name} too")]
    Missing {
        /// The variable that is not set.
        name: &'static str,
        /// The variable that needs it.
        by: &'static str,
    },
    /// A kind of identity that is not supported.
    #[error("{setting} is not supported")]
    Unsupported {
        /// Variable or type that asks for it.
        setting: String,
    },
    /// A file that has no key of a service account.
    #[error("{path} is not the key of a service account")]
    NotAKey {
        /// The file.
        path: String,
    },
    /// A private key that OpenSSL cannot use.
    #[error("the private key in {path} cannot sign")]
    Signature {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: openssl::error::ErrorStack,
    },
}

impl IdentityError {
    /// Returns what to do about it.
    pub(in crate::credentials) fn fix(&self) -> String {
        match self {
            Self::Silent { url, .. } => format!("see that {url} can be reached from here: curl -v {url}"),
            Self::Refused { url, .. } => {
                format!(
                    "see the service's own words, and that the client's name, secret and scope are those that {url} knows"
                )
            }
            Self::File { path, .. } => format!("see that {path} is there and can be read by outboxd's user"),
            Self::Missing { name, .. } => format!("set {name}"),
            Self::Unsupported { .. } => {
                "use an identity of docs/credentials.md, or a command that prints a token".to_owned()
            }
            Self::NotAKey { path } | Self::Signature { path, .. } => {
                format!(
                    "replace {path} by a key of a service account: gcloud iam service-accounts keys create {path} --iam-account=…"
                )
            }
            Self::Answer { url, .. } => {
                format!(
                    "see that {url} is the token endpoint: it must answer with JSON that has an access_token"
                )
            }
        }
    }
}
