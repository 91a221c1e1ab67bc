//! An EventRouter alone whose predicate excludes some of the captured tables: their rows are change events.

use crate::config::read::{Reader, split_regexes};
use crate::connect::java;

const TOPIC_NAME_MATCHES: &str = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches";

/// Returns whether the predicate of the only transform excludes captured tables. Without `table.include.list`, or with
/// a regular expression in it, that is not known yet and counts as true. A list of excluded tables only is a mistake
/// and counts as false.
pub(in crate::config) fn shares(reader: &Reader<'_>, aliases: &[String]) -> bool {
    let [alias] = aliases else { return false };
    let Some(is_taken) = predicate(reader, alias) else { return false };
    let list = reader.filled("table.include.list").and_then(split_regexes).unwrap_or_default();
    let is_taken = |entry: &String| plain(entry).map(|table| is_taken(&topic(reader, &table)));
    let taken: Vec<Option<bool>> = list.iter().map(is_taken).collect();
    taken.iter().any(|taken| *taken != Some(true)) && taken.iter().any(|taken| *taken != Some(false))
        || taken.is_empty()
}

/// Returns the transform's predicate on the topic of a table.
fn predicate(reader: &Reader<'_>, alias: &str) -> Option<impl Fn(&str) -> bool> {
    let name = reader.filled(&format!("transforms.{alias}.predicate"))?.trim();
    let class = reader.filled(&format!("predicates.{name}.type"))?.trim();
    if !matches!(class, TOPIC_NAME_MATCHES | "TopicNameMatches") {
        return None;
    }
    let (_, pattern) = java::regex::compile(reader.filled(&format!("predicates.{name}.pattern"))?).ok()?;
    let negate = reader.text(&format!("transforms.{alias}.negate"));
    let negate = negate.is_some_and(|negate| negate.trim().eq_ignore_ascii_case("true"));
    Some(move |topic: &str| pattern.is_match(topic).unwrap_or(false) != negate)
}

fn topic(reader: &Reader<'_>, table: &str) -> String {
    let prefix = reader.filled("topic.prefix").or_else(|| reader.filled("database.server.name"));
    let delimiter = reader.filled("topic.delimiter").unwrap_or(".");
    format!("{}{delimiter}{}", prefix.unwrap_or_default(), table.replace('.', delimiter))
}

/// Returns the table of an entry that is a plain name, in which only the dot may be escaped.
fn plain(entry: &str) -> Option<String> {
    let name = entry.replace("\\.", ".");
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.chars().all(is_plain).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source::layers::Dialect;
    use crate::config::source::settings::{Origin, Setting, Settings};

    fn shares_with(list: &str, pattern: &str, negate: &str) -> bool {
        let said = [
            ("topic.prefix", "srv"),
            ("table.include.list", list),
            ("transforms.outbox.predicate", "p"),
            ("transforms.outbox.negate", negate),
            ("predicates.p.type", "TopicNameMatches"),
            ("predicates.p.pattern", pattern),
        ];
        let mut settings = Settings::default();
        for (key, value) in said {
            let (written, value) = (key.to_owned(), value.to_owned());
            settings.insert(
                key.to_owned(),
                Setting { written, value, origin: Origin::CommandLine, secret: false },
            );
        }
        shares(&Reader::new(&settings, Dialect::Connect), &["outbox".to_owned()])
    }

    #[test]
    fn plain_names_show_whether_tables_are_excluded() {
        let cases = [
            ("public.outbox,public.orders", r"srv\.public\.outbox", "false", true),
            (r"public\.outbox,public\.orders", r".*\.orders", "true", true),
            ("public.outbox", r"srv\.public\.outbox", "false", false),
            // Nothing is left for the router: that is a mistake.
            ("public.outbox", r".*\.audit", "false", false),
            ("public.outbox,public.orders", r".*\.audit", "false", false),
            ("public.outbox,public.o.*", r"srv\.public\.outbox", "false", true),
            ("public.o.*,public.orders", r"srv\.public\.outbox", "false", true),
            ("public.o.*", r"srv\.public\.outbox", "false", true),
            ("", r"srv\.public\.outbox", "false", true),
        ];
        for (list, pattern, negate, expected) in cases {
            assert_eq!(shares_with(list, pattern, negate), expected, "{list} {pattern} {negate}");
        }
    }
}
