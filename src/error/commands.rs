//! Commands in printed texts, with the configuration that this process was started with.

use std::sync::OnceLock;

/// Placeholder of the configuration in texts that name a command.
pub(crate) const FILE: &str = "-c FILE";

/// Arguments of this process's configuration, as a shell reads them, without secrets.
static CONFIGURATION: OnceLock<String> = OnceLock::new();

/// Stores the arguments that the commands of this process name. Only the first call has an effect.
pub(crate) fn remember_configuration(arguments: String) {
    CONFIGURATION.get_or_init(|| arguments);
}

/// Returns a text whose commands contain `-c FILE`, with the configuration of this process. Without one on the command
/// line, the placeholder stays.
pub(crate) fn in_commands(text: impl Into<String>) -> String {
    filled(text.into(), CONFIGURATION.get())
}

fn filled(text: String, configuration: Option<&String>) -> String {
    match configuration {
        Some(arguments) if text.contains(FILE) => text.replace(FILE, arguments),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_configuration_once_it_is_known() {
        let text = || "outboxd verify -c FILE; outboxd run -c FILE -X a=b".to_owned();
        assert_eq!(filled(text(), None), text());
        let given = "-c 'my file.json' b.json -X slot.name=s".to_owned();
        assert_eq!(
            filled(text(), Some(&given)),
            "outboxd verify -c 'my file.json' b.json -X slot.name=s; outboxd run -c 'my file.json' b.json -X slot.name=s -X a=b"
        );
    }
}
