//! Errors of sources of credentials.

use std::io;
use std::time::Duration;

use super::aws::TokenError;
use super::identity::IdentityError;

/// Failure of a source of credentials. It never has the value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The value cannot be read again.
    #[error("{option} cannot be read again")]
    Unreadable {
        /// The option that names the source.
        option: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The source did not answer in time.
    #[error("{option} did not answer within {limit:?}")]
    Timeout {
        /// The option that names the source.
        option: String,
        /// The limit.
        limit: Duration,
    },
    /// The command cannot be started, or its output cannot be read.
    #[error("{option}: {program} cannot be run")]
    NotRun {
        /// The option that names the command.
        option: String,
        /// The program, without its arguments.
        program: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The command failed.
    #[error("{option}: {program} failed ({status})")]
    Failed {
        /// The option that names the command.
        option: String,
        /// The program, without its arguments.
        program: String,
        /// The exit status in words.
        status: String,
    },
    /// The answer is no credential.
    #[error("{option}: {reason}")]
    Answer {
        /// The option that names the source.
        option: String,
        /// The reason, without the answer.
        reason: &'static str,
    },
    /// There is no token of AWS' IAM.
    #[error("{option}: no AWS IAM token")]
    Iam {
        /// The option that configures it.
        option: String,
        /// The cause.
        #[source]
        source: TokenError,
    },
    /// There is no token of an identity provider.
    #[error("{option}: no token")]
    Identity {
        /// The option that configures it.
        option: String,
        /// The cause.
        #[source]
        source: Box<IdentityError>,
    },
    /// The answer has expired already.
    #[error("{option} returned a credential that has expired")]
    Expired {
        /// The option that names the source.
        option: String,
    },
}

impl Error {
    /// Returns what to do about it.
    pub(crate) fn fix(&self) -> String {
        match self {
            Self::Unreadable { option, .. } => {
                format!("see that the file which {option} names is there and can be read by outboxd's user")
            }
            Self::Timeout { option, .. } => {
                format!("see why {option} takes so long; {} is the limit", limit_of(option))
            }
            Self::NotRun { option, .. } => {
                format!("set {option} to a program that outboxd's user can run, and its arguments")
            }
            Self::Failed { option, .. } => {
                format!("run the command of {option} as outboxd's user; its stderr is in the log of outboxd")
            }
            Self::Answer { option, .. } => format!(
                "let {option} print the password or token alone, or JSON such as {{\"password\": \"…\", \"expiration\": \"2030-01-31T12:00:00Z\"}}"
            ),
            Self::Iam { .. } => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the pod or the instance a role; \
                                 to see which identity counts: aws sts get-caller-identity"
                .to_owned(),
            Self::Identity { source, .. } => source.fix(),
            Self::Expired { option } => {
                format!("see that the clocks of this machine and of {option} agree")
            }
        }
    }
}

/// Returns the option of a source's time limit.
fn limit_of(option: &str) -> &'static str {
    if option.starts_with("outboxd.kafka.") || option.starts_with("producer.") {
        "outboxd.kafka.token.timeout.ms"
    } else {
        "outboxd.database.password.timeout.ms"
    }
}
