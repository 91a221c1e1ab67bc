//! Sources of AWS' access keys, in the order of AWS' own libraries.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hyper::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use zeroize::Zeroizing;

use super::keys::{Keys, element};
use super::profile;
use crate::credentials::http::{self, Answer};
use crate::secret::Secret;

const CONTAINER: &str = "http://169.254.170.2";
const INSTANCE: &str = "http://169.254.169.254";
pub(super) const SESSION: &str = "outboxd";
pub(super) const STS: &str = "AWS STS";

/// The variables that AWS' tools read.
#[derive(Clone)]
pub(crate) struct Environment(BTreeMap<String, Secret>);

/// Failure to get access keys. It has no secret.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A file cannot be read.
    #[error("{path} cannot be read")]
    File {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A service does not answer.
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
    /// A service refuses.
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
    /// An answer or a file without keys.
    #[error("{0} has no AWS access keys")]
    NoKeys(String),
    /// A kind of profile that is not supported.
    #[error(
        "profile {profile:?} has {setting}, which is not supported: keys, or role_arn with web_identity_token_file, are"
    )]
    Unsupported {
        /// The profile.
        profile: String,
        /// The setting.
        setting: &'static str,
    },
}

impl Environment {
    /// Reads the variables.
    pub(crate) fn of(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let ours = |(name, value): (String, String)| {
            let is_ours = (name.starts_with("AWS_") || name == "HOME") && !value.is_empty();
            is_ours.then(|| (name, Secret::new(value)))
        };
        Self(variables.into_iter().filter_map(ours).collect())
    }

    /// Reads the variables of this process.
    pub(crate) fn of_process() -> Self {
        let texts =
            |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        Self::of(std::env::vars_os().filter_map(texts))
    }

    /// Uses this profile in the place of keys and of a profile that the variables name.
    pub(crate) fn with_profile(mut self, profile: &str) -> Self {
        let keys = [
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
        ];
        self.0.retain(|name, _| !keys.contains(&name.as_str()));
        self.0.insert("AWS_PROFILE".to_owned(), Secret::new(profile));
        self
    }

    /// Returns the URL of STS in a region.
    pub(super) fn sts_url(&self, region: Option<&str>) -> String {
        match (self.get("AWS_ENDPOINT_URL_STS"), region) {
            (Some(url), _) => url.trim_end_matches('/').to_owned(),
            (None, Some(region)) => format!("https://sts.{region}.{}", domain(region)),
            (None, None) => "https://sts.amazonaws.com".to_owned(),
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(Secret::expose)
    }

    /// Returns the region of `AWS_REGION`, `AWS_DEFAULT_REGION` or the profile.
    pub(crate) fn region(&self) -> Option<String> {
        let named = self.get("AWS_REGION").or_else(|| self.get("AWS_DEFAULT_REGION")).map(str::to_owned);
        let of_profile = || Some(self.profile().ok()?.remove("region")?.expose().to_owned());
        named.or_else(of_profile).filter(|region| !region.is_empty())
    }

    /// Asks for keys: the environment, a web identity, the profile, the container, the instance.
    pub(super) async fn keys(&self) -> Result<Keys, KeysError> {
        if let (Some(id), Some(secret)) = (self.get("AWS_ACCESS_KEY_ID"), self.get("AWS_SECRET_ACCESS_KEY")) {
            let session = self.get("AWS_SESSION_TOKEN").map(Secret::new);
            return Ok(Keys { id: id.to_owned(), secret: Secret::new(secret), session, expires_at: None });
        }
        if let (Some(file), Some(role)) = (self.get("AWS_WEB_IDENTITY_TOKEN_FILE"), self.get("AWS_ROLE_ARN"))
        {
            return self.assume_role(Path::new(file), role).await;
        }
        if let Some(keys) = self.keys_of_profile().await? {
            return Ok(keys);
        }
        match self.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
            Some(url) => self.keys_of_container(url).await,
            None => match self.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
                Some(path) => self.keys_of_container(&format!("{CONTAINER}{path}")).await,
                None => self.keys_of_instance().await,
            },
        }
    }

    fn profile(&self) -> Result<BTreeMap<String, Secret>, KeysError> {
        let name = self.profile_name();
        let mut settings = BTreeMap::new();
        for (variable, file) in
            [("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials")]
        {
            let home = || Some(Path::new(self.get("HOME")?).join(".aws").join(file));
            let Some(path) = self.get(variable).map(PathBuf::from).or_else(home) else { continue };
            match fs::read_to_string(&path).map(Zeroizing::new) {
                Ok(text) => settings.extend(profile::section(&text, name, file == "config")),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(KeysError::File { path: path.display().to_string(), source }),
            }
        }
        Ok(settings)
    }

    fn profile_name(&self) -> &str {
        self.get("AWS_PROFILE").unwrap_or("default")
    }

    async fn keys_of_profile(&self) -> Result<Option<Keys>, KeysError> {
        let settings = self.profile()?;
        let get = |name: &str| settings.get(name).map(Secret::expose).filter(|value| !value.is_empty());
        if let (Some(id), Some(secret)) = (get("aws_access_key_id"), get("aws_secret_access_key")) {
            let session = get("aws_session_token").map(Secret::new);
            return Ok(Some(Keys {
                id: id.to_owned(),
                secret: Secret::new(secret),
                session,
                expires_at: None,
            }));
        }
        if let (Some(file), Some(role)) = (get("web_identity_token_file"), get("role_arn")) {
            return self.assume_role(Path::new(file), role).await.map(Some);
        }
        let unsupported =
            ["sso_session", "sso_start_url", "source_profile", "credential_source", "credential_process"];
        match unsupported.into_iter().find(|name| get(name).is_some()) {
            Some(setting) => Err(KeysError::Unsupported { profile: self.profile_name().to_owned(), setting }),
            None if self.get("AWS_PROFILE").is_some() => {
                Err(KeysError::NoKeys(format!("profile {:?}", self.profile_name())))
            }
            None => Ok(None),
        }
    }

    /// Gets keys for a web identity. The token's file is read each time: Kubernetes replaces it.
    async fn assume_role(&self, file: &Path, role: &str) -> Result<Keys, KeysError> {
        let token = fs::read_to_string(file)
            .map(Zeroizing::new)
            .map_err(|source| KeysError::File { path: file.display().to_string(), source })?;
        let url = self.sts_url(self.region().as_deref());
        let encoded = |text: &str| Zeroizing::new(utf8_percent_encode(text, NON_ALPHANUMERIC).to_string());
        let session = self.get("AWS_ROLE_SESSION_NAME").unwrap_or(SESSION);
        let body = format!(
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn={}&RoleSessionName={}&WebIdentityToken={}",
            *encoded(role),
            *encoded(session),
            *encoded(token.trim())
        );
        let length = body.len().to_string();
        let headers =
            [("Content-Type", "application/x-www-form-urlencoded"), ("Content-Length", length.as_str())];
        let answer = http::ask(Method::POST, &format!("{url}/"), &headers, body).await;
        let body = accept(STS, &url, answer)?;
        Keys::from_xml(&body).ok_or_else(|| KeysError::NoKeys(format!("the answer of {STS} at {url}")))
    }

    async fn keys_of_container(&self, url: &str) -> Result<Keys, KeysError> {
        const SERVICE: &str = "the container's credentials endpoint";
        let token = match self.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            Some(path) => {
                let read = fs::read_to_string(path);
                Some(Zeroizing::new(
                    read.map_err(|source| KeysError::File { path: path.to_owned(), source })?,
                ))
            }
            None => {
                self.get("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(|token| Zeroizing::new(token.to_owned()))
            }
        };
        let headers: Vec<_> = token.iter().map(|token| ("Authorization", token.trim())).collect();
        let body = accept(SERVICE, url, http::ask(Method::GET, url, &headers, String::new()).await)?;
        Keys::from_json(&body).ok_or_else(|| KeysError::NoKeys(format!("the answer of {SERVICE} at {url}")))
    }

    /// Asks the instance metadata service, in its second version.
    async fn keys_of_instance(&self) -> Result<Keys, KeysError> {
        const SERVICE: &str = "the instance metadata service";
        const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
        if self.get("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Err(KeysError::NoKeys("this environment".to_owned()));
        }
        let url = self.get("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or(INSTANCE).trim_end_matches('/');
        let life = [("X-aws-ec2-metadata-token-ttl-seconds", "300"), ("Content-Length", "0")];
        let token = http::ask(Method::PUT, &format!("{url}/latest/api/token"), &life, String::new()).await;
        let token = accept(SERVICE, url, token)?;
        let proof = [("X-aws-ec2-metadata-token", token.trim())];
        let roles = format!("{url}{ROLES}");
        let answer = http::ask(Method::GET, &roles, &proof, String::new()).await;
        let names = accept(SERVICE, url, answer)?;
        let role = names.lines().next().unwrap_or_default().trim();
        let answer = http::ask(Method::GET, &format!("{roles}{role}"), &proof, String::new()).await;
        let body = accept(SERVICE, url, answer)?;
        Keys::from_json(&body).ok_or_else(|| KeysError::NoKeys(format!("role {role:?} of {SERVICE}")))
    }
}

/// Returns the domain of a region's endpoints.
fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

/// Returns the body of an answer. Of a refusal only the message of AWS' error is shown.
pub(super) fn accept(
    service: &'static str,
    url: &str,
    answer: io::Result<Answer>,
) -> Result<Zeroizing<String>, KeysError> {
    let answer = answer.map_err(|source| KeysError::Silent { service, url: url.to_owned(), source })?;
    if answer.status == 200 {
        return Ok(answer.body);
    }
    let reason = element(&answer.body, "Message").map(|message| format!(": {message}")).unwrap_or_default();
    Err(KeysError::Refused { service, url: url.to_owned(), status: answer.status, reason })
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
