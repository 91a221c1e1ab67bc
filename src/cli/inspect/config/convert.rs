//! `outboxd config convert`.

use serde_json::{Map, Value, json};

use super::args::Form;
use super::print_message;
use crate::cli::print;
use crate::config::{Portable, ShownConfig, ShownSetting};

/// Sink of Debezium Server; only Kafka is possible here.
const SINK: &str = "debezium.sink.type";

/// Runs `outboxd config convert`.
pub(super) fn convert(config: &ShownConfig, form: Form) {
    let said: Vec<_> =
        config.settings.iter().filter_map(|setting| Some((setting, value(setting)?))).collect();
    let text = match form {
        Form::Json => json(connector(&said)),
        Form::Properties => connector(&said).map(|(key, value)| property(&key, value)).collect(),
        Form::Server => server(&said),
        Form::Env => said.iter().filter_map(|(setting, value)| variable(setting, value, &said)).collect(),
    };
    print(&text);
    for setting in &config.settings {
        report(setting, form);
    }
}

/// Returns the value to write; `None` when it cannot be written.
fn value(setting: &ShownSetting) -> Option<String> {
    match &setting.portable {
        Portable::Plain(value) => Some(value.clone()),
        Portable::Placeholder(raw) => Some(raw.clone()),
        Portable::Variable(name) => Some(format!("${{env:{name}}}")),
        Portable::Hidden => None,
    }
}

/// Prints what the user must do besides.
fn report(setting: &ShownSetting, form: Form) {
    match (&setting.portable, form) {
        (Portable::Variable(name), Form::Env) => {
            print_message(&format!(
                "{}: a secret, not written: set {name} as secrets are set where it runs",
                setting.key
            ));
        }
        (Portable::Variable(name), _) => {
            print_message(&format!("{}: a secret, not written: set the variable {name}", setting.key));
        }
        (Portable::Hidden, _) => {
            print_message(&format!("{}: not written, its key holds a secret", setting.key));
        }
        (Portable::Plain(_) | Portable::Placeholder(_), _) => {}
    }
}

/// Returns keys and values as a connector has them.
fn connector<'s>(said: &'s [(&ShownSetting, String)]) -> impl Iterator<Item = (String, &'s str)> {
    said.iter().filter_map(|(setting, value)| {
        let key = setting.connector_key();
        if key.is_none() {
            print_message(&format!("{}: not written, it is for Debezium Server itself", setting.key));
        }
        Some((key?, value.as_str()))
    })
}

fn json<'s>(said: impl Iterator<Item = (String, &'s str)>) -> String {
    let config: Map<String, Value> = said.map(|(key, value)| (key, value.into())).collect();
    let object = match config.get("name") {
        Some(name) => json!({ "name": name, "config": config }),
        None => Value::Object(config),
    };
    format!("{object:#}\n")
}

/// Returns a line as `java.util.Properties` reads it.
pub(in crate::cli) fn property(key: &str, value: &str) -> String {
    let mut line = String::new();
    key.chars().for_each(|c| escape(c, matches!(c, ' ' | '=' | ':' | '#' | '!'), &mut line));
    line.push('=');
    for (at, c) in value.chars().enumerate() {
        escape(c, c == ' ' && at == 0, &mut line);
    }
    line + "\n"
}

/// Returns the settings as Debezium Server reads them. Defaults that differ there are written.
fn server(said: &[(&ShownSetting, String)]) -> String {
    let mut text = format!("{SINK}=kafka\n");
    for role in ["key", "value", "header"] {
        if !said.iter().any(|(setting, _)| setting.key == format!("{role}.converter")) {
            text.push_str(&format!("debezium.format.{role}=simplestring\n"));
        }
    }
    let not_yet = said.iter().filter(|(setting, _)| setting.key != SINK);
    for (setting, value) in not_yet {
        let placeholder = !matches!(setting.portable, Portable::Plain(_));
        match setting.server_line(value, placeholder) {
            Some((key, value)) => text.push_str(&property(&key, &value)),
            None => print_message(&format!(
                "{}: not written, Debezium Server has no word for {value}",
                setting.key
            )),
        }
    }
    text
}

fn escape(c: char, special: bool, line: &mut String) {
    match c {
        '\\' => line.push_str("\\\\"),
        '\n' => line.push_str("\\n"),
        '\r' => line.push_str("\\r"),
        '\t' => line.push_str("\\t"),
        '\u{c}' => line.push_str("\\f"),
        ' '..='~' if special => line.extend(['\\', c]),
        // Java reads a file as ISO 8859-1. Characters without an escape are written in UTF-8, as Quarkus and outboxd read them.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{ffff}' => line.push_str(&format!("\\u{:04x}", u32::from(c))),
        _ => line.push(c),
    }
}

/// Returns a setting as a variable. A line of a file cannot contain a line break.
fn variable(setting: &ShownSetting, value: &str, said: &[(&ShownSetting, String)]) -> Option<String> {
    if matches!(setting.portable, Portable::Variable(_)) {
        return None;
    }
    let transforms =
        said.iter().find(|(other, _)| other.key == "transforms").map(|(_, value)| value.as_str());
    let aliases: Vec<_> =
        transforms.unwrap_or_default().split(',').map(|alias| alias.trim().to_owned()).collect();
    match setting.variable(&aliases).filter(|_| !value.contains(['\n', '\r'])) {
        Some(name) => Some(format!("{name}={value}\n")),
        None => {
            print_message(&format!("{}: not written, no environment variable can set it", setting.key));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use java_properties::PropertiesIter;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_property_is_read_again(key in "[a-z.]{1,12}[a-z]", value: String) {
            prop_assume!(!value.contains('\0'));
            let text = property(&key, &value);
            let mut read = Vec::new();
            let mut lines = PropertiesIter::new_with_encoding(text.as_bytes(), encoding_rs::UTF_8);
            lines.read_into(|key, value| read.push((key, value))).unwrap();
            prop_assert_eq!(read, [(key, value)]);
        }
    }
}
