//! `sasl.jaas.config`: `org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";`.

use crate::secret::Secret;

/// Who logs in, and how.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Login {
    Password(PasswordLogin),
    Token(TokenLogin),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct PasswordLogin {
    /// The mechanism that the module alone tells.
    pub mechanism: Option<&'static str>,
    pub username: String,
    pub password: Secret,
}

/// What `OAUTHBEARER` asks an identity provider for a token with. Apache Kafka's names of the options, or Strimzi's.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TokenLogin {
    pub endpoint: Option<String>,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub scope: Option<String>,
    /// What the broker is told besides, in order.
    pub extensions: Vec<(String, String)>,
}

/// Reads a login module's line; the error says what is wrong without showing any value of it.
pub(super) fn parse(text: &str) -> Result<Login, String> {
    let mut tokens = tokens(text)?.into_iter();
    let module = tokens.next().unwrap_or_default();
    let read = match module.rsplit('.').next() {
        Some("PlainLoginModule") => |options| password(Some("PLAIN"), options),
        Some("ScramLoginModule") => |options| password(None, options),
        Some("OAuthBearerLoginModule") => token,
        _ => {
            return Err(
                "PlainLoginModule, ScramLoginModule and OAuthBearerLoginModule are available".to_owned()
            );
        }
    };
    // The control flag: required, requisite, sufficient or optional are one for a single module.
    tokens.next().ok_or("`required` must follow the module's name")?;
    let option = |token: String| {
        let (name, value) = token.split_once('=').ok_or("options must be written name=\"value\"")?;
        Ok((name.to_owned(), Secret::new(value)))
    };
    read(tokens.map(option).collect::<Result<Vec<_>, String>>()?)
}

type ModuleOptions = Vec<(String, Secret)>;

fn password(mechanism: Option<&'static str>, options: ModuleOptions) -> Result<Login, String> {
    let (mut username, mut password) = (None, None);
    for (name, value) in options {
        match name.as_str() {
            "username" => username = Some(value.expose().to_owned()),
            "password" => password = Some(value),
            _ => {}
        }
    }
    match (username, password) {
        (Some(username), Some(password)) => {
            Ok(Login::Password(PasswordLogin { mechanism, username, password }))
        }
        _ => Err("it needs username=\"…\" and password=\"…\"".to_owned()),
    }
}

fn token(options: ModuleOptions) -> Result<Login, String> {
    let mut login = TokenLogin::default();
    for (name, secret) in options {
        let value = secret.expose().to_owned();
        match name.as_str() {
            "clientId" | "oauth.client.id" => login.client_id = Some(value),
            "clientSecret" | "oauth.client.secret" => login.client_secret = Some(secret),
            "scope" | "oauth.scope" => login.scope = Some(value),
            "oauth.token.endpoint.uri" => login.endpoint = Some(value),
            _ => match name.strip_prefix("extension_") {
                Some(extension) => login.extensions.push((extension.to_owned(), value)),
                None => return Err(format!("its option {name} is not available")),
            },
        }
    }
    Ok(Login::Token(login))
}

/// Words up to the semicolon; quotes keep blanks together, and a backslash keeps the quote inside them.
fn tokens(text: &str) -> Result<Vec<String>, &'static str> {
    let mut tokens = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), '\\') => word.push(chars.next().ok_or("a quote is not closed")?),
            (Some(_), _) => word.push(c),
            (None, '"' | '\'') => quote = Some(c),
            (None, ';') => {
                end(&mut word, &mut tokens);
                return if chars.as_str().trim().is_empty() {
                    Ok(tokens)
                } else {
                    Err("only one module can be used")
                };
            }
            (None, _) if c.is_whitespace() => end(&mut word, &mut tokens),
            (None, _) => word.push(c),
        }
    }
    Err(if quote.is_some() { "a quote is not closed" } else { "it must end in a semicolon" })
}

fn end(word: &mut String, tokens: &mut Vec<String>) {
    if !word.is_empty() {
        tokens.push(std::mem::take(word));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn login_modules_are_read() {
        let plain = "org.apache.kafka.common.security.plain.PlainLoginModule";
        let login = |mechanism, username: &str, password: &str| {
            let (username, password) = (username.into(), Secret::new(password));
            Ok(Login::Password(PasswordLogin { mechanism, username, password }))
        };
        let wrong = |reason: &str| Err(reason.to_owned());
        let bearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required";
        let asked = || TokenLogin {
            client_id: Some("id".to_owned()),
            client_secret: Some(Secret::new("s")),
            ..TokenLogin::default()
        };
        let cases = [
            (format!("{plain} required username=\"a\" password=\"b\";"), login(Some("PLAIN"), "a", "b")),
            (
                format!(" {plain}\n required\n password='b c' x=1 username=a ; "),
                login(Some("PLAIN"), "a", "b c"),
            ),
            (
                "s.ScramLoginModule required username=\"a\" password=\"b\\\"=;\\\\\";".into(),
                login(None, "a", "b\"=;\\"),
            ),
            (
                "k.Krb5LoginModule required;".into(),
                wrong("PlainLoginModule, ScramLoginModule and OAuthBearerLoginModule are available"),
            ),
            (
                format!(
                    "{bearer} clientId=\"id\" clientSecret=\"s\" scope=\"a b\" extension_logicalCluster=\"lkc-1\";"
                ),
                Ok(Login::Token(TokenLogin {
                    scope: Some("a b".to_owned()),
                    extensions: vec![("logicalCluster".to_owned(), "lkc-1".to_owned())],
                    ..asked()
                })),
            ),
            (
                format!(
                    "{bearer} oauth.client.id=id oauth.client.secret=s oauth.token.endpoint.uri=\"https://a/t\";"
                ),
                Ok(Login::Token(TokenLogin { endpoint: Some("https://a/t".to_owned()), ..asked() })),
            ),
            (format!("{bearer};"), Ok(Login::Token(TokenLogin::default()))),
            (
                format!("{bearer} oauth.refresh.token=hunter2;"),
                wrong("its option oauth.refresh.token is not available"),
            ),
            (format!("{bearer} hunter2;"), wrong("options must be written name=\"value\"")),
            (
                format!("{plain} required username=\"a\";"),
                wrong("it needs username=\"…\" and password=\"…\""),
            ),
            (format!("{plain} required username=\"a\" password=\"b\""), wrong("it must end in a semicolon")),
            (format!("{plain} required username=\"a"), wrong("a quote is not closed")),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(&text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            drop(parse(&text));
        }

        #[test]
        fn any_password_is_read_back(password in "\\PC*") {
            let quoted = password.replace('\\', "\\\\").replace('"', "\\\"");
            let login = parse(&format!("PlainLoginModule required username=\"u\" password=\"{quoted}\";")).unwrap();
            let Login::Password(login) = login else { return Err(TestCaseError::fail("no password")) };
            prop_assert_eq!(login.password.expose(), password);
        }
    }
}
