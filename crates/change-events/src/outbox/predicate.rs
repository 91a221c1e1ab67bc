//! SMT predicates (Kafka's KIP-585), which select the records of a transform.

use fancy_regex::Regex;

use connect_data::{OptionReader, Refused, java};

/// Package of Kafka's predicates.
const PACKAGE: &str = "org.apache.kafka.connect.transforms.predicates.";

/// `transforms.<alias>.predicate` and `.negate` (false): the condition of the records that the transform
/// changes.
#[derive(Debug, Clone)]
pub struct Condition {
    predicate: Predicate,
    negate: bool,
}

/// Kafka's own predicates.
#[derive(Debug, Clone)]
enum Predicate {
    /// `pattern` matches the whole name of the topic before routing.
    TopicNameMatches(Regex),
    /// The record has a header called `name`.
    HasHeaderKey(String),
    /// The record's value is null, which that of an inserted row never is.
    RecordIsTombstone,
}

impl Condition {
    /// Reads the condition of the transform whose options begin with `prefix` (`transforms.outbox.`). Returns
    /// `None` if the transform names no predicate.
    ///
    /// # Errors
    /// When the predicate is not declared, not known, or lacks a required option.
    pub fn read(options: &mut OptionReader<'_>, prefix: &str) -> Result<Option<Self>, Refused> {
        let negate_key = format!("{prefix}negate");
        let negate = options.boolean(&negate_key, false);
        let key = format!("{prefix}predicate");
        let Some(name) = options.filled(&key).map(|name| name.trim().to_owned()) else {
            return match negate {
                true => Err(options.refuse(negate_key, "true", "there is no predicate to negate")),
                false => Ok(None),
            };
        };
        let declared = options.text("predicates").unwrap_or_default();
        if !declared.split(',').any(|known| known.trim() == name) {
            let reason = format!("`predicates` does not name it: add predicates={name}");
            return Err(options.refuse(key, name, reason));
        }
        Ok(Some(Self { predicate: Predicate::read(options, &name)?, negate }))
    }

    /// Reports whether the transform changes an event on this topic, with headers of these names.
    #[must_use]
    pub fn holds(&self, topic: &str, mut headers: impl Iterator<Item = &'static str>) -> bool {
        let is_true = match &self.predicate {
            // An expression that exceeds the backtracking limit does not match.
            Predicate::TopicNameMatches(whole) => whole.is_match(topic).unwrap_or(false),
            Predicate::HasHeaderKey(name) => headers.any(|header| header == name),
            Predicate::RecordIsTombstone => false,
        };
        is_true != self.negate
    }
}

impl Predicate {
    fn read(options: &mut OptionReader<'_>, name: &str) -> Result<Self, Refused> {
        let type_key = format!("predicates.{name}.type");
        let class = options.text(&type_key).unwrap_or_default();
        let class = class.trim();
        match class.strip_prefix(PACKAGE).unwrap_or(class) {
            "TopicNameMatches" => {
                let pattern = needed(options, name, "pattern", class)?;
                let (_, whole) = java::regex::compile(&pattern).map_err(|error| {
                    let reason = format!("not a regular expression: {error}");
                    options.refuse(format!("predicates.{name}.pattern"), &pattern, reason)
                })?;
                Ok(Self::TopicNameMatches(whole))
            }
            "HasHeaderKey" => needed(options, name, "name", class).map(Self::HasHeaderKey),
            "RecordIsTombstone" => Ok(Self::RecordIsTombstone),
            _ => {
                let reason = "it must be TopicNameMatches, HasHeaderKey or RecordIsTombstone of \
                              org.apache.kafka.connect.transforms.predicates";
                Err(options.refuse(type_key, class, reason))
            }
        }
    }
}

/// Returns a required option of a predicate.
fn needed(options: &mut OptionReader<'_>, name: &str, option: &str, class: &str) -> Result<String, Refused> {
    let key = format!("predicates.{name}.{option}");
    let value = options.text(&key).filter(|value| !value.is_empty());
    value.ok_or_else(|| options.refuse(&key, "", format!("{class} needs it")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect_data::OptionError;

    const TOPIC: &str = "srv.public.outbox";

    fn parse(options: &[(&str, &str)]) -> Result<Option<Condition>, OptionError> {
        let find =
            |key: &str| options.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned());
        OptionReader::alone(&find, |options| Condition::read(options, "transforms.outbox."))
    }

    type Options<'a> = Vec<(&'a str, &'a str)>;

    fn with<'a>(class: &'a str, option: (&'a str, &'a str), negate: &'a str) -> Options<'a> {
        vec![
            ("transforms.outbox.predicate", "p"),
            ("transforms.outbox.negate", negate),
            ("predicates", "other, p"),
            ("predicates.p.type", class),
            option,
        ]
    }

    #[test]
    fn a_transform_is_applied_where_its_predicate_says() {
        let topic = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches";
        let header = "HasHeaderKey";
        let none = ("predicates.p.unused", "");
        let cases = [
            (topic, ("predicates.p.pattern", r"srv\.public\.outbox"), true),
            (topic, ("predicates.p.pattern", r"public\.outbox"), false),
            (topic, ("predicates.p.pattern", r".*\.outbox"), true),
            (header, ("predicates.p.name", "trace"), true),
            (header, ("predicates.p.name", "Trace"), false),
            ("RecordIsTombstone", none, false),
        ];
        for (class, option, expected) in cases {
            for (negate, expected) in [("false", expected), ("true", !expected)] {
                let condition = parse(&with(class, option, negate)).unwrap().unwrap();
                assert_eq!(
                    condition.holds(TOPIC, ["trace"].into_iter()),
                    expected,
                    "{class} {option:?} {negate}"
                );
            }
        }
        assert!(parse(&[]).unwrap().is_none());
    }

    #[test]
    fn what_connect_refuses_is_refused() {
        let topic = "TopicNameMatches";
        let cases: [(Options<'_>, &str, &str); 5] = [
            (vec![("transforms.outbox.predicate", "p")], "transforms.outbox.predicate", "does not name it"),
            (
                vec![("transforms.outbox.negate", "true")],
                "transforms.outbox.negate",
                "no predicate to negate",
            ),
            (with("com.example.Mine", ("a", "b"), "false"), "predicates.p.type", "TopicNameMatches"),
            (with(topic, ("a", "b"), "false"), "predicates.p.pattern", "needs it"),
            (
                with(topic, ("predicates.p.pattern", "["), "false"),
                "predicates.p.pattern",
                "not a regular expression",
            ),
        ];
        for (options, key, reason) in cases {
            let error = parse(&options).unwrap_err();
            assert_eq!(error.key, key);
            assert!(error.reason.contains(reason), "{error}");
        }
    }
}
