//! Secrets that are masked in a bundle.

use crate::config::ShownConfig;
use crate::secret::Secret;

const MASK: &str = "********";

/// A shorter value is no secret, and its characters are everywhere.
const LENGTH_MIN: usize = 4;

/// Secrets of a configuration, which are masked in every text.
#[derive(Debug)]
pub(super) struct Masking(Vec<Secret>);

impl Masking {
    pub(super) fn of(config: &ShownConfig) -> Self {
        let mut secrets: Vec<_> =
            config.secrets.iter().filter(|secret| secret.expose().len() >= LENGTH_MIN).cloned().collect();
        // One that contains another is masked as a whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Self(secrets)
    }

    /// Masks the secrets, and what precedes `@` in the address of a URL.
    pub(super) fn apply(&self, text: &str) -> String {
        let masked = self.0.iter().fold(text.to_owned(), |text, secret| {
            let value = secret.expose();
            let quoted = serde_json::Value::from(value).to_string();
            let inside = quoted.trim_matches('"');
            text.replace(value, MASK).replace(inside, MASK)
        });
        without_logins(&masked)
    }
}

fn without_logins(text: &str) -> String {
    let mut parts = text.split("://");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        masked.push_str("://");
        let end = part.find(|c: char| c.is_whitespace() || "/\"'?#".contains(c)).unwrap_or(part.len());
        let address = part.get(..end).unwrap_or_default();
        match address.rfind('@') {
            Some(at) => {
                masked.push_str(MASK);
                masked.push_str(part.get(at..).unwrap_or_default());
            }
            None => masked.push_str(part),
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_left() {
        let masking = Masking(["s3cret-and-more", "s3cret", "a\"b\\c"].map(Secret::new).to_vec());
        let cases = [
            ("s3cret-and-more, s3cret", "********, ********"),
            (r#"{"x":"a\"b\\c"}"#, r#"{"x":"********"}"#),
            (
                "postgresql://u:p@w@host/db and http://host/a@b",
                "postgresql://********@host/db and http://host/a@b",
            ),
            ("no url: a@b", "no url: a@b"),
        ];
        for (text, expected) in cases {
            assert_eq!(masking.apply(text), expected);
        }
    }
}
