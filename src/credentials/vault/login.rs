//! Logins at Vault.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{Vault, VaultError};
use crate::secret::Secret;

const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Part of its life for which a token is used.
const USED_PERCENT: u64 = 80;

/// A token of Vault.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) value: Secret,
    /// End of its use, if it has one.
    pub(super) ends_at: Option<Instant>,
}

impl Token {
    pub(super) fn is_valid(&self) -> bool {
        self.ends_at.is_none_or(|end| Instant::now() < end)
    }
}

/// A way to get a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Login {
    /// `VAULT_TOKEN`
    Token(Secret),
    /// A file that another program, such as Vault's agent, replaces.
    File(PathBuf),
    /// `VAULT_ROLE_ID` and `VAULT_SECRET_ID`
    AppRole { mount: String, role: String, secret: Secret },
    /// `VAULT_ROLE`, with the token of the pod's service account.
    Kubernetes { mount: String, role: String, account: PathBuf },
}

impl Login {
    /// Chooses the first login whose variables are set.
    pub(super) fn of(environment: &HashMap<String, String>) -> Result<Self, VaultError> {
        let get =
            |name: &str| environment.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let mount = |default: &str| get("VAULT_AUTH_MOUNT").unwrap_or(default).trim_matches('/').to_owned();
        if let Some(token) = get("VAULT_TOKEN") {
            return Ok(Self::Token(Secret::new(token)));
        }
        if let Some(role) = get("VAULT_ROLE_ID") {
            let secret = get("VAULT_SECRET_ID").ok_or(VaultError::Missing("VAULT_SECRET_ID"))?;
            let (mount, role) = (mount("approle"), role.to_owned());
            return Ok(Self::AppRole { mount, role, secret: Secret::new(secret) });
        }
        if let Some(role) = get("VAULT_ROLE") {
            let account = PathBuf::from(get("VAULT_K8S_TOKEN_PATH").unwrap_or(SERVICE_ACCOUNT));
            return Ok(Self::Kubernetes { mount: mount("kubernetes"), role: role.to_owned(), account });
        }
        let file = get("VAULT_TOKEN_FILE").map(PathBuf::from);
        let file = file.or_else(|| Some(PathBuf::from(get("HOME")?).join(".vault-token")));
        file.filter(|file| file.exists()).map(Self::File).ok_or(VaultError::NoLogin)
    }

    /// Returns a token.
    pub(super) async fn token(&self, vault: &Vault) -> Result<Token, VaultError> {
        match self {
            Self::Token(token) => Ok(Token { value: token.clone(), ends_at: None }),
            Self::File(path) => Ok(Token { value: read(path)?, ends_at: Some(Instant::now()) }),
            Self::AppRole { mount, role, secret } => {
                let body = json!({ "role_id": role, "secret_id": secret.expose() });
                log_in(vault, mount, &body).await
            }
            Self::Kubernetes { mount, role, account } => {
                let account = read(account)?;
                log_in(vault, mount, &json!({ "role": role, "jwt": account.expose() })).await
            }
        }
    }
}

async fn log_in(vault: &Vault, mount: &str, body: &Value) -> Result<Token, VaultError> {
    let path = format!("auth/{mount}/login");
    let headers = [("Content-Type", "application/json")];
    let json = vault.request(Method::POST, &path, &headers, body.to_string()).await?;
    let value = json.pointer("/auth/client_token").and_then(Value::as_str).map(Secret::new);
    let value = value.ok_or_else(|| VaultError::NoJson { address: vault.address.clone() })?;
    let seconds = json.pointer("/auth/lease_duration").and_then(Value::as_u64).filter(|seconds| *seconds > 0);
    let used = |seconds: u64| Duration::from_secs(seconds.saturating_mul(USED_PERCENT) / 100);
    let ends_at = seconds.and_then(|seconds| Instant::now().checked_add(used(seconds)));
    Ok(Token { value, ends_at })
}

fn read(path: &PathBuf) -> Result<Secret, VaultError> {
    let text = fs::read_to_string(path).map(Zeroizing::new);
    let text = text.map_err(|source| VaultError::File { path: path.clone(), source })?;
    Ok(Secret::new(text.trim()))
}
