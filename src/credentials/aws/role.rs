//! `AssumeRole` of STS: temporary keys of a role.

use hyper::Method;
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::chain::{Environment, KeysError, SESSION, STS, accept};
use super::iam_token::TokenError;
use super::keys::Keys;
use super::signature::{Request, presign};
use crate::credentials::http;

/// Region of STS' global endpoint.
const GLOBAL_REGION: &str = "us-east-1";
const SECONDS: u64 = 300;

/// A role whose keys are asked for with other keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Role {
    /// Its ARN.
    pub(crate) arn: String,
    /// The name of the session, in AWS' logs.
    pub(crate) session: Option<String>,
    /// The external id that its trust policy may ask for.
    pub(crate) external_id: Option<String>,
    /// The region of STS.
    pub(crate) sts_region: Option<String>,
}

impl Role {
    /// Gets keys of the role with these keys.
    pub(super) async fn assume(&self, environment: &Environment, keys: &Keys) -> Result<Keys, TokenError> {
        let region = self.sts_region.clone().or_else(|| environment.region());
        let url = environment.sts_url(region.as_deref());
        let (scheme, host) = url.split_once("://").unwrap_or(("https", url.as_str()));
        let mut query = vec![
            ("Action", "AssumeRole"),
            ("Version", "2011-06-15"),
            ("RoleArn", self.arn.as_str()),
            ("RoleSessionName", self.session.as_deref().unwrap_or(SESSION)),
        ];
        query.extend(self.external_id.as_deref().map(|id| ("ExternalId", id)));
        let region = region.as_deref().unwrap_or(GLOBAL_REGION);
        let request = Request { host, region, service: "sts", query: &query, seconds: SECONDS };
        let signed = presign(&request, keys, Timestamp::now())?;
        let signed = Zeroizing::new([scheme, "://", signed.expose()].concat());
        let answer = http::ask(Method::GET, &signed, &[], String::new()).await;
        let body = accept(STS, &url, answer)?;
        let found = Keys::from_xml(&body);
        found.ok_or_else(|| KeysError::NoKeys(format!("the answer of {STS} at {url}")).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_client::test_server::{answer, serve};
    use crate::secret::Secret;

    #[test]
    fn sts_is_asked_for_a_role_with_a_signed_url() {
        let xml = "<Credentials><AccessKeyId>B</AccessKeyId><SecretAccessKey>S</SecretAccessKey><SessionToken>T</SessionToken>\
                   <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>";
        let refusal = "<Error><Code>AccessDenied</Code><Message>not authorized to perform: sts:AssumeRole</Message></Error>";
        let keys =
            Keys { id: "A".to_owned(), secret: Secret::new("canary"), session: None, expires_at: None };
        let role = Role {
            arn: "arn:aws:iam::1:role/r".to_owned(),
            external_id: Some("x".to_owned()),
            sts_region: Some("eu-west-1".to_owned()),
            ..Role::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ask = |status: &str, body: &str| {
            let (port, serving) = serve(&answer(status, body), None);
            let url = ("AWS_ENDPOINT_URL_STS".to_owned(), format!("http://127.0.0.1:{port}"));
            let found = runtime.block_on(role.assume(&Environment::of([url]), &keys));
            (found, serving.join().unwrap())
        };
        let (found, asked) = ask("200 OK", xml);
        assert_eq!(found.unwrap().id, "B");
        let begin = "GET /?Action=AssumeRole&ExternalId=x&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=outboxd\
                     &Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=A%2F";
        assert!(asked.starts_with(begin) && asked.contains("%2Feu-west-1%2Fsts%2Faws4_request"), "{asked}");
        assert!(!asked.contains("canary"));
        let error = crate::error::chain(&ask("403 Forbidden", refusal).0.unwrap_err());
        assert!(error.contains("answers 403: not authorized to perform: sts:AssumeRole"), "{error}");
    }
}
