//! Terraform: the maps of settings in `confluent_connector` and `aws_mskconnect_connector`.

use crate::config::source::document::Connector;
use crate::config::source::file::Entry;

/// Arguments that contain settings.
const MAPS: [&str; 3] = ["config_sensitive", "config_nonsensitive", "connector_configuration"];

/// Returns whether a text is Terraform's, with settings of a connector.
pub(super) fn is_terraform(text: &str) -> bool {
    text.lines().any(|line| map(line).is_some())
}

/// Returns the connectors of a text. An expression becomes a placeholder that names it.
pub(super) fn parse(text: &str) -> Vec<Connector> {
    let mut connectors: Vec<Connector> = Vec::new();
    let mut label = None;
    let mut is_inside = false;
    for (line, number) in text.lines().zip(1..) {
        let code = line.trim();
        if let Some(rest) = code.strip_prefix("resource ") {
            label = rest.split('"').nth(3).map(str::to_owned);
            connectors.push(Connector { name: label.clone(), ..Connector::default() });
        }
        if is_inside {
            is_inside = !code.starts_with('}');
            let entry = is_inside.then(|| setting(code, number)).flatten();
            connectors.last_mut().into_iter().for_each(|connector| connector.entries.extend(entry.clone()));
        } else if let Some(rest) = map(line) {
            if connectors.is_empty() {
                connectors.push(Connector { name: label.clone(), ..Connector::default() });
            }
            is_inside = !rest.contains('}');
        }
    }
    connectors.retain(|connector| !connector.entries.is_empty());
    connectors
}

/// Returns the text after the brace that opens a map of settings.
fn map(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let rest = MAPS.iter().find_map(|name| code.strip_prefix(name))?;
    rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('{')
}

/// Parses `"key" = "value"`.
fn setting(code: &str, line: usize) -> Option<Entry> {
    let (key, rest) = match code.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => code.split_at_checked(code.find(|c: char| !(c.is_alphanumeric() || c == '_'))?)?,
    };
    let value = rest.trim_start().strip_prefix(['=', ':'])?.trim();
    (!key.is_empty()).then(|| Entry { key: key.to_owned(), value: read(value, key), line: Some(line) })
}

fn read(text: &str, key: &str) -> String {
    if let Some((value, rest)) = text.strip_prefix('"').and_then(|inside| quoted(inside, key)) {
        let rest = rest.trim_start_matches([',', ' ', '\t']);
        if rest.is_empty() || rest.starts_with(['#', '/']) {
            return value;
        }
    }
    let code = text.split(['#']).next().unwrap_or_default().trim().trim_end_matches(',').trim();
    let is_literal = matches!(code, "true" | "false") || code.parse::<f64>().is_ok();
    if is_literal { code.to_owned() } else { placeholder(code, key) }
}

/// Reads a quoted text up to its end, and returns the rest behind it.
fn quoted<'t>(inside: &'t str, key: &str) -> Option<(String, &'t str)> {
    let mut value = String::new();
    let mut rest = inside;
    loop {
        if let Some(escaped) = rest.strip_prefix("$${") {
            value.push_str("${");
            rest = escaped;
            continue;
        }
        if let Some(expression) = rest.strip_prefix("${") {
            let (expression, after) = expression.split_once('}')?;
            value.push_str(&placeholder(expression.trim(), key));
            rest = after;
            continue;
        }
        let mut chars = rest.chars();
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => value.push(match chars.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            }),
            other => value.push(other),
        }
        rest = chars.as_str();
    }
}

/// Returns a placeholder for an expression: the name of a variable or local value, or else that of the key.
fn placeholder(expression: &str, key: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let is_variable = ["var.", "local."].iter().any(|start| expression.starts_with(start));
    let name = if is_variable && expression.chars().all(is_name) {
        expression.to_owned()
    } else {
        key.replace('.', "_")
    };
    format!("${{terraform:{name}}}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_read(text in "([a-c\"'=:{}$\\\\,# ]|\n|config_sensitive = \\{|resource \"){0,40}") {
            drop(parse(&text));
        }
    }
}
