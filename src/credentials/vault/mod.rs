//! Secrets of the key-value engines of HashiCorp Vault and of OpenBao, with the variables of Vault's own tools.
//!
//! ```text
//!   ${vault:PATH:KEY} ──▶ remembered for 15 s ──▶ else: log in (token · AppRole · Kubernetes) ──▶ GET /v1/PATH
//! ```

mod error;
mod login;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::Value;

use super::http::{self, Answer};
use super::wiped_json::WipedJson;
use crate::secret::Secret;
pub(crate) use error::VaultError;
use login::{Login, Token};

/// Time for which a secret is remembered. Some readers look every few seconds; a password that was refused is requested for minutes.
const REMEMBERED: Duration = Duration::from_secs(15);

/// Longest time for a login and a read.
const ANSWER_MAX: Duration = Duration::from_secs(8);

/// Tokens and secrets of each Vault.
static REMEMBERED_OF: Mutex<BTreeMap<String, Memory>> = Mutex::new(BTreeMap::new());

/// A Vault, and a way to log in there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vault {
    address: String,
    namespace: Option<String>,
    login: Login,
}

#[derive(Debug, Default)]
struct Memory {
    token: Option<Token>,
    secrets: BTreeMap<String, (Instant, BTreeMap<String, Secret>)>,
}

impl Vault {
    /// Reads `VAULT_ADDR`, `VAULT_NAMESPACE` and the variables of a login.
    ///
    /// # Errors
    /// When a variable is missing, or a token file cannot be read.
    pub(crate) fn of(environment: &HashMap<String, String>) -> Result<Self, VaultError> {
        let get = |name: &str| environment.get(name).filter(|value| !value.trim().is_empty());
        let address = get("VAULT_ADDR").ok_or(VaultError::Missing("VAULT_ADDR"))?;
        Ok(Self {
            address: address.trim().trim_end_matches('/').to_owned(),
            namespace: get("VAULT_NAMESPACE").cloned(),
            login: Login::of(environment)?,
        })
    }

    /// Returns a key of a secret. It blocks, on a thread of its own, since its caller may be inside of an asynchronous runtime.
    ///
    /// # Errors
    /// When Vault does not answer, refuses the login or the path, or has no such secret or key.
    pub(crate) fn read(&self, path: &str, key: &str) -> Result<Secret, VaultError> {
        if !is_path(path) {
            return Err(VaultError::Path(path.to_owned()));
        }
        let mut memory = REMEMBERED_OF.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = memory.entry(format!("{self:?}")).or_default();
        let is_fresh = memory.secrets.get(path).is_some_and(|(read_at, _)| read_at.elapsed() < REMEMBERED);
        if !is_fresh {
            let secret = self.ask_on_a_thread(path, memory)?;
            memory.secrets.insert(path.to_owned(), (Instant::now(), secret));
        }
        let secret = memory.secrets.get(path).and_then(|(_, secret)| secret.get(key)).cloned();
        secret.ok_or_else(|| VaultError::NoKey { path: path.to_owned(), key: key.to_owned() })
    }

    fn ask_on_a_thread(
        &self,
        path: &str,
        memory: &mut Memory,
    ) -> Result<BTreeMap<String, Secret>, VaultError> {
        let failed =
            |source: std::io::Error| VaultError::Unreachable { address: self.address.clone(), source };
        let ask = || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
            let late = |_| failed(std::io::Error::from(std::io::ErrorKind::TimedOut));
            runtime.block_on(async {
                tokio::time::timeout(ANSWER_MAX, self.ask(path, memory)).await.map_err(late)?
            })
        };
        thread::scope(|scope| {
            let aborted = |_| Err(failed(std::io::Error::other("the request was aborted")));
            scope.spawn(ask).join().unwrap_or_else(aborted)
        })
    }

    /// Reads a secret, with a new token if the last one is refused.
    async fn ask(&self, path: &str, memory: &mut Memory) -> Result<BTreeMap<String, Secret>, VaultError> {
        if let Some(token) = memory.token.as_ref().filter(|token| token.is_valid()) {
            match self.get(path, &token.value).await {
                Err(VaultError::Refused { status: 403, .. }) => {}
                answer => return answer,
            }
        }
        let token = memory.token.insert(self.login.token(self).await?);
        self.get(path, &token.value).await
    }

    /// Reads a secret of an engine of version 1 or 2. The path of version 2 may be that of Vault's tools, without `data`, which no policy
    /// allows.
    async fn get(&self, path: &str, token: &Secret) -> Result<BTreeMap<String, Secret>, VaultError> {
        let path = path.trim_matches('/');
        let first = self.get_at(path, token).await;
        let Err(VaultError::Refused { status: status @ (403 | 404), .. }) = first else { return first };
        let with_data = path.split_once('/').filter(|(_, rest)| !rest.starts_with("data/"));
        let second = match with_data {
            Some((engine, rest)) => self.get_at(&format!("{engine}/data/{rest}"), token).await,
            None => Err(VaultError::NoSecret(path.to_owned())),
        };
        match second {
            Err(VaultError::NoSecret(_) | VaultError::Refused { status: 404, .. }) if status == 403 => first,
            Err(VaultError::Refused { status: 404, .. }) => Err(VaultError::NoSecret(path.to_owned())),
            second => second,
        }
    }

    async fn get_at(&self, path: &str, token: &Secret) -> Result<BTreeMap<String, Secret>, VaultError> {
        let headers = [("X-Vault-Token", token.expose())];
        let json = self.request(Method::GET, path, &headers, String::new()).await?;
        let object = |path: &str| json.pointer(path).and_then(Value::as_object);
        let second_version = object("/data/metadata").and_then(|_| object("/data/data"));
        let members = second_version
            .or_else(|| object("/data"))
            .ok_or_else(|| VaultError::NoSecret(path.to_owned()))?;
        let text = |value: &Value| value.as_str().map_or_else(|| Secret::new(value.to_string()), Secret::new);
        Ok(members.iter().map(|(key, value)| (key.clone(), text(value))).collect())
    }

    /// Sends a request, and reads its JSON.
    async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<WipedJson, VaultError> {
        let length = body.len().to_string();
        let mut all = vec![("X-Vault-Request", "true"), ("Content-Length", length.as_str())];
        all.extend(self.namespace.as_deref().map(|namespace| ("X-Vault-Namespace", namespace)));
        all.extend(headers);
        let url = format!("{}/v1/{path}", self.address);
        let answer = http::ask(method, &url, &all, body).await;
        let answer =
            answer.map_err(|source| VaultError::Unreachable { address: self.address.clone(), source })?;
        self.read_answer(path, &answer)
    }

    fn read_answer(&self, path: &str, answer: &Answer) -> Result<WipedJson, VaultError> {
        let json = WipedJson::parse(&answer.body);
        if answer.status == 200 {
            return json.ok_or_else(|| VaultError::NoJson { address: self.address.clone() });
        }
        let reasons =
            json.iter().flat_map(|json| json.get("errors").and_then(Value::as_array).into_iter().flatten());
        let reasons: Vec<_> = reasons.filter_map(Value::as_str).map(|text| text.trim().to_owned()).collect();
        Err(VaultError::Refused { status: answer.status, path: path.to_owned(), reason: reasons.join("; ") })
    }
}

/// Returns whether it is a path that a URL can have as it is.
fn is_path(path: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~@+=,".contains(c);
    !path.is_empty() && path.chars().all(is_plain) && !path.split('/').any(|part| part == "..")
}

#[cfg(test)]
mod tests;
