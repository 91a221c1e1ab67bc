//! Access tokens of Google Cloud, by the environment of Google's own libraries.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use zeroize::Zeroizing;

use super::endpoint::Endpoint;
use super::error::IdentityError;
use super::service_account::ServiceAccount;
use super::variables::Variables;
use crate::credentials::source::Credential;
use crate::secret::Secret;

const METADATA: &str = "metadata.google.internal";
const SERVICE: &str = "Google's metadata server";
const FLAVOR: (&str, &str) = ("Metadata-Flavor", "Google");
pub(super) const KEY_FILE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

/// An identity of Google Cloud, and the use of its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Google {
    variables: Variables,
    target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    CloudSql,
    Kafka,
}

impl Google {
    /// Makes tokens for databases of Cloud SQL and AlloyDB.
    pub(crate) const fn cloud_sql(variables: Variables) -> Self {
        Self { variables, target: Target::CloudSql }
    }

    /// Makes tokens for Managed Service for Apache Kafka.
    pub(crate) const fn kafka(variables: Variables) -> Self {
        Self { variables, target: Target::Kafka }
    }

    /// Asks for a token: with a service account's key, or of the metadata server.
    pub(super) async fn token(&self) -> Result<Credential, IdentityError> {
        let (token, email) = match self.variables.get(KEY_FILE) {
            Some(path) => {
                let account = read(path)?;
                (account.token(self.scope(), SystemTime::now()).await?, account.email)
            }
            None => match self.target {
                Target::CloudSql => (self.token_of_metadata().await?, String::new()),
                Target::Kafka => (self.token_of_metadata().await?, self.email_of_metadata().await?),
            },
        };
        match self.target {
            Target::CloudSql => Ok(token),
            Target::Kafka => Ok(for_kafka(token, &email, SystemTime::now())),
        }
    }

    /// Returns whose tokens they are, for reports; None where the token itself has it.
    pub(super) fn description(&self) -> Option<String> {
        match (self.target, self.variables.get(KEY_FILE)) {
            (Target::Kafka, _) => None,
            (Target::CloudSql, Some(path)) => {
                Some(format!("a Google access token of the service account in {path}"))
            }
            (Target::CloudSql, None) => Some("a Google access token of the metadata server".to_owned()),
        }
    }

    const fn scope(&self) -> &'static str {
        match self.target {
            Target::CloudSql => "https://www.googleapis.com/auth/sqlservice.login",
            Target::Kafka => "https://www.googleapis.com/auth/cloud-platform",
        }
    }

    async fn token_of_metadata(&self) -> Result<Credential, IdentityError> {
        let url = format!(
            "{}/token?scopes={}",
            self.account_url(),
            utf8_percent_encode(self.scope(), NON_ALPHANUMERIC)
        );
        Endpoint { service: SERVICE, url: &url }.get(&[FLAVOR]).await
    }

    async fn email_of_metadata(&self) -> Result<String, IdentityError> {
        let url = format!("{}/email", self.account_url());
        let email = Endpoint { service: SERVICE, url: &url }.get_text(&[FLAVOR]).await?;
        Ok(email.trim().to_owned())
    }

    fn account_url(&self) -> String {
        let host = self.variables.get("GCE_METADATA_HOST").unwrap_or(METADATA);
        format!("http://{host}/computeMetadata/v1/instance/service-accounts/default")
    }
}

fn read(path: &str) -> Result<ServiceAccount, IdentityError> {
    let text = fs::read_to_string(path).map(Zeroizing::new);
    let text = text.map_err(|source| IdentityError::File { path: path.to_owned(), source })?;
    ServiceAccount::parse(&text, path)
}

/// Returns a token in the form that Google's brokers ask for: an access token in the place of a JWT's signature.
fn for_kafka(token: Credential, email: &str, now: SystemTime) -> Credential {
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let encoded = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let header = json!({ "typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN" });
    let end = token.expires_at.unwrap_or(now);
    let claims =
        json!({ "exp": seconds(end), "iss": "Google", "iat": seconds(now), "scope": "kafka", "sub": email });
    let signature = Zeroizing::new(encoded(token.value.expose()));
    let value = [&encoded(&header.to_string()), ".", &encoded(&claims.to_string()), ".", &signature].concat();
    Credential { value: Secret::new(value), ..token }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::credentials::jwt;
    use crate::error::chain;
    use crate::http_client::test_server::{answer, serve, serve_each};

    fn token(google: &Google) -> Result<Credential, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(google.token()).map_err(|error| chain(&error))
    }

    fn variables(name: &str, value: &str) -> Variables {
        Variables::of([(name.to_owned(), value.to_owned())])
    }

    const TOKEN: &str = r#"{"access_token":"ya29.t","expires_in":3000,"token_type":"Bearer"}"#;

    #[test]
    fn the_metadata_server_gives_a_token_for_cloud_sql() {
        let (port, serving) = serve(&answer("200 OK", TOKEN), None);
        let google = Google::cloud_sql(variables("GCE_METADATA_HOST", &format!("127.0.0.1:{port}")));
        assert_eq!(token(&google).unwrap().value.expose(), "ya29.t");
        let asked = serving.join().unwrap();
        let begin = "GET /computeMetadata/v1/instance/service-accounts/default/token?scopes=https%3A%2F%2Fwww%2Egoogleapis%2Ecom%2Fauth%2Fsqlservice%2Elogin ";
        assert!(asked.starts_with(begin), "{asked}");
        assert!(asked.to_lowercase().contains("metadata-flavor: google\r\n"), "{asked}");
        let told = token(&Google::cloud_sql(variables("GCE_METADATA_HOST", "127.0.0.1:1"))).unwrap_err();
        assert!(told.starts_with("Google's metadata server at http://127.0.0.1:1/"), "{told}");
    }

    #[test]
    fn a_token_for_kafka_has_the_account_and_the_access_token() {
        let answers =
            [TOKEN, "orders@p.iam.gserviceaccount.com\n"].map(|body| answer("200 OK", body).into_bytes());
        let (port, serving) = serve_each(answers.into());
        let google = Google::kafka(variables("GCE_METADATA_HOST", &format!("127.0.0.1:{port}")));
        let token = token(&google).unwrap();
        let claims = jwt::claims(token.value.expose()).unwrap();
        assert_eq!(claims.subject.as_deref(), Some("orders@p.iam.gserviceaccount.com"));
        let difference = token.expires_at.unwrap().duration_since(claims.expires_at.unwrap()).unwrap();
        assert!(difference < Duration::from_secs(1), "{difference:?}");
        let parts: Vec<_> = token
            .value
            .expose()
            .split('.')
            .map(|part| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap())
            .collect();
        assert_eq!(parts[0], br#"{"typ":"JWT","alg":"GOOG_OAUTH2_TOKEN"}"#);
        assert_eq!(parts[2], b"ya29.t");
        assert!(
            serving.join().unwrap()[1]
                .starts_with("GET /computeMetadata/v1/instance/service-accounts/default/email ")
        );
    }

    #[test]
    fn a_key_file_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.json").display().to_string();
        let told = |text: &str| {
            fs::write(&path, text).unwrap();
            token(&Google::cloud_sql(variables(KEY_FILE, &path))).unwrap_err().replace(&path, "FILE")
        };
        assert_eq!(told(r#"{"type":"external_account"}"#), "type external_account in FILE is not supported");
        assert_eq!(told("canary"), "FILE is not the key of a service account");
        assert_eq!(
            told(r#"{"type":"service_account","private_key":"canary"}"#),
            "FILE is not the key of a service account"
        );
        let broken = r#"{"type":"service_account","client_email":"e","private_key":"canary","token_uri":"http://127.0.0.1:1"}"#;
        let shown = told(broken);
        assert!(
            shown.starts_with("the private key in FILE cannot sign") && !shown.contains("canary"),
            "{shown}"
        );
        fs::remove_file(&path).unwrap();
        let shown = token(&Google::cloud_sql(variables(KEY_FILE, &path))).unwrap_err();
        assert!(shown.contains("key.json cannot be read"), "{shown}");
    }
}
