//! Errors of key stores.

use std::io;

use openssl::error::ErrorStack;

use crate::error::{Diagnose, Diagnosis};

/// Reasons why a file with certificates or keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{option}={path} {reason}")]
pub struct Error {
    /// The option that names the file, as it was written.
    pub option: String,
    /// The file.
    pub path: String,
    /// Fault of the file.
    pub reason: Reason,
}

/// Fault of a file.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// Error of the operating system.
    #[error("cannot be read: {0}")]
    File(io::Error),
    /// No store of authorities is.
    #[error("is larger than 16 MiB")]
    TooLong,
    /// The form that `keytool` wrote before Java 9.
    #[error("is a JKS store, which only Java reads")]
    Jks,
    /// Wrong or missing password.
    #[error("cannot be opened with its password")]
    Password,
    /// Encrypted as Java 8 did by default.
    #[error("is encrypted in a way that OpenSSL no longer supports")]
    Cipher,
    /// Cut short, or no store at all.
    #[error("cannot be read: {0}")]
    Unreadable(ErrorStack),
    /// Keys only, or nothing.
    #[error("has no certificate")]
    Empty,
}

impl Reason {
    pub(super) fn of_pkcs12(error: ErrorStack) -> Self {
        let says = |word: &str| {
            error.errors().iter().filter_map(|one| one.reason()).any(|reason| reason.contains(word))
        };
        if says("mac verify failure") {
            return Self::Password;
        }
        if says("unsupported") { Self::Cipher } else { Self::Unreadable(error) }
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        let Self { option, path, reason } = self;
        let password = option.replace("location", "password").replace("LOCATION", "PASSWORD");
        Diagnosis::config().with_fix(match reason {
            Reason::File(_) => format!("correct {option}, or let outboxd read the file"),
            Reason::Jks | Reason::Cipher => {
                let new = format!("{}.p12", path.strip_suffix(".jks").unwrap_or(path));
                format!(
                    "write it again, with Java 17 or later: keytool -importkeystore -srckeystore {path} -destkeystore {new} -deststoretype \
                     PKCS12, and set {option}={new}"
                )
            }
            Reason::Password => format!("set {password}"),
            Reason::Unreadable(_) => format!("name a file in PEM or PKCS#12 as {option}"),
            Reason::TooLong | Reason::Empty => format!("name the file that has the authorities as {option}"),
        })
    }
}
