//! A mistake about Kafka's answers, planted beside the relay.

use std::collections::BTreeSet;

use crate::support::proxy::{Tamper, Toward};

const PRODUCE: [u8; 2] = [0, 0];
/// Offsets of a request's kind and correlation id, and of an answer's correlation id.
const REQUEST_KIND: usize = 4;
const REQUEST_ID: usize = 8;
const ANSWER_ID: usize = 4;
/// Distance of a forged offset from the last returned one.
const LEAP: i64 = 1000;

/// A failed report counts as an acknowledgement: an error in the answer to a Produce request becomes a success, with an offset
/// that can be believed.
pub(crate) struct FailuresAreSuccesses {
    /// Each is found by its name in the answer.
    topics: Vec<String>,
    asked: BTreeSet<[u8; 4]>,
    last_offset: i64,
}

impl FailuresAreSuccesses {
    pub(crate) const fn new(topics: Vec<String>) -> Self {
        Self { topics, asked: BTreeSet::new(), last_offset: 0 }
    }

    /// Forges the answer. It names one topic and one partition, as the request did. The name is followed by the number
    /// of partitions (one byte), the partition, the error's code and the offset.
    fn forge(&mut self, answer: &mut [u8]) -> Option<()> {
        let place = self.topics.iter().find_map(|topic| {
            let at = answer.windows(topic.len()).position(|part| part == topic.as_bytes())?;
            Some(at + topic.len() + 1 + 4)
        })?;
        let told = i64::from_be_bytes(answer.get(place + 2..place + 10)?.try_into().unwrap());
        if answer.get(place..place + 2)? == [0, 0] {
            self.last_offset = self.last_offset.max(told);
            return None;
        }
        self.last_offset += LEAP;
        answer[place..place + 2].fill(0);
        answer[place + 2..place + 10].copy_from_slice(&self.last_offset.to_be_bytes());
        Some(())
    }
}

impl Tamper for FailuresAreSuccesses {
    fn message(&mut self, toward: Toward, message: &mut Vec<u8>) {
        let id = |at: usize| -> [u8; 4] { message[at..at + 4].try_into().unwrap() };
        match toward {
            Toward::Server if message[REQUEST_KIND..REQUEST_KIND + 2] == PRODUCE => {
                self.asked.insert(id(REQUEST_ID));
            }
            Toward::Client if self.asked.remove(&id(ANSWER_ID)) => {
                self.forge(message);
            }
            _ => {}
        }
    }
}
