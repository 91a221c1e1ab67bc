//! `sasl.jaas.config`: `org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";`.

use crate::secret::Secret;

/// Credentials of a login module.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::config) enum Login {
    Password(PasswordLogin),
    Token(TokenLogin),
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::config) struct PasswordLogin {
    /// Mechanism, if the login module determines it.
    pub mechanism: Option<&'static str>,
    pub username: String,
    pub password: Secret,
}

/// Parameters with which `OAUTHBEARER` requests a token, by Apache Kafka's names of the options or Strimzi's.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::config) struct TokenLogin {
    pub endpoint: Option<String>,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub scope: Option<String>,
    /// File with a token, which replaces the request.
    pub token_file: Option<String>,
    /// Identity of AWS, of Amazon's login module or handler.
    pub aws: Box<AwsLogin>,
    /// SASL extensions for the broker, in order.
    pub extensions: Vec<(String, String)>,
}

/// Options of Amazon's `IAMLoginModule`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::config) struct AwsLogin {
    /// The login module is Amazon's.
    pub is_module: bool,
    pub profile: Option<String>,
    pub role: Option<String>,
    pub role_session: Option<String>,
    pub role_external_id: Option<String>,
    pub sts_region: Option<String>,
}

/// Parses the line of a login module. An error describes the mistake without any value of the line.
pub(in crate::config) fn parse(text: &str) -> Result<Login, String> {
    let mut tokens = tokens(text)?.into_iter();
    let module = tokens.next().unwrap_or_default();
    let read = match module.rsplit('.').next() {
        Some("PlainLoginModule") => |options| password(Some("PLAIN"), options),
        Some("ScramLoginModule") => |options| password(None, options),
        Some("OAuthBearerLoginModule") => |options| token(false, options),
        Some("IAMLoginModule") => |options| token(true, options),
        _ => {
            return Err(
                "PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule and IAMLoginModule are available"
                    .to_owned(),
            );
        }
    };
    // The control flag: required, requisite, sufficient and optional are equivalent for a single module.
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

fn token(is_module: bool, options: ModuleOptions) -> Result<Login, String> {
    let mut login =
        TokenLogin { aws: Box::new(AwsLogin { is_module, ..AwsLogin::default() }), ..TokenLogin::default() };
    for (name, secret) in options {
        let value = secret.expose().to_owned();
        match name.as_str() {
            "clientId" | "oauth.client.id" => login.client_id = Some(value),
            "clientSecret" | "oauth.client.secret" => login.client_secret = Some(secret),
            "scope" | "oauth.scope" => login.scope = Some(value),
            "oauth.token.endpoint.uri" => login.endpoint = Some(value),
            "awsProfileName" => login.aws.profile = Some(value),
            "awsRoleArn" => login.aws.role = Some(value),
            "awsRoleSessionName" => login.aws.role_session = Some(value),
            "awsRoleExternalId" => login.aws.role_external_id = Some(value),
            "awsStsRegion" => login.aws.sts_region = Some(value),
            // Log and retries of the Java client.
            "awsDebugCreds" | "awsMaxRetries" | "awsMaxBackOffTimeMs" => {}
            "oauth.access.token.location" => login.token_file = Some(value),
            _ => match name.strip_prefix("extension_") {
                Some(extension) => login.extensions.push((extension.to_owned(), value)),
                None => return Err(format!("its option {name} is not available")),
            },
        }
    }
    Ok(Login::Token(login))
}

/// Splits the text up to the semicolon into words. Quotes preserve blanks in a word, and a backslash escapes a
/// character inside quotes.
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
                wrong("PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule and IAMLoginModule are available"),
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
                "software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName=\"p\" awsDebugCreds=true awsRoleArn=\"r\";"
                    .to_owned(),
                Ok(Login::Token(TokenLogin {
                    aws: Box::new(AwsLogin {
                        is_module: true,
                        profile: Some("p".to_owned()),
                        role: Some("r".to_owned()),
                        ..AwsLogin::default()
                    }),
                    ..TokenLogin::default()
                })),
            ),
            (
                "k.IAMLoginModule required awsRoleSecretAccessKey=hunter2;".to_owned(),
                wrong("its option awsRoleSecretAccessKey is not available"),
            ),
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
