//! Delivery guarantee, and the transactions of exactly-once delivery.

use std::time::Duration;

use crate::relay::{Guarantee, TransactionOptions};

use crate::config::error::Problem;
use crate::config::read::Reader;
use crate::config::source::settings::Settings;

pub(in crate::config) const GUARANTEE: &str = "outboxd.delivery.guarantee";
/// Connect's key of the connector.
const SUPPORT: &str = "exactly.once.support";
/// Connect's key of the worker: `enabled` makes every connector exactly-once that supports it.
const WORKER: &str = "exactly.once.source.support";

/// Timeout of a transaction. Connect's default is 60 s for this and for the interval.
const TIMEOUT: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(100);

/// Returns the name of the guarantee in force, even if it is not a valid one.
pub(in crate::config) fn name(settings: &Settings) -> String {
    let said = |key| settings.value(key).map(|value| value.trim().to_ascii_lowercase());
    let is_required = || said(SUPPORT).is_some_and(|support| support == "required");
    let unsaid = || if is_required() { "exactly_once" } else { "at_least_once" }.to_owned();
    said(GUARANTEE).filter(|name| !name.is_empty()).unwrap_or_else(unsaid)
}

/// Reads the guarantee, and the options of transactions if it needs them.
pub(in crate::config) fn options(
    reader: &mut Reader<'_>,
    topic_prefix: &str,
    topic_delimiter: &str,
) -> (Guarantee, Option<TransactionOptions>) {
    let guarantee = guarantee(reader);
    let exactly_once = guarantee == Guarantee::ExactlyOnce;
    check_worker(reader, exactly_once);
    check_client(reader, exactly_once);
    let interval = reader.millis("transaction.boundary.interval.ms", 1, INTERVAL);
    let timeout = reader.millis("producer.transaction.timeout.ms", 1_000, TIMEOUT);
    let state_topic = match reader.filled("outboxd.exactly.once.state.topic") {
        Some(name) => name.to_owned(),
        None => ["__outboxd-state", topic_delimiter, topic_prefix].concat(),
    };
    let id = reader.filled("producer.transactional.id").map(str::to_owned);
    let topic_prefix = topic_prefix.to_owned();
    let options = TransactionOptions { state_topic, id, topic_prefix, timeout, interval };
    (guarantee, exactly_once.then_some(options))
}

fn guarantee(reader: &mut Reader<'_>) -> Guarantee {
    use Guarantee::{AtLeastOnce, ExactlyOnce, TailDedupe};
    let guarantees =
        [("at_least_once", AtLeastOnce), ("tail_dedupe", TailDedupe), ("exactly_once", ExactlyOnce)];
    let required = reader.choice(SUPPORT, &[("requested", false), ("required", true)], false);
    let unsaid = if required { ExactlyOnce } else { AtLeastOnce };
    let guarantee = reader.choice(GUARANTEE, &guarantees, unsaid);
    if let Some(setting) = reader.settings.get(GUARANTEE).filter(|_| required && guarantee != ExactlyOnce) {
        reader.invalid(setting, format!("{SUPPORT}=required asks for exactly_once"));
    }
    guarantee
}

fn check_worker(reader: &mut Reader<'_>, exactly_once: bool) {
    let enabled =
        reader.choice(WORKER, &[("disabled", false), ("preparing", false), ("enabled", true)], false);
    if let Some(setting) = reader.settings.get(WORKER).filter(|_| enabled && !exactly_once) {
        let reason = "it belongs to the Connect worker; the connector asks for exactly once";
        let fix = format!("set {SUPPORT}=required, or remove {}", setting.written);
        reader.problems.push(Problem::refused(setting, reason, fix));
    }
}

/// Refuses a transactional id unless delivery is exactly-once.
fn check_client(reader: &mut Reader<'_>, exactly_once: bool) {
    let key = "producer.transactional.id";
    if let Some(setting) = reader.settings.get(key).filter(|_| !exactly_once) {
        let reason = "only exactly once sends in transactions";
        let fix = format!("set {GUARANTEE}=exactly_once, or remove {}", setting.written);
        reader.problems.push(Problem::refused(setting, reason, fix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source::layers::Dialect;
    use crate::config::source::settings::{Origin, Setting};

    fn read(lines: &[&str]) -> Result<(Guarantee, Option<TransactionOptions>), String> {
        let mut settings = Settings::default();
        for line in lines {
            let (key, value) = line.split_once('=').unwrap();
            let (written, value, origin) = (key.to_owned(), value.to_owned(), Origin::CommandLine);
            settings.insert(key.to_owned(), Setting { written, value, origin, secret: false });
        }
        let mut reader = Reader::new(&settings, Dialect::Connect);
        let found = options(&mut reader, "orders", ".");
        reader.problems.first().map_or(Ok(found), |problem| Err(problem.to_string()))
    }

    #[test]
    fn either_name_asks_for_it() {
        let cases: [(&[&str], _); 6] = [
            (&[], Guarantee::AtLeastOnce),
            (&["exactly.once.support=requested"], Guarantee::AtLeastOnce),
            (&["exactly.once.support=required"], Guarantee::ExactlyOnce),
            (&["outboxd.delivery.guarantee=exactly_once"], Guarantee::ExactlyOnce),
            (
                &["outboxd.delivery.guarantee=exactly_once", "exactly.once.support=requested"],
                Guarantee::ExactlyOnce,
            ),
            (
                &["exactly.once.support=REQUIRED", "exactly.once.source.support=enabled"],
                Guarantee::ExactlyOnce,
            ),
        ];
        for (lines, expected) in cases {
            let (guarantee, transactions) = read(lines).unwrap();
            assert_eq!(guarantee, expected, "{lines:?}");
            assert_eq!(transactions.is_some(), expected == Guarantee::ExactlyOnce, "{lines:?}");
        }
    }

    #[test]
    fn what_contradicts_is_refused() {
        let cases: [(&[&str], &str); 5] = [
            (
                &["outboxd.delivery.guarantee=at_least_once", "exactly.once.support=required"],
                "asks for exactly_once",
            ),
            (
                &["outboxd.delivery.guarantee=tail_dedupe", "exactly.once.support=required"],
                "asks for exactly_once",
            ),
            (&["exactly.once.support=maybe"], "requested, required"),
            (&["exactly.once.source.support=enabled"], "the connector asks for exactly once"),
            (&["producer.transactional.id=mine"], "only exactly once sends in transactions"),
        ];
        for (lines, expected) in cases {
            let said = read(lines).unwrap_err();
            assert!(said.contains(expected), "{lines:?}: {said}");
        }
    }

    #[test]
    fn transactions_are_made_as_the_configuration_says() {
        let (_, unsaid) = read(&["exactly.once.support=required"]).unwrap();
        let expected = TransactionOptions {
            state_topic: "__outboxd-state.orders".to_owned(),
            id: None,
            topic_prefix: "orders".to_owned(),
            timeout: Duration::from_secs(60),
            interval: Duration::from_millis(100),
        };
        assert_eq!(unsaid, Some(expected));
        let said = read(&[
            "exactly.once.support=required",
            "outboxd.exactly.once.state.topic=state",
            "producer.transactional.id=mine",
            "producer.transaction.timeout.ms=10000",
            "transaction.boundary.interval.ms=7",
        ]);
        let (_, said) = said.unwrap();
        let said = said.unwrap();
        assert_eq!((said.state_topic.as_str(), said.id.as_deref()), ("state", Some("mine")));
        assert_eq!((said.timeout, said.interval), (Duration::from_secs(10), Duration::from_millis(7)));
    }
}
