//! The reason of a dead letter, as the headers of Kafka Connect express it.

use std::borrow::Cow;

use crate::connect::record::ProducerRecord;
use crate::error::{chain, report};
use crate::kafka::{Fault, Rejection};
use crate::relay::error::Error;
use crate::relay::options::DeadLetterOptions;
use crate::telemetry::DeathCause;
use crate::transaction::{EventPosition, Standing};

/// Reason of a dead letter, in Connect's terms. No value of a row is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) struct ErrorContext {
    pub(in crate::relay) cause: DeathCause,
    /// Connect's `Stage`.
    stage: &'static str,
    /// Component that refused it, for `class.name`.
    executing: Cow<'static, str>,
    /// The class of the exception that Connect or Kafka's Java client would have thrown.
    exception: &'static str,
    pub(super) message: String,
    /// Message with its causes and the fix, a line each.
    report: String,
}

/// Source and destination of a dead event.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct Origin<'a> {
    pub(in crate::relay) standing: Standing,
    pub(in crate::relay) topic: Option<&'a str>,
    pub(in crate::relay) partition: Option<i32>,
}

const ROUTER: &str = "io.debezium.transforms.outbox.EventRouter";
const PRODUCER: &str = "org.apache.kafka.clients.producer.KafkaProducer";
const DATA_EXCEPTION: &str = "org.apache.kafka.connect.errors.DataException";

impl ErrorContext {
    /// Describes the failure of a row or a message that makes no event.
    pub(in crate::relay) fn of_row(error: &Error) -> Self {
        let (unreadable, converter) = match error {
            Error::Row { source, .. } => (source.is_unreadable(), source.converter()),
            Error::Message { source, .. } => (false, source.converter()),
            Error::Registry(_) => (false, Some("value.converter")),
            _ => (false, None),
        };
        let (cause, stage) = match converter {
            Some("key.converter") => (DeathCause::Conversion, "KEY_CONVERTER"),
            Some("header.converter") => (DeathCause::Conversion, "HEADER_CONVERTER"),
            Some(_) => (DeathCause::Conversion, "VALUE_CONVERTER"),
            None if unreadable => (DeathCause::Reading, "TASK_POLL"),
            None => (DeathCause::Routing, "TRANSFORMATION"),
        };
        let transform = match error {
            Error::Row { source, .. } => source.transform(),
            Error::Message { source, .. } => source.transform(),
            _ => None,
        };
        let executing = match (converter, transform) {
            (Some(converter), _) => Cow::Borrowed(converter),
            (None, Some(class)) => Cow::Owned(class.to_owned()),
            (None, None) => Cow::Borrowed(ROUTER),
        };
        Self {
            cause,
            stage,
            executing,
            exception: DATA_EXCEPTION,
            message: chain(error),
            report: report(error),
        }
    }

    /// Describes the rejection of a record by Kafka.
    pub(super) fn of_refusal(fault: Fault, rejection: &Rejection) -> Self {
        let cause = match fault {
            Fault::Size => DeathCause::TooLarge,
            Fault::Topic => DeathCause::NoTopic,
            Fault::Partition | Fault::Contents => DeathCause::Invalid,
        };
        let (stage, exception) = ("KAFKA_PRODUCE", rejection.java_class());
        let message = rejection.reason.clone();
        let report = match rejection.fix() {
            Some(fix) => format!("{message}\n  to fix: {fix}"),
            None => message.clone(),
        };
        Self { cause, stage, executing: Cow::Borrowed(PRODUCER), exception, message, report }
    }

    /// Describes an event whose key has a dead letter already.
    pub(super) fn of_follower(since: EventPosition) -> Self {
        let EventPosition { commit_lsn, .. } = since;
        let message = format!(
            "it follows {} of the transaction that committed at {commit_lsn}, which has the same key and went to \
             the dead-letter topic",
            since.change()
        );
        let report = message.clone();
        let exception = "org.apache.kafka.connect.errors.ConnectException";
        Self {
            cause: DeathCause::Key,
            stage: "KAFKA_PRODUCE",
            executing: Cow::Borrowed(PRODUCER),
            exception,
            message,
            report,
        }
    }

    /// Returns the headers of `errors.deadletterqueue.context.headers.enable`: Connect's, and the position in
    /// the source. Connect's offset is that of a consumed record, which an event from PostgreSQL does not
    /// have.
    pub(super) fn headers(
        &self,
        options: &DeadLetterOptions,
        origin: Origin<'_>,
    ) -> Vec<(&'static str, String)> {
        if !options.context_headers {
            return Vec::new();
        }
        let position = origin.standing.position();
        let topic = origin.topic.map(|topic| ("__connect.errors.topic", topic.to_owned()));
        let partition = origin.partition.map(|number| ("__connect.errors.partition", number.to_string()));
        let rest = [
            ("__connect.errors.connector.name", options.connector_name.clone()),
            ("__connect.errors.task.id", "0".to_owned()),
            ("__connect.errors.stage", self.stage.to_owned()),
            ("__connect.errors.class.name", self.executing.clone().into_owned()),
            ("__connect.errors.exception.class.name", self.exception.to_owned()),
            ("__connect.errors.exception.message", self.message.clone()),
            ("__connect.errors.exception.stacktrace", self.report.clone()),
            ("outboxd.errors.reason", self.cause.name().to_owned()),
            ("outboxd.errors.commit.lsn", position.commit_lsn.to_string()),
            ("outboxd.errors.lsn", position.lsn.to_string()),
            ("outboxd.errors.ordinal", position.ordinal.to_string()),
        ];
        let part = (position.part > 0).then(|| ("outboxd.errors.part", position.part.to_string()));
        topic.into_iter().chain(partition).chain(rest).chain(part).collect()
    }

    /// Logs a dead event once.
    pub(in crate::relay) fn report(&self, record: &ProducerRecord<'_>, origin: Origin<'_>) {
        let EventPosition { commit_lsn, lsn, ordinal, part } = origin.standing.position();
        let event_id = record.event_id().map(String::from_utf8_lossy);
        let (error, reason) = (&self.message, self.cause.name());
        if self.cause == DeathCause::Key {
            tracing::debug!(%commit_lsn, %lsn, event_id = event_id.as_deref(), "an event follows its key's dead letter");
            return;
        }
        tracing::error!(
            topic = origin.topic,
            %commit_lsn,
            %lsn,
            ordinal,
            part,
            event_id = event_id.as_deref(),
            reason,
            error,
            "sending an event to the dead-letter topic"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::RouteError;
    use crate::wal::Lsn;

    #[test]
    fn the_headers_are_connects_and_have_the_position_of_the_event() {
        let position = EventPosition::new(Lsn::new(0x1_0000_0010), Lsn::new(0x1_0000_0008), 3);
        let (table, column) = ("public.outbox".to_owned(), "aggregatetype".to_owned());
        let source = Box::new(RouteError::NullRoute { table: table.clone(), column });
        let error_context =
            ErrorContext::of_row(&Error::Row { table, name: Default::default(), position, source });
        let mut options = DeadLetterOptions {
            topic: "dead".to_owned(),
            context_headers: true,
            connector_name: "orders".to_owned(),
            follow_key: false,
            keys_max: 1,
            keeps_values: false,
        };
        let origin = Origin { standing: position.into(), topic: Some("a"), partition: Some(7) };
        let headers = error_context.headers(&options, origin);
        for (name, expected) in [
            ("__connect.errors.topic", "a"),
            ("__connect.errors.partition", "7"),
            ("__connect.errors.connector.name", "orders"),
            ("__connect.errors.task.id", "0"),
            ("__connect.errors.stage", "TRANSFORMATION"),
            ("__connect.errors.class.name", ROUTER),
            ("__connect.errors.exception.class.name", DATA_EXCEPTION),
            ("outboxd.errors.reason", "routing"),
            ("outboxd.errors.commit.lsn", "1/10"),
            ("outboxd.errors.lsn", "1/8"),
            ("outboxd.errors.ordinal", "3"),
        ] {
            let found = headers.iter().find(|(other, _)| *other == name);
            assert_eq!(found.map(|(_, value)| value.as_str()), Some(expected), "{name}");
        }
        assert!(!headers.iter().any(|(name, _)| *name == "__connect.errors.offset"));
        let unknown = error_context.headers(&options, Origin { topic: None, partition: None, ..origin });
        assert_eq!(unknown.len(), headers.len() - 2);
        let second =
            error_context.headers(&options, Origin { standing: position.next_part().into(), ..origin });
        assert_eq!(second.last(), Some(&("outboxd.errors.part", "1".to_owned())));
        assert_eq!(second.len(), headers.len() + 1);
        options.context_headers = false;
        assert_eq!(error_context.headers(&options, origin), []);
    }
}
