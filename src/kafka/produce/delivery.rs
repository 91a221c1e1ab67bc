//! The delivery reports of librdkafka's threads, collected for the relay's core.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers as _, Message};
use rdkafka::producer::{DeliveryResult, NoCustomPartitioner, ProducerContext};
use tokio::sync::Notify;

use super::rejection::{RecordName, Rejection, ReportPlace, idempotent_write_fix, named};
use crate::ack::Ticket;
use crate::connect::record::header_weight;
use crate::kafka::connection_failures::CONNECTION_FAILED;
use crate::kafka::consume::log_ends::LogEnds;
use crate::kafka::error::Error;
use crate::kafka::token_callback;
use crate::trace::{Delivery, SpanLog, TRACEPARENT};

/// Most refused records that are reported one by one: when a topic is gone, everything in flight to it is
/// refused.
pub(crate) const REFUSED_MAX: usize = 10_000;

/// librdkafka's name of a request without an answer, and of the broker that coordinates transactions.
const REQUEST_TIMED_OUT: &str = "REQTMOUT";
const COORDINATOR: &str = "TxnCoordinator";

/// Records of one transaction that the broker has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// Their transaction.
    pub ticket: Ticket,
    /// Number of records.
    pub records: usize,
    /// Their weight in the window.
    pub bytes: usize,
}

/// Consecutive acknowledged records of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landed {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Number of records.
    pub records: usize,
}

/// Reports since the last collection.
#[derive(Debug, Default)]
pub struct Reports {
    /// Acknowledged records.
    pub delivered: Vec<Delivered>,
    /// The same, by partitions.
    pub landed: Vec<Landed>,
    /// Number of failed records; each is one that will not be acknowledged.
    pub failed_records: usize,
    /// Their weight in the window.
    pub failed_bytes: usize,
    /// The first refusal, if there was one.
    pub rejection: Option<Rejection>,
    /// Every record that was refused for its own sake, up to a limit.
    pub refused: Vec<Rejection>,
    /// The producer's fatal error, if there was one.
    pub fatal: Option<String>,
    /// The last connection trouble, if no broker has answered since.
    pub trouble: Option<String>,
    /// The connection to the coordinator of transactions has broken.
    pub coordinator_lost: bool,
    /// Reason for which records are invisible, or not sent, when it takes long: something undecided before
    /// them.
    pub hidden: Option<String>,
    /// Outcome of the commit or the abort of a Kafka transaction.
    pub ended: Option<Result<(), Error>>,
}

impl Reports {
    /// Returns the obstacle, if there is one.
    #[must_use]
    pub fn obstacle(&self) -> Option<&str> {
        self.trouble.as_deref().or(self.hidden.as_deref())
    }

    /// Counts an acknowledged record. Returns true when it is the first since the last collection: one
    /// notification is enough for all reports.
    fn deliver(&mut self, ticket: Ticket, topic: &str, partition: i32, bytes: usize) -> bool {
        self.trouble = None;
        match self.landed.last_mut() {
            Some(last) if last.partition == partition && last.topic == topic => {
                last.records = last.records.saturating_add(1);
            }
            _ => self.landed.push(Landed { topic: topic.to_owned(), partition, records: 1 }),
        }
        match self.delivered.last_mut() {
            Some(last) if last.ticket == ticket => {
                last.records = last.records.saturating_add(1);
                last.bytes = last.bytes.saturating_add(bytes);
                false
            }
            last => {
                let is_first = last.is_none();
                self.delivered.push(Delivered { ticket, records: 1, bytes });
                is_first
            }
        }
    }
}

/// Collects delivery reports on librdkafka's thread and passes them on in batches.
///
/// The number of waiting reports is bounded by the in-flight window.
#[derive(Debug, Clone, Default)]
pub struct Deliveries(pub(in crate::kafka) Arc<Shared>);

#[derive(Debug, Default)]
pub(in crate::kafka) struct Shared {
    state: Mutex<State>,
    pub(in crate::kafka) arrived: Notify,
    /// Log of the ends of spans of records, if there are any.
    spans: OnceLock<SpanLog>,
}

#[derive(Debug, Default)]
pub(in crate::kafka) struct State {
    pub(in crate::kafka) reports: Reports,
    pub(in crate::kafka) log_ends: LogEnds,
    /// Counts the producers.
    pub(in crate::kafka) generation: u64,
}

impl Deliveries {
    /// Records may have spans from now on, which end when they are acknowledged.
    pub(crate) fn end_spans_in(&self, log: SpanLog) {
        // There is one log in a process.
        drop(self.0.spans.set(log));
    }

    /// Waits until there is a report. Cancel-safe.
    pub async fn arrived(&self) {
        self.0.arrived.notified().await;
    }

    /// Collects the reports. `spare` is reused for the next batch, so that steady state allocates nothing.
    pub fn take(&self, mut spare: Vec<Delivered>) -> Reports {
        spare.clear();
        let reports = &mut self.lock().reports;
        Reports {
            delivered: mem::replace(&mut reports.delivered, spare),
            landed: mem::take(&mut reports.landed),
            failed_records: mem::take(&mut reports.failed_records),
            failed_bytes: mem::take(&mut reports.failed_bytes),
            rejection: reports.rejection.take(),
            refused: mem::take(&mut reports.refused),
            fatal: reports.fatal.take(),
            trouble: reports.trouble.clone(),
            coordinator_lost: mem::take(&mut reports.coordinator_lost),
            hidden: reports.hidden.clone(),
            ended: reports.ended.take(),
        }
    }

    /// Returns the last connection trouble, if no broker has answered since.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.lock().reports.trouble.clone()
    }

    /// Discards the reports of the last producer, because a new one begins.
    pub(crate) fn discard_reports(&self) {
        let mut state = self.lock();
        let generation = state.generation.wrapping_add(1);
        *state = State { generation, ..State::default() };
    }

    /// Records that a broker has answered.
    pub(in crate::kafka) fn clear_trouble(&self) {
        self.lock().reports.trouble = None;
        self.0.arrived.notify_one();
    }

    pub(in crate::kafka) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an acknowledged record; `name` identifies it, if that is needed.
    pub(crate) fn acknowledged(
        &self,
        ticket: Ticket,
        place: ReportPlace<'_>,
        bytes: usize,
        name: impl FnOnce() -> RecordName,
    ) {
        let mut state = self.lock();
        let outcome = state.log_ends.advance(place.topic, place.partition, place.offset);
        if let Err(doubt) = outcome {
            drop(state);
            self.rejected(Rejection::doubted(ticket, place, name(), doubt), bytes);
            return;
        }
        let is_news = state.reports.deliver(ticket, place.topic, place.partition, bytes);
        drop(state);
        if is_news {
            self.0.arrived.notify_one();
        }
    }

    /// Records a record that will never be acknowledged.
    pub(crate) fn rejected(&self, rejection: Rejection, bytes: usize) {
        let mut state = self.lock();
        let reports = &mut state.reports;
        if rejection.ticket != Ticket::STATE {
            reports.failed_records = reports.failed_records.saturating_add(1);
            reports.failed_bytes = reports.failed_bytes.saturating_add(bytes);
        }
        if !rejection.is_consequence() && !rejection.is_doubtful() && reports.refused.len() < REFUSED_MAX {
            reports.refused.push(rejection.clone());
        }
        // The first that is not a mere consequence is the reason: later records fail because of it.
        if reports
            .rejection
            .as_ref()
            .is_none_or(|first| first.is_consequence() && !rejection.is_consequence())
        {
            reports.rejection = Some(rejection);
        }
        drop(state);
        self.0.arrived.notify_one();
    }
}

impl ClientContext for Deliveries {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, property: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        token_callback::token(property)
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // librdkafka reports it nowhere else: the connection is its own business, unless a commit was on it.
        // When a request was not answered in time, it closes the connection without calling that a failure.
        if [CONNECTION_FAILED, REQUEST_TIMED_OUT].contains(&facility) && message.contains(COORDINATOR) {
            self.lost_coordinator();
        }
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => {
                tracing::debug!(facility, message, "librdkafka error");
            }
            RDKafkaLogLevel::Warning => tracing::debug!(facility, message, "librdkafka warning"),
            _ => tracing::trace!(facility, message, "librdkafka"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let mut state = self.lock();
        let reports = &mut state.reports;
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::Fatal | RDKafkaErrorCode::GaplessGuarantee) => {
                reports.fatal.get_or_insert_with(|| reason.to_owned());
            }
            // It only sums up the errors before it, which are more precise.
            Some(RDKafkaErrorCode::AllBrokersDown) if reports.trouble.is_some() => {}
            Some(RDKafkaErrorCode::ClusterAuthorizationFailed) => {
                reports.trouble = Some(format!("{reason}. To fix: {}", idempotent_write_fix()));
            }
            _ => reports.trouble = Some(reason.to_owned()),
        }
        drop(state);
        self.0.arrived.notify_one();
    }
}

impl ProducerContext<NoCustomPartitioner> for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: usize) {
        match result {
            Ok(message) => {
                let (topic, partition, offset) = (message.topic(), message.partition(), message.offset());
                if let Some(spans) = self.0.spans.get() {
                    end_span(spans, message);
                }
                let place = ReportPlace { topic, partition, offset };
                self.acknowledged(Ticket(ticket), place, weight(message), || named(message));
            }
            Err((error, message)) => {
                self.rejected(Rejection::reported(Ticket(ticket), message, error), weight(message));
            }
        }
    }
}

/// Ends the span of an acknowledged record, if it has one.
fn end_span(spans: &SpanLog, message: &BorrowedMessage<'_>) {
    let parents = message.headers().into_iter().flat_map(|headers| headers.iter());
    let Some(parent) =
        parents.filter(|header| header.key == TRACEPARENT).filter_map(|header| header.value).last()
    else {
        return;
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at_us = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    let (topic, partition, offset) = (message.topic(), message.partition(), message.offset());
    spans.finish(parent, Delivery { topic, partition, offset, at_us });
}

/// Returns the same as [`crate::connect::record::ProducerRecord::weight`] of the record that was sent.
fn weight(message: &BorrowedMessage<'_>) -> usize {
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    let headers = headers.map(|header| header_weight(header.key, header.value));
    headers.fold(
        message.key().map_or(0, <[u8]>::len).saturating_add(message.payload_len()),
        usize::saturating_add,
    )
}
