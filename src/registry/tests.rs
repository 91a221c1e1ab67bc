//! Tests of the client against a server that returns prepared answers.

use std::fs;
use std::sync::{Arc, Mutex};

use super::{Address, Client, Error, Form, Login, Lookup, Options, Registries, TlsOptions};
use crate::connect::converter::registered::{Registration, SchemaId, SchemaType, Side};
use crate::credentials::{ClientCredentials, Identity, Reread, Source};
use crate::error::{Class, Diagnose as _, chain};
use crate::http_client::test_server::{answer, certificate, serve, serve_each};
use crate::key_store::KeyStore;
use crate::secret::Secret;

const OPTION: &str = "value.converter.basic.auth.user.info";

fn login(user: &str, reread: Option<Arc<dyn Reread>>) -> Login {
    Login::of_value(OPTION, Form::UserInfo, user, reread)
}

fn options(addresses: &[String]) -> Options {
    Options {
        converter: "value.converter".into(),
        addresses: addresses.iter().map(|url| Address::parse(url).unwrap()).collect(),
        login: login("me:secret", None),
        headers: Vec::new(),
        lookup: Lookup::Register,
        normalize: false,
        tls: TlsOptions::default(),
    }
}

fn registration() -> Registration {
    Registration {
        side: Side::Value,
        topic: "orders".into(),
        subject: "orders-value".into(),
        kind: SchemaType::Avro,
        text: "\"string\"".into(),
        schema: None,
        ids_max: 1,
    }
}

fn ask(options: Options) -> Result<SchemaId, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { Client::new(options)?.id(&registration()).await })
}

#[test]
fn the_next_address_is_asked_when_one_does_not_answer() {
    let (busy, first) = serve(&answer("503 Service Unavailable", ""), None);
    let (port, second) = serve(&answer("200 OK", "{\"id\":7}"), None);
    let urls = [
        "http://127.0.0.1:1".into(),
        format!("http://127.0.0.1:{busy}"),
        format!("http://127.0.0.1:{port}/x"),
    ];
    assert_eq!(ask(options(&urls)).unwrap(), SchemaId(7));
    first.join().unwrap();
    let asked = second.join().unwrap();
    assert!(
        asked.starts_with("POST /x/subjects/orders-value/versions?normalize=false HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(asked.contains("authorization: Basic bWU6c2VjcmV0\r\n"), "{asked}");
    assert!(asked.ends_with("{\"schema\":\"\\\"string\\\"\"}"), "{asked}");
}

#[test]
fn a_server_that_leaves_without_an_answer_is_asked_again_later() {
    for text in ["", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "SSH-2.0\r\n\r\n"] {
        let (port, serving) = serve(text, None);
        let error = ask(options(&[format!("http://127.0.0.1:{port}")])).unwrap_err();
        assert_eq!(error.class(), Class::Transient, "{text:?}: {}", chain(&error));
        serving.join().unwrap();
    }
}

#[test]
fn certificates_are_checked_against_the_truststore() {
    let (certificate, acceptor) = certificate("127.0.0.1");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    fs::write(&file, &certificate).unwrap();
    let attempt = |tls: TlsOptions| {
        let (port, serving) = serve(&answer("200 OK", "{\"id\":9}"), Some(acceptor.clone()));
        let outcome = ask(Options { tls, ..options(&[format!("https://127.0.0.1:{port}")]) });
        serving.join().unwrap();
        outcome
    };
    let named = TlsOptions { truststore: Some(truststore(file.display())), ..TlsOptions::default() };
    assert_eq!(attempt(named).unwrap(), SchemaId(9));
    let inline = TlsOptions { certificates: Some(certificate), ..TlsOptions::default() };
    assert_eq!(attempt(inline).unwrap(), SchemaId(9));
    let error = attempt(TlsOptions::default()).unwrap_err();
    assert!(chain(&error).contains("certificate"), "{}", chain(&error));
}

#[test]
fn a_certificate_of_another_host_is_accepted_only_when_configured() {
    let (certificate, acceptor) = certificate("127.0.0.2");
    let attempt = |any_host: bool| {
        let (port, serving) = serve(&answer("200 OK", "{\"id\":9}"), Some(acceptor.clone()));
        let tls = TlsOptions { certificates: Some(certificate.clone()), any_host, truststore: None };
        let outcome = ask(Options { tls, ..options(&[format!("https://127.0.0.1:{port}")]) });
        serving.join().unwrap();
        outcome
    };
    assert!(attempt(false).is_err());
    assert_eq!(attempt(true).unwrap(), SchemaId(9));
}

#[test]
fn a_truststore_that_cannot_be_read_is_reported_at_once() {
    let tls = TlsOptions { truststore: Some(truststore("/nowhere/ca.pem")), ..TlsOptions::default() };
    let error = Client::new(Options { tls, ..options(&[]) }).unwrap_err();
    assert_eq!(error.class(), Class::Config);
    assert!(error.to_string().contains("location=/nowhere/ca.pem cannot be read"), "{error}");
}

fn truststore(path: impl ToString) -> KeyStore {
    let option = "value.converter.schema.registry.ssl.truststore.location".to_owned();
    KeyStore { option, path: path.to_string(), password: None }
}

#[test]
fn how_to_log_in_is_read_where_the_registry_was_named() {
    let told = |by_option: bool| {
        let (port, serving) = serve(&answer("401 Unauthorized", ""), None);
        let url = format!("http://127.0.0.1:{port}");
        let registries = match by_option {
            true => Registries::new(None, Some(options(&[url]))),
            false => Registries::at(Address::parse(&url).unwrap()),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let asked = runtime.block_on(registries.unwrap().schema(Side::Value, SchemaId(1)));
        serving.join().unwrap();
        asked.unwrap_err().fix().unwrap()
    };
    assert!(told(true).starts_with("set value.converter.basic.auth.credentials.source=USER_INFO and "));
    assert!(told(false).starts_with("--schema-registry https://USER:PASSWORD@HOST:PORT"));
}

/// Credentials that are others at each reading, until the last.
#[derive(Debug)]
struct Rotation(Mutex<Vec<&'static str>>);

impl Reread for Rotation {
    fn reread(&self) -> Result<Secret, Box<dyn std::error::Error + Send + Sync>> {
        let mut values = self.0.lock().unwrap();
        Ok(Secret::new(if values.len() > 1 { values.remove(0) } else { values[0] }))
    }
}

/// Asks a registry that answers so, with a login, and returns the `Authorization` of each request.
fn ask_as(login: Login, answers: &[(&str, &str)]) -> (Result<SchemaId, Error>, Vec<String>) {
    let answers = answers.iter().map(|(status, body)| answer(status, body).into_bytes()).collect();
    let (port, serving) = serve_each(answers);
    let options = options(&[format!("http://127.0.0.1:{port}")]);
    let outcome = ask(Options { login, ..options });
    let authorization = |asked: &String| {
        let mut headers = asked.lines().filter_map(|line| line.split_once(": "));
        let found = headers.find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        found.map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    (outcome, serving.join().unwrap().iter().map(authorization).collect())
}

const OK: (&str, &str) = ("200 OK", "{\"id\":7}");
const REFUSED: (&str, &str) = ("401 Unauthorized", "{\"error_code\":40101,\"message\":\"Unauthorized\"}");

#[test]
fn credentials_that_were_replaced_are_tried_at_once() {
    let rotation = |values: &[&'static str]| Arc::new(Rotation(Mutex::new(values.to_vec())));
    let login = login("me:a", Some(rotation(&["me:a", "me:b"])));
    let (outcome, asked) = ask_as(login, &[REFUSED, OK]);
    assert_eq!(outcome.unwrap(), SchemaId(7));
    assert_eq!(asked, ["Basic bWU6YQ==", "Basic bWU6Yg=="]);
    let password = Login::of_value(OPTION, Form::PasswordOf("me".into()), "a", Some(rotation(&["a", "b"])));
    assert_eq!(ask_as(password, &[REFUSED, OK]).1, ["Basic bWU6YQ==", "Basic bWU6Yg=="]);
    let url = Login::of_value(
        OPTION,
        Form::Url,
        "http://me:a@h",
        Some(rotation(&["http://me:a@h", "http://g,http://me:b@h"])),
    );
    assert_eq!(ask_as(url, &[REFUSED, OK]).1, ["Basic bWU6YQ==", "Basic bWU6Yg=="]);
}

#[test]
fn refused_credentials_are_waited_for_only_where_others_may_come() {
    let error = ask_as(login("me:a", None), &[REFUSED]).0.unwrap_err();
    assert_eq!(error.class(), Class::Definite);
    let behind = Arc::new(Rotation(Mutex::new(vec!["me:a"])));
    let error = ask_as(login("me:a", Some(behind)), &[REFUSED]).0.unwrap_err();
    assert_eq!(error.class(), Class::Transient);
    assert_eq!(
        error.fix().unwrap(),
        format!(
            "let {OPTION} return credentials that the registry accepts: it is asked again at each attempt"
        )
    );
    // A right that is missing is no matter of another password.
    let forbidden = Arc::new(Rotation(Mutex::new(vec!["me:a", "me:b"])));
    let error = ask_as(login("me:a", Some(forbidden)), &[("403 Forbidden", "")]).0.unwrap_err();
    assert_eq!(error.class(), Class::Definite);
}

#[test]
fn tokens_are_asked_for_and_replaced_when_they_are_refused() {
    let token = |token: &str| ("200 OK", format!("{{\"access_token\":\"{token}\",\"expires_in\":900}}"));
    let (issuer, issuing) =
        serve_each([token("one"), token("two")].map(|(s, b)| answer(s, &b).into_bytes()).into());
    let client = |issuer: u16| ClientCredentials {
        endpoint: format!("http://127.0.0.1:{issuer}/token"),
        id: "orders".to_owned(),
        secret: Secret::new("canary"),
        scope: None,
    };
    let login =
        |issuer| Login::with_tokens(Source::identity("the.endpoint", Identity::Client(client(issuer))));
    let (outcome, asked) = ask_as(login(issuer), &[REFUSED, OK]);
    assert_eq!(outcome.unwrap(), SchemaId(7));
    assert_eq!(asked, ["Bearer one", "Bearer two"]);
    issuing.join().unwrap();
    let (issuer, issuing) = serve(&answer("401 Unauthorized", "{\"error\":\"invalid_client\"}"), None);
    let error = ask_as(login(issuer), &[]).0.unwrap_err();
    issuing.join().unwrap();
    assert_eq!(error.class(), Class::Transient);
    let told = chain(&error);
    assert!(told.contains("the.endpoint") && told.contains("answers 401: invalid_client"), "{told}");
    assert!(!told.contains("canary"), "{told}");
}
