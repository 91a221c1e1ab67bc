//! The topic in which `outboxd dlq` stores the outcomes of dead letters.

use std::ops::Range;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::{Message as _, Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use super::compacted_topic::{CompactedTopic, PARTITION, is_forbidden, reason};
use crate::kafka::consume::reader::{LATE, Reader};
use crate::kafka::error::Error;
use crate::kafka::options::Options;
use crate::kafka::time::Time;

/// Timeout of everything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest wait for an open transaction in the topic.
const UNDECIDED_PATIENCE: Duration = Duration::from_secs(40);

/// The compacted topic, of one partition, with the outcome of each dead letter.
#[derive(Debug, Clone)]
pub(crate) struct DeadLetterStates(CompactedTopic);

impl DeadLetterStates {
    /// The partition to write to.
    pub(crate) const PARTITION: i32 = PARTITION;

    /// Opens the topic of this name.
    #[must_use]
    pub(crate) fn new(options: &Options, name: &str) -> Self {
        Self(CompactedTopic::new(options, name))
    }

    /// Creates the topic if it is missing.
    ///
    /// # Errors
    /// When the brokers do not create it in time.
    pub(crate) async fn make(&self, patience: Duration) -> Result<(), Error> {
        if self.0.make(patience).await.map_err(|error| self.failed("made", &error, patience))? {
            tracing::info!(topic = self.0.name, "created the topic for the states of dead letters");
        }
        Ok(())
    }

    /// Passes every committed key and value to `take`, in their order; a null value removes the key. Waits
    /// for transactions that are open when this begins. Blocks.
    ///
    /// # Errors
    /// When it cannot be read to its end in time.
    pub(crate) fn read(
        &self,
        stop: &CancellationToken,
        take: impl FnMut(&[u8], Option<&[u8]>),
    ) -> Result<(), Error> {
        let (time, failed) = (Time::new(PATIENCE, stop), |error| self.failed("read", &error, PATIENCE));
        let consumer = self.0.reader("read_committed")?;
        let everything = self.0.reader("read_uncommitted")?;
        let bounds = |of| self.0.bounds(of, &time).map_err(failed);
        let Some((low, high)) = bounds(&everything)? else { return Ok(()) };
        let asked = Instant::now();
        while bounds(&consumer)?.is_none_or(|(_, decided)| decided < high) {
            if time.is_over() || asked.elapsed() > UNDECIDED_PATIENCE {
                return Err(Error::Undecided { topic: self.0.name.clone(), partition: PARTITION });
            }
        }
        self.read_between(&consumer, low..high, &time, take).map_err(failed)
    }

    fn read_between(
        &self,
        consumer: &Reader,
        offsets: Range<i64>,
        time: &Time<'_>,
        mut take: impl FnMut(&[u8], Option<&[u8]>),
    ) -> KafkaResult<()> {
        if offsets.is_empty() {
            return Ok(());
        }
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition_offset(&self.0.name, PARTITION, Offset::Offset(offsets.start))?;
        consumer.assign(&assignment)?;
        let mut trouble = None;
        loop {
            match consumer.poll(time.slice()) {
                Some(Ok(message)) => {
                    take(message.key().unwrap_or_default(), message.payload());
                    if message.offset().saturating_add(1) >= offsets.end {
                        return Ok(());
                    }
                }
                None => {}
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(()),
                Some(Err(error)) if is_forbidden(&error) => return Err(error),
                // Most others heal by themselves, and librdkafka tries again.
                Some(Err(error)) => trouble = Some(error),
            }
            if time.is_over() {
                return Err(trouble.unwrap_or(LATE));
            }
        }
    }

    fn failed(&self, doing: &'static str, error: &KafkaError, patience: Duration) -> Error {
        let (topic, refused) = (self.0.name.clone(), is_forbidden(error));
        self.0.unreachable(error, patience).unwrap_or_else(|| Error::DeadLetterStates {
            doing,
            topic,
            reason: reason(error),
            refused,
        })
    }
}
