//! The command line as given, for repeating it.

use crate::cli::args::ConfigArgs;
use crate::config::{holds_secret, holds_user};
use crate::error::FILE;

impl ConfigArgs {
    /// Returns a text whose commands contain `-c FILE`, with the given configuration. Secrets are omitted.
    pub(in crate::cli) fn in_commands(&self, text: &str) -> String {
        self.typed().map_or_else(|| text.to_owned(), |typed| text.replace(FILE, &typed))
    }

    /// Returns the configuration as arguments for a shell, if the command line names one. Secrets are omitted.
    pub(in crate::cli) fn typed(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let files = self.config.iter().map(|file| quoted(&file.display().to_string()));
        let flag = (!self.config.is_empty()).then(|| "-c".to_owned());
        let settings = self.set.iter().map(|setting| format!("-X {}", quoted(&without_secret(setting))));
        Some(flag.into_iter().chain(files).chain(settings).collect::<Vec<_>>().join(" "))
    }
}

/// Quotes a word for a shell.
pub(in crate::cli) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+…".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn without_secret(setting: &str) -> String {
    match setting.split_once('=') {
        Some((key, value)) if holds_secret(key) || holds_user(value) => format!("{key}=…"),
        _ => setting.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_what_was_given_without_its_secrets() {
        let of = |files: &[&str], set: &[&str]| {
            let config = ConfigArgs {
                config: files.iter().map(Into::into).collect(),
                set: set.iter().map(|&setting| setting.to_owned()).collect(),
            };
            config.in_commands("now: outboxd run -c FILE -X a=b; back: outboxd stop -c FILE")
        };
        assert_eq!(of(&[], &[]), "now: outboxd run -c FILE -X a=b; back: outboxd stop -c FILE");
        assert_eq!(
            of(&["o.json", "my file"], &["offset.storage.topic=_o", "x=it's", "database.password=s3cret"]),
            "now: outboxd run -c o.json 'my file' -X offset.storage.topic=_o -X 'x=it'\\''s' -X database.password=… -X a=b; \
             back: outboxd stop -c o.json 'my file' -X offset.storage.topic=_o -X 'x=it'\\''s' -X database.password=…"
        );
        assert_eq!(
            of(&[], &["notification.url=https://me:word@host/"]),
            "now: outboxd run -X notification.url=… -X a=b; back: outboxd stop -X notification.url=…"
        );
    }
}
