//! Errors of downloads.

use std::io;

/// Reasons why nothing was fetched.
#[derive(Debug, thiserror::Error)]
pub(in crate::throwaway) enum FetchError {
    /// TLS could not be set up.
    #[error("the system's certificates cannot be used")]
    Certificates(#[source] io::Error),
    /// The environment asks for a proxy that we cannot use.
    #[error("{variable} must name an HTTP proxy, as http://host:port")]
    Proxy {
        /// The variable of the environment.
        variable: &'static str,
    },
    /// No connection, or none that lasted for the answer.
    #[error("{url} cannot be read")]
    Unreachable {
        /// Requested URL.
        url: String,
        #[source]
        source: io::Error,
    },
    /// An answer, and not the one that was asked for.
    #[error("{url} is answered with HTTP status {status}")]
    Status {
        /// Requested URL.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// Away from https, to no URL, or too often.
    #[error("{url} is redirected to an address that outboxd does not follow")]
    Redirect {
        /// URL that redirects.
        url: String,
    },
    /// Longer than anything that we expect.
    #[error("{url} is longer than {bytes_max} bytes")]
    TooLong {
        /// Requested URL.
        url: String,
        /// The limit.
        bytes_max: usize,
    },
    /// The list of versions has none.
    #[error("{url} lists no version of PostgreSQL {major}")]
    NoVersion {
        /// The list.
        url: String,
        /// The major version that was asked for.
        major: u16,
    },
    /// Damaged on the way, or not what was published.
    #[error("{url} does not have the SHA-512 that is published beside it")]
    Checksum {
        /// The archive.
        url: String,
    },
    /// Read whole, and not what it should be; or the disk is full.
    #[error("{url} cannot be unpacked")]
    Archive {
        /// The archive.
        url: String,
        #[source]
        source: io::Error,
    },
}

impl FetchError {
    /// Returns whether the same request may succeed a little later.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Status { status, .. } => *status >= 500 || [408, 429].contains(status),
            Self::Certificates(_)
            | Self::Proxy { .. }
            | Self::Redirect { .. }
            | Self::TooLong { .. }
            | Self::NoVersion { .. }
            | Self::Checksum { .. }
            | Self::Archive { .. } => false,
        }
    }
}
