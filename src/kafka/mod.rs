//! Kafka: the producer, its delivery reports and its transactions; the topics of Connect's source offsets, of
//! exactly-once's state, of the relays' positions and of what became of dead letters.

mod accumulator;
mod admin;
mod admission;
mod client_config;
mod clients;
mod compacted_topic;
mod connection_failures;
mod delivery;
mod error;
mod fault;
mod group_offsets;
mod letter_states;
mod log_ends;
mod offset_topic;
mod open_transactions;
mod options;
mod outlet;
mod pace;
mod partitioner;
mod position_topic;
mod producer;
mod producer_batch;
mod reader;
mod record_reader;
mod rejection;
mod signal_topic;
mod stable_ends;
mod state_topic;
mod taken_back;
mod time;
mod topic_creation;
mod topic_follow;
mod topic_maker;
mod topic_probe;
mod topic_refusal;
mod topic_scan;
mod topic_tail;
mod transaction_fault;
mod transaction_reports;
mod transactional_sender;
mod transactions;
mod transport;

pub(crate) use admin::{Admin, Broker, Settings, Topic};
pub(crate) use admission::Admission;
pub(crate) use clients::TransactionSettings;
#[cfg(test)]
pub(crate) use delivery::Deliveries;
pub(crate) use delivery::{Delivered, REFUSED_MAX, Reports};
pub(crate) use error::{CreationFault, Error, TopicFault};
pub(crate) use fault::Fault;
pub(crate) use group_offsets::group_offsets;
pub(crate) use letter_states::LetterStates;
pub(crate) use offset_topic::{OffsetTopic, StoredValue};
pub(crate) use open_transactions::OpenTransactions;
pub use options::Options;
pub(crate) use outlet::Outlet;
#[cfg(test)]
pub(crate) use pace::Pace;
pub use partitioner::partition_of;
pub(crate) use partitioner::positive_hash;
pub(crate) use position_topic::{PositionTopic, Read, Receipt};
pub(crate) use producer::{Inlet, Producer};
pub(crate) use record_reader::{RecordReader, StoredRecord};
#[cfg(test)]
pub(crate) use rejection::Cause;
pub(crate) use rejection::Rejection;
#[cfg(test)]
pub(crate) use rejection::ReportPlace;
pub(crate) use signal_topic::{SignalRecord, SignalTopic};
pub use state_topic::{StateTopic, Stored};
pub(crate) use topic_creation::{TopicCreation, TopicGroup, TopicPatterns};
pub(crate) use topic_maker::{Made, check_topic, make_topic};
pub(crate) use topic_probe::{TopicAnswer, TopicProbe};
pub(crate) use topic_scan::{ScannedPartition, ScannedRecord, TopicScan};
pub(crate) use topic_tail::{Relevance, TailRecord, TopicTail};
pub(crate) use transaction_fault::TransactionFault;
pub(crate) use transactional_sender::{Ended, TransactionalSender};
pub(crate) use transport::Transport;
