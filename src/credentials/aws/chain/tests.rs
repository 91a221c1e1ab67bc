//! Tests of the sources of AWS credentials.

use std::fs;
use std::time::{Duration, SystemTime};

use super::*;
use crate::http_client::test_server::{answer, serve};

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::of(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

fn keys(variables: &[(&str, &str)]) -> Result<Keys, KeysError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(environment(variables).keys())
}

const END: &str = "2099-01-01T00:00:00Z";

fn temporary() -> Keys {
    let (secret, session) = (Secret::new("S"), Some(Secret::new("T")));
    let end = crate::credentials::answer::instant(END);
    Keys { id: "A".to_owned(), secret, session, expires_at: end }
}

fn json() -> String {
    format!(r#"{{"AccessKeyId":"A","SecretAccessKey":"S","Token":"T","Expiration":"{END}"}}"#)
}

#[test]
fn keys_of_the_environment_come_first() {
    let found = keys(&[("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "S"), ("AWS_PROFILE", "none")]);
    assert_eq!(found.unwrap(), Keys { session: None, expires_at: None, ..temporary() });
}

#[test]
fn a_profile_has_keys() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".aws")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(".aws").join(name), text).unwrap();
    write("credentials", "[orders]\naws_access_key_id=A\naws_secret_access_key=S\naws_session_token=T\n");
    write("config", "[profile orders]\nregion=eu-west-3\n[profile sso]\nsso_session=x\n");
    let home = ("HOME", folder.path().to_str().unwrap());
    let orders = [home, ("AWS_PROFILE", "orders")];
    assert_eq!(keys(&orders).unwrap(), Keys { expires_at: None, ..temporary() });
    assert_eq!(environment(&orders).region().as_deref(), Some("eu-west-3"));
    let error = keys(&[home, ("AWS_PROFILE", "sso")]).unwrap_err().to_string();
    assert!(error.starts_with("profile \"sso\" has sso_session, which is not supported"), "{error}");
    let error = keys(&[home, ("AWS_PROFILE", "none")]).unwrap_err().to_string();
    assert_eq!(error, "profile \"none\" has no AWS access keys");
}

#[test]
fn a_web_identity_is_given_for_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "jwt+canary\n").unwrap();
    let variables = |port: u16| {
        let url = format!("http://127.0.0.1:{port}");
        let file = file.display().to_string();
        [
            ("AWS_WEB_IDENTITY_TOKEN_FILE", file),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r".to_owned()),
            ("AWS_ENDPOINT_URL_STS", url),
        ]
    };
    let ask = |text: &str| {
        let (port, serving) = serve(text, None);
        let variables = variables(port);
        let found = keys(&variables.each_ref().map(|(name, value)| (*name, value.as_str())));
        (found, serving.join().unwrap())
    };
    let xml = format!(
        "<Credentials><AccessKeyId>A</AccessKeyId><SecretAccessKey>S</SecretAccessKey><SessionToken>T</SessionToken><Expiration>{END}</Expiration></Credentials>"
    );
    let (found, asked) = ask(&answer("200 OK", &xml));
    assert_eq!(found.unwrap(), temporary());
    assert!(asked.starts_with("POST / HTTP/1.1"), "{asked}");
    assert!(
        asked.ends_with(
            "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=outboxd&WebIdentityToken=jwt%2Bcanary"
        ),
        "{asked}"
    );
    let refusal = "<Error><Code>AccessDenied</Code><Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error>";
    let error = ask(&answer("403 Forbidden", refusal)).0.unwrap_err().to_string();
    assert!(
        error.ends_with("answers 403: Not authorized to perform sts:AssumeRoleWithWebIdentity"),
        "{error}"
    );
    let error = ask(&answer("200 OK", "canary rubbish")).0.unwrap_err().to_string();
    assert!(error.ends_with("has no AWS access keys") && !error.contains("canary"), "{error}");
}

#[test]
fn a_container_asks_with_its_token() {
    let (port, serving) = serve(&answer("200 OK", &json()), None);
    let url = format!("http://127.0.0.1:{port}/v1/credentials?role=r");
    let found =
        keys(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url), ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod")]);
    assert_eq!(found.unwrap(), temporary());
    let asked = serving.join().unwrap().to_lowercase();
    assert!(
        asked.starts_with("get /v1/credentials?role=r ") && asked.contains("authorization: pod\r\n"),
        "{asked}"
    );
}

#[test]
fn an_instance_is_asked_by_the_second_version_of_its_service() {
    let answers =
        ["the-proof", "role-of-instance\n", &json()].map(|body| answer("200 OK", body).into_bytes());
    let (port, serving) = crate::http_client::test_server::serve_each(answers.into());
    let url = format!("http://127.0.0.1:{port}");
    assert_eq!(keys(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url)]).unwrap(), temporary());
    let asked = serving.join().unwrap();
    let begin = [
        "PUT /latest/api/token ",
        "GET /latest/meta-data/iam/security-credentials/ ",
        "GET /latest/meta-data/iam/security-credentials/role-of-instance ",
    ];
    for (asked, begin) in asked.iter().zip(begin) {
        assert!(asked.starts_with(begin), "{asked}");
    }
    assert!(asked[2].to_lowercase().contains("x-aws-ec2-metadata-token: the-proof\r\n"), "{}", asked[2]);
}

#[test]
fn a_service_that_is_not_there_is_named() {
    let url = "http://127.0.0.1:1";
    let error = keys(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)]).unwrap_err().to_string();
    assert_eq!(error, "the instance metadata service at http://127.0.0.1:1 does not answer");
    let error = keys(&[("AWS_EC2_METADATA_DISABLED", "true")]).unwrap_err().to_string();
    assert_eq!(error, "this environment has no AWS access keys");
    assert!(temporary().are_valid(SystemTime::now(), SystemTime::now() - Duration::from_secs(1)));
}
