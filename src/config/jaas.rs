//! `sasl.jaas.config`: `org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";`.

use crate::secret::Secret;

/// Who logs in, and how.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Login {
    /// The mechanism that the module alone tells.
    pub mechanism: Option<&'static str>,
    pub username: String,
    pub password: Secret,
}

/// Reads a login module's line; the error says what is wrong without showing any of it.
pub(super) fn parse(text: &str) -> Result<Login, &'static str> {
    let mut tokens = tokens(text)?.into_iter();
    let module = tokens.next().unwrap_or_default();
    let mechanism = match module.rsplit('.').next() {
        Some("PlainLoginModule") => Some("PLAIN"),
        Some("ScramLoginModule") => None,
        _ => return Err("PlainLoginModule and ScramLoginModule are available"),
    };
    // The control flag: required, requisite, sufficient or optional are one for a single module.
    tokens.next().ok_or("`required` must follow the module's name")?;
    let (mut username, mut password) = (None, None);
    for token in tokens {
        match token.split_once('=') {
            Some(("username", value)) => username = Some(value.to_owned()),
            Some(("password", value)) => password = Some(Secret::new(value)),
            Some(_) => {}
            None => return Err("options must be written name=\"value\""),
        }
    }
    match (username, password) {
        (Some(username), Some(password)) => Ok(Login { mechanism, username, password }),
        _ => Err("it needs username=\"…\" and password=\"…\""),
    }
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
            Ok(Login { mechanism, username: username.into(), password: Secret::new(password) })
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
                Err("PlainLoginModule and ScramLoginModule are available"),
            ),
            (format!("{plain} required username=\"a\";"), Err("it needs username=\"…\" and password=\"…\"")),
            (format!("{plain} required username=\"a\" password=\"b\""), Err("it must end in a semicolon")),
            (format!("{plain} required username=\"a"), Err("a quote is not closed")),
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
            prop_assert_eq!(login.password.expose(), password);
        }
    }
}
