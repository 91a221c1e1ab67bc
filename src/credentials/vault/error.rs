//! Errors of Vault. None has a secret in it.

use std::io;
use std::path::PathBuf;

/// Reasons why Vault has no value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VaultError {
    /// A variable that another one needs.
    #[error("environment variable {0:?} is not set")]
    Missing(&'static str),
    /// Neither a token nor a role.
    #[error("no login at Vault is configured")]
    NoLogin,
    /// A path with characters that a secret's path does not have.
    #[error("{0:?} is not the path of a secret")]
    Path(String),
    /// The file of a token.
    #[error("{} cannot be read", path.display())]
    File { path: PathBuf, source: io::Error },
    /// No answer.
    #[error("Vault at {address} does not answer")]
    Unreachable { address: String, source: io::Error },
    /// An answer that is no JSON, or has no token.
    #[error("the server at {address} answers otherwise than Vault")]
    NoJson { address: String },
    /// A refusal, in Vault's words.
    #[error("Vault answers {status} for {path}: {reason}")]
    Refused { status: u16, path: String, reason: String },
    /// No secret there.
    #[error("Vault has no secret at {0}")]
    NoSecret(String),
    /// A secret without that key.
    #[error("the secret at {path} has no key {key:?}")]
    NoKey { path: String, key: String },
}

impl VaultError {
    /// Returns whether the same request may succeed later: no answer, or one that Vault gives while it is sealed, overloaded or elects a
    /// leader.
    pub(crate) const fn passes(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => matches!(status, 412 | 429 | 472 | 473 | 500..=599),
            Self::Missing(_)
            | Self::NoLogin
            | Self::Path(_)
            | Self::File { .. }
            | Self::NoJson { .. }
            | Self::NoSecret(_)
            | Self::NoKey { .. } => false,
        }
    }

    /// Returns the fix, if one is known.
    pub(crate) fn fix(&self) -> Option<String> {
        match self {
            Self::Missing(name) => Some(format!("export {name}=…")),
            Self::NoLogin => Some("export VAULT_TOKEN=…, or VAULT_ROLE_ID=… and VAULT_SECRET_ID=…, or VAULT_ROLE=… in Kubernetes".to_owned()),
            Self::Refused { status: 403, path, .. } if !path.starts_with("auth/") => {
                Some(format!("let a policy of the role have: path \"{path}\" {{ capabilities = [\"read\"] }}"))
            }
            Self::Path(_)
            | Self::File { .. }
            | Self::Unreachable { .. }
            | Self::NoJson { .. }
            | Self::Refused { .. }
            | Self::NoSecret(_)
            | Self::NoKey { .. } => None,
        }
    }
}
