//! Errors of the schema registry.

use std::io;

use crate::credentials;
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::key_store;

/// Failures between outboxd and the schema registry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection, or none that lasted for an answer.
    #[error("the schema registry at {address} cannot be reached")]
    Unreachable {
        /// Scheme, host and port.
        address: String,
        /// Reason why not.
        #[source]
        source: io::Error,
    },
    /// Answer that it cannot handle requests at present.
    #[error("the schema registry at {address} is not able to answer: {status} {reason}")]
    Unavailable {
        /// Scheme, host and port.
        address: String,
        /// The HTTP status.
        status: u16,
        /// Its own words.
        reason: String,
    },
    /// The file with the authorities that are trusted cannot be used.
    #[error(transparent)]
    KeyStore(#[from] key_store::Error),
    /// The configured certificates cannot be used.
    #[error("{option} cannot be used")]
    Certificates {
        /// The option.
        option: String,
        /// Reason why not.
        #[source]
        source: io::Error,
    },
    /// We may not ask.
    #[error("the schema registry at {address} refuses the login: {status} {reason}")]
    Denied {
        /// Scheme, host and port.
        address: String,
        /// 401 or 403.
        status: u16,
        /// Its own words.
        reason: String,
        /// Setting to change.
        fix: String,
        /// The option of a source that may return other credentials soon.
        renewable: Option<String>,
    },
    /// The source of the credentials returns none.
    #[error("no credentials for the schema registry")]
    Credentials(#[from] credentials::Error),
    /// The schema is not there, and we must not register it.
    #[error("the schema registry has no such schema under subject {subject}: {reason}")]
    NotRegistered {
        /// The subject.
        subject: String,
        /// Its own words.
        reason: String,
        /// Setting to change, or command to run.
        fix: String,
    },
    /// The schema contradicts the subject's compatibility rule.
    #[error("the schema registry refuses the schema of subject {subject} as incompatible: {reason}")]
    Incompatible {
        /// The subject.
        subject: String,
        /// Its own words.
        reason: String,
    },
    /// The schema, or the subject, is none that it takes.
    #[error("the schema registry refuses the schema of subject {subject} as invalid: {reason}")]
    Invalid {
        /// The subject.
        subject: String,
        /// Its own words.
        reason: String,
        /// Setting to change.
        fix: String,
    },
    /// `use.latest.version`: the latest version is not what the rows are.
    #[error("the latest schema of subject {subject} does not match the rows")]
    OtherForm {
        /// The subject.
        subject: String,
    },
    /// Something that is no schema registry, or that a proxy has changed.
    #[error("the schema registry at {address} answers {status} with an unexpected body: {reason}")]
    Unexpected {
        /// Scheme, host and port.
        address: String,
        /// The HTTP status.
        status: u16,
        /// Unexpected answer.
        reason: String,
    },
}

impl Error {
    /// Reports whether the registry does not accept the credentials themselves.
    pub(super) const fn refuses_credentials(&self) -> bool {
        matches!(self, Self::Denied { status: 401, .. })
    }

    /// Names the source of the credentials that the registry refused: another attempt may have others.
    pub(super) fn renewable(mut self, option: &str) -> Self {
        if let Self::Denied { renewable, .. } = &mut self {
            *renewable = Some(option.to_owned());
        }
        self
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Unreachable { .. } => {
                Diagnosis::transient(Exit::Failed).with_fix("start it, or correct its URL")
            }
            Self::Unavailable { .. } => Diagnosis::transient(Exit::Failed),
            Self::Credentials(error) => Diagnosis::transient(Exit::Failed).with_fix(error.fix()),
            Self::KeyStore(error) => error.diagnosis(),
            Self::Certificates { option, .. } => {
                Diagnosis::config().with_fix(format!("correct {option}: it must have certificates in PEM"))
            }
            Self::Denied { renewable: Some(option), .. } => {
                Diagnosis::transient(Exit::Precondition).with_fix(format!(
                    "let {option} return credentials that the registry accepts: it is asked again at each attempt"
                ))
            }
            Self::Denied { fix, .. } => Diagnosis::definite(Exit::Precondition).with_fix(fix),
            Self::NotRegistered { fix, .. } => Diagnosis::definite(Exit::Row).with_fix(fix),
            Self::Incompatible { subject, .. } => Diagnosis::definite(Exit::Row).with_fix(format!(
                "make the change of the outbox compatible, or loosen the subject's rule: PUT /config/{subject} with \
                 {{\"compatibility\":\"NONE\"}}"
            )),
            Self::Invalid { fix, .. } => Diagnosis::definite(Exit::Row).with_fix(fix),
            Self::OtherForm { subject } => Diagnosis::definite(Exit::Row).with_fix(format!(
                "register the schema of the rows as the latest version of {subject}, or remove \
                 use.latest.version"
            )),
            Self::Unexpected { .. } => Diagnosis::definite(Exit::Precondition)
                .with_fix("correct its URL: it may need a path, such as /apis/ccompat/v7 for Apicurio"),
        }
    }
}
