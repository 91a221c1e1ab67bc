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
}

impl IdentityError {
    /// Returns what to do about it.
    pub(in crate::credentials) fn cure(&self) -> String {
        match self {
            Self::Silent { url, .. } => format!("see that {url} can be reached from here: curl -v {url}"),
            Self::Refused { url, .. } => {
                format!("see the service's own words, and that the client's name, secret and scope are those that {url} knows")
            }
            Self::Answer { url, .. } => {
                format!("see that {url} is the token endpoint: it must answer with JSON that has an access_token")
            }
        }
    }
}
