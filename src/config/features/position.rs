//! Storage of the relay's position.

use crate::relay::PositionOptions;

use crate::config::read::Reader;

const TOPIC: &str = "outboxd.position.topic";
const ACCEPT: &str = "outboxd.position.accept";
const MISMATCH: &str = "offset.mismatch.strategy";

/// True for values that continue from a slot that is ahead of the stored position.
const STRATEGIES: [(&str, bool); 4] =
    [("no_validation", false), ("trust_offset", false), ("trust_slot", true), ("trust_greater_lsn", true)];

/// Topic of all relays of a Kafka cluster; the key distinguishes them.
const DEFAULT_TOPIC: &str = "__outboxd-positions";

/// Names that identify a relay. Two relays with the same names would read each other's position.
#[derive(Debug, Clone, Copy)]
pub(in crate::config) struct Names<'n> {
    pub(in crate::config) connector: &'n str,
    pub(in crate::config) topic_prefix: &'n str,
    pub(in crate::config) database: &'n str,
    pub(in crate::config) slot: &'n str,
}

/// Reads the options.
pub(in crate::config) fn options(reader: &mut Reader<'_>, names: Names<'_>) -> PositionOptions {
    let Names { connector, topic_prefix, database, slot } = names;
    let key = serde_json::json!([connector, { "server": topic_prefix, "database": database, "slot": slot }]);
    let topic = reader.text(TOPIC).unwrap_or(DEFAULT_TOPIC).trim();
    let topic = (!topic.is_empty()).then(|| topic.to_owned());
    let said = reader.settings.get(ACCEPT).filter(|setting| !setting.value.trim().is_empty());
    let accept = said.and_then(|setting| setting.value.trim().parse().ok());
    if let Some(setting) = said.filter(|_| accept.is_none()) {
        reader.invalid(setting, "it must be an LSN, such as 16/B374D848: the one that a refused start names");
    }
    let trusts_slot = reader.choice(MISMATCH, &STRATEGIES, false);
    PositionOptions { topic, key: key.to_string(), accept, trusts_slot }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source::layers::Dialect;
    use crate::config::source::settings::{Origin, Setting, Settings};

    fn read(lines: &[&str]) -> Result<PositionOptions, String> {
        let mut settings = Settings::default();
        for line in lines {
            let (key, value) = line.split_once('=').unwrap();
            let (written, value, origin) = (key.to_owned(), value.to_owned(), Origin::CommandLine);
            settings.insert(key.to_owned(), Setting { written, value, origin, secret: false });
        }
        let mut reader = Reader::new(&settings, Dialect::Connect);
        let names = Names { connector: "c", topic_prefix: "p", database: "d", slot: "s" };
        let options = options(&mut reader, names);
        reader.problems.first().map_or(Ok(options), |problem| Err(problem.to_string()))
    }

    #[test]
    fn a_position_is_kept_unless_the_topic_is_empty() {
        let key = r#"["c",{"server":"p","database":"d","slot":"s"}]"#;
        let cases: [(&[&str], Option<&str>, Option<&str>); 4] = [
            (&[], Some("__outboxd-positions"), None),
            (&["outboxd.position.topic=mine"], Some("mine"), None),
            (&["outboxd.position.topic= "], None, None),
            (&["outboxd.position.accept=0/1F"], Some("__outboxd-positions"), Some("0/1F")),
        ];
        for (lines, topic, accept) in cases {
            let options = read(lines).unwrap();
            assert_eq!(options.topic.as_deref(), topic, "{lines:?}");
            let accepted = options.accept.map(|lsn| lsn.to_string());
            assert_eq!((options.key.as_str(), accepted.as_deref()), (key, accept), "{lines:?}");
        }
    }

    #[test]
    fn what_is_no_lsn_is_refused() {
        assert!(read(&["outboxd.position.accept=yes"]).unwrap_err().contains("must be an LSN"));
    }
}
