use super::*;
use crate::error::chain;
use crate::http_client::test_server::{answer, serve_each};

const SECOND_VERSION: &str =
    r#"{"data":{"data":{"password":"canary","port":5432},"metadata":{"version":3}}}"#;
const FIRST_VERSION: &str = r#"{"data":{"password":"canary","data":"x"},"lease_duration":3600}"#;
const DENIED: &str = r#"{"errors":["1 error occurred:\n\t* permission denied\n\n"]}"#;
const NOTHING: &str = r#"{"errors":[]}"#;
const LOGGED_IN: &str = r#"{"auth":{"client_token":"canarytoken","lease_duration":3600}}"#;

/// Reads each path and key from a server with these answers. Returns what was read, and the requests.
fn read(
    login: &[(&str, &str)],
    answers: &[(&str, &str)],
    reads: &[(&str, &str)],
) -> (Vec<Result<String, String>>, Vec<String>) {
    let answers = answers.iter().map(|(status, body)| answer(status, body).into_bytes()).collect();
    let (port, serving) = serve_each(answers);
    let address = format!("http://127.0.0.1:{port}/");
    let variables = login.iter().copied().chain([("VAULT_ADDR", address.as_str())]);
    let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let vault = Vault::of(&environment).unwrap();
    assert!(!format!("{vault:?}").contains("canary"));
    let read = |(path, key): &(&str, &str)| match vault.read(path, key) {
        Ok(secret) => Ok(secret.expose().to_owned()),
        Err(error) => Err(chain(&error)),
    };
    (reads.iter().map(read).collect(), serving.join().unwrap())
}

const TOKEN: [(&str, &str); 2] = [("VAULT_TOKEN", "canarytoken"), ("VAULT_NAMESPACE", "team")];

#[test]
fn a_secret_of_either_version_is_read_and_remembered() {
    let (values, asked) = read(
        &TOKEN,
        &[
            ("200 OK", FIRST_VERSION),
            ("404 Not Found", NOTHING),
            ("200 OK", SECOND_VERSION),
            // A policy for the path with `data` alone.
            ("403 Forbidden", DENIED),
            ("200 OK", SECOND_VERSION),
        ],
        &[
            ("kv/db", "password"),
            ("kv/db", "data"),
            ("secret/app/db", "password"),
            ("secret/app/db", "port"),
            ("secret/app/db", "user"),
            ("secret/app/kafka", "password"),
        ],
    );
    let ok = |text: &str| Ok(text.to_owned());
    assert_eq!(values[..4], [ok("canary"), ok("x"), ok("canary"), ok("5432")]);
    assert_eq!(values[5], ok("canary"));
    assert_eq!(values[4], Err("the secret at secret/app/db has no key \"user\"".to_owned()));
    let lines: Vec<_> = asked.iter().filter_map(|asked| asked.lines().next()).collect();
    let expected =
        ["kv/db", "secret/app/db", "secret/data/app/db", "secret/app/kafka", "secret/data/app/kafka"];
    assert_eq!(lines, expected.map(|path| format!("GET /v1/{path} HTTP/1.1")));
    let headers = asked[0].to_lowercase();
    assert!(headers.contains("x-vault-token: canarytoken") && headers.contains("x-vault-namespace: team"));
}

#[test]
fn roles_log_in_and_a_refused_token_logs_in_again() {
    let folder = tempfile::tempdir().unwrap();
    let account = folder.path().join("token");
    std::fs::write(&account, "canaryjwt\n").unwrap();
    let account = account.display().to_string();
    let logins = [
        (
            vec![("VAULT_ROLE_ID", "r"), ("VAULT_SECRET_ID", "canaryid")],
            "POST /v1/auth/approle/login",
            r#"{"role_id":"r","secret_id":"canaryid"}"#,
        ),
        (
            vec![
                ("VAULT_ROLE", "outboxd"),
                ("VAULT_K8S_TOKEN_PATH", &account),
                ("VAULT_AUTH_MOUNT", "cluster-1"),
            ],
            "POST /v1/auth/cluster-1/login",
            r#"{"role":"outboxd","jwt":"canaryjwt"}"#,
        ),
    ];
    for (login, line, body) in logins {
        let (values, asked) = read(
            &login,
            &[
                ("200 OK", LOGGED_IN),
                ("200 OK", FIRST_VERSION),
                ("403 Forbidden", DENIED),
                ("403 Forbidden", DENIED),
                ("200 OK", LOGGED_IN),
                ("200 OK", FIRST_VERSION),
            ],
            &[("kv/a", "password"), ("kv/b", "password")],
        );
        assert!(values.iter().all(|value| value.as_deref() == Ok("canary")), "{values:?}");
        assert!(asked[0].starts_with(line) && asked[0].ends_with(body), "{}", asked[0]);
        assert!(asked[4].starts_with(line), "{}", asked[4]);
    }
}

#[test]
fn a_refusal_is_reported_in_vaults_words_without_a_secret() {
    let cases = [
        ("403 Forbidden", DENIED, "answers 403 for kv/data/a: 1 error occurred:\n\t* permission denied"),
        (
            "503 Service Unavailable",
            r#"{"errors":["Vault is sealed"]}"#,
            "answers 503 for kv/data/a: Vault is sealed",
        ),
        ("502 Bad Gateway", "<html>canary</html>", "answers 502 for kv/data/a: "),
        ("200 OK", "canary", "answers otherwise than Vault"),
        ("200 OK", r#"{"data":null}"#, "Vault has no secret at kv/data/a"),
    ];
    for (status, body, expected) in cases {
        let (values, _) = read(&TOKEN, &[(status, body)], &[("kv/data/a", "password")]);
        let said = values[0].clone().unwrap_err();
        assert!(said.ends_with(expected), "{said:?}");
        assert!(!said.contains("canary"), "{said}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let of = |variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Vault::of(&variables.collect()).map(|_| ()).map_err(|error| (error.to_string(), error.fix()))
    };
    let missing = |name: &str| {
        Err((format!("environment variable {name:?} is not set"), Some(format!("export {name}=…"))))
    };
    let address = ("VAULT_ADDR", "http://vault:8200");
    assert_eq!(of(&[]), missing("VAULT_ADDR"));
    assert_eq!(of(&[address, ("VAULT_ROLE_ID", "r")]), missing("VAULT_SECRET_ID"));
    assert!(of(&[address]).unwrap_err().1.unwrap().contains("VAULT_TOKEN"));
    for path in ["", "a/../b", "a?b", "a b", "a\r\nb"] {
        assert!(!is_path(path), "{path:?}");
    }
    assert!(is_path("secret/data/team-1/db_main"));
}

#[test]
fn a_vault_that_does_not_answer_may_answer_later() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let environment = [("VAULT_ADDR", format!("http://127.0.0.1:{port}")), ("VAULT_TOKEN", "t".to_owned())];
    let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
    let error = Vault::of(&environment).unwrap().read("kv/a", "b").unwrap_err();
    assert!(error.passes(), "{error}");
}
