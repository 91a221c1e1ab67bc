//! Login tokens of RDS, Aurora and MSK.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::chain::{Environment, KeysError};
use super::keys::Keys;
use super::role::Role;
use super::signature::{Request, presign};
use crate::credentials::source::{Credential, Target};
use crate::http_client::USER_AGENT;
use crate::secret::Secret;

/// Life of a token. A connection that is open needs no other, unless the brokers ask for one.
const TOKEN_LIFE: Duration = Duration::from_secs(900);

/// Failure to make a token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// There are no keys.
    #[error("no AWS access keys")]
    Keys(#[from] KeysError),
    /// OpenSSL refuses to sign.
    #[error("the token cannot be signed")]
    Signature(#[from] openssl::error::ErrorStack),
}

/// The service that a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    Rds,
    Msk,
}

/// The maker of tokens. It remembers the access keys.
#[derive(Debug)]
pub(crate) struct IamToken {
    service: Service,
    environment: Environment,
    region: String,
    role: Option<Role>,
    keys: Mutex<Option<(Keys, SystemTime)>>,
}

impl IamToken {
    /// Makes tokens for databases of RDS and Aurora in a region.
    pub(crate) fn rds(environment: Environment, region: String) -> Self {
        Self { service: Service::Rds, environment, region, role: None, keys: Mutex::new(None) }
    }

    /// Makes tokens for clusters of MSK in a region, with the keys of a role if there is one.
    pub(crate) fn msk(environment: Environment, region: String, role: Option<Role>) -> Self {
        Self { service: Service::Msk, environment, region, role, keys: Mutex::new(None) }
    }

    /// Makes a token for a server and a role of the database, or for the brokers.
    pub(in crate::credentials) async fn make(&self, target: &Target) -> Result<Credential, TokenError> {
        let now = SystemTime::now();
        let keys = self.keys(now).await?;
        let signed_at = Timestamp::try_from(now).unwrap_or(Timestamp::UNIX_EPOCH);
        let value = match self.service {
            Service::Rds => rds_token(target, &self.region, &keys, signed_at)?,
            Service::Msk => msk_token(&self.region, &keys, signed_at)?,
        };
        // A token ends with the keys that signed it.
        let ends = keys.expires_at.into_iter().chain(now.checked_add(TOKEN_LIFE));
        Ok(Credential { value, expires_at: ends.min() })
    }

    /// Forgets the keys, whose token a server has refused.
    pub(in crate::credentials) async fn forget_keys(&self) {
        *self.keys.lock().await = None;
    }

    /// Returns the access key id that signs, for reports.
    pub(in crate::credentials) async fn key_id(&self) -> Option<String> {
        self.keys.lock().await.as_ref().map(|(keys, _)| keys.id.clone())
    }

    async fn keys(&self, now: SystemTime) -> Result<Keys, TokenError> {
        let mut last = self.keys.lock().await;
        if let Some((keys, _)) = last.as_ref().filter(|(keys, fetched_at)| keys.are_valid(now, *fetched_at)) {
            return Ok(keys.clone());
        }
        *last = None;
        let own = self.environment.keys().await?;
        let keys = match &self.role {
            Some(role) => role.assume(&self.environment, &own).await?,
            None => own,
        };
        *last = Some((keys.clone(), now));
        Ok(keys)
    }
}

fn rds_token(target: &Target, region: &str, keys: &Keys, now: Timestamp) -> Result<Secret, TokenError> {
    let host = format!("{}:{}", target.host, target.port);
    let query = [("Action", "connect"), ("DBUser", target.user.as_str())];
    let request =
        Request { host: &host, region, service: "rds-db", query: &query, seconds: TOKEN_LIFE.as_secs() };
    Ok(presign(&request, keys, now)?)
}

/// Makes the token of AWS' own signers for MSK: the URL with the client's name, which is not signed, in base64.
fn msk_token(region: &str, keys: &Keys, now: Timestamp) -> Result<Secret, TokenError> {
    let host = format!("kafka.{region}.amazonaws.com");
    let (service, query) = ("kafka-cluster", [("Action", "kafka-cluster:Connect")]);
    let request = Request { host: &host, region, service, query: &query, seconds: TOKEN_LIFE.as_secs() };
    let signed = presign(&request, keys, now)?;
    let agent = USER_AGENT.replace('/', "%2F");
    let url = Zeroizing::new(["https://", signed.expose(), "&User-Agent=", &agent].concat());
    Ok(Secret::new(BASE64_URL_SAFE_NO_PAD.encode(url.as_bytes())))
}

/// Returns the region in the name of a server of RDS.
pub(crate) fn region_of_rds(host: &str) -> Option<&str> {
    let name =
        host.strip_suffix(".rds.amazonaws.com").or_else(|| host.strip_suffix(".rds.amazonaws.com.cn"))?;
    name.rsplit('.').next().filter(|region| !region.is_empty())
}

/// Returns the region in the names of brokers of MSK.
pub(crate) fn region_of_kafka(servers: &str) -> Option<&str> {
    let first = servers.split(',').next()?.trim();
    let host = first.rsplit_once(':').map_or(first, |(host, _)| host);
    let name = host.strip_suffix(".amazonaws.com").or_else(|| host.strip_suffix(".amazonaws.com.cn"))?;
    let (before, region) = name.rsplit_once('.')?;
    let is_msk = [".kafka", ".kafka-serverless"].iter().any(|service| before.ends_with(service));
    is_msk.then_some(region)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_is_in_the_name_of_a_server() {
        for (host, region) in [
            ("orders.abc123.eu-central-1.rds.amazonaws.com", Some("eu-central-1")),
            ("orders.cluster-abc.cn-north-1.rds.amazonaws.com.cn", Some("cn-north-1")),
            ("db.internal", None),
        ] {
            assert_eq!(region_of_rds(host), region, "{host}");
        }
        for (servers, region) in [
            ("b-1.orders.abc.c2.kafka.eu-west-1.amazonaws.com:9098,b-2.x:9098", Some("eu-west-1")),
            ("boot-abc.c1.kafka-serverless.us-east-1.amazonaws.com:9098", Some("us-east-1")),
            ("localhost:9092", None),
            ("a.b.amazonaws.com", None),
        ] {
            assert_eq!(region_of_kafka(servers), region, "{servers}");
        }
    }

    #[test]
    fn a_token_of_msk_is_a_signed_url_in_base64() {
        let session = Some(Secret::new("a/b="));
        let keys = Keys { id: "AKID".to_owned(), secret: Secret::new("S"), session, expires_at: None };
        let token = msk_token("eu-west-1", &keys, "2026-01-02T03:04:05Z".parse().unwrap()).unwrap();
        let url = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(token.expose()).unwrap()).unwrap();
        let begin = "https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&X-Amz-Algorithm=AWS4-HMAC-SHA256\
                     &X-Amz-Credential=AKID%2F20260102%2Feu-west-1%2Fkafka-cluster%2Faws4_request&X-Amz-Date=20260102T030405Z\
                     &X-Amz-Expires=900&X-Amz-Security-Token=a%2Fb%3D&X-Amz-SignedHeaders=host&X-Amz-Signature=";
        assert!(url.starts_with(begin), "{url}");
        assert!(url.contains("&User-Agent=outboxd%2F"), "{url}");
    }
}
