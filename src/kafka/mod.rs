//! Kafka: the producer, its delivery reports and its transactions; the topics of Connect's source offsets, of
//! exactly-once's state, of the relays' positions and of the outcomes of dead letters.

mod client_config;
mod connection_failures;
mod consume;
mod error;
mod login;
mod options;
mod produce;
mod stores;
mod time;
mod token_callback;
pub(crate) mod tool_lines;
mod topics;
mod transactional;

pub(crate) use client_config::refresh_login;
pub(crate) use consume::group_offsets::group_offsets;
pub(crate) use consume::record_reader::{RecordReader, StoredRecord};
pub(crate) use consume::topic_scan::{ScannedPartition, ScannedRecord, TopicScan};
pub(crate) use consume::topic_tail::{Relevance, TailRecord, TopicTail};
pub(crate) use error::{CreationFault, Error, TopicFault};
pub(crate) use login::{Login, LoginSource, Property};
pub use options::Options;
pub(crate) use produce::admission::Admission;
pub(crate) use produce::clients::TransactionSettings;
#[cfg(test)]
pub(crate) use produce::delivery::Deliveries;
pub(crate) use produce::delivery::{Delivered, REFUSED_MAX, Reports};
pub(crate) use produce::fault::Fault;
pub(crate) use produce::outlet::Outlet;
#[cfg(test)]
pub(crate) use produce::pace::Pace;
pub use produce::partitioner::partition_of;
pub(crate) use produce::partitioner::positive_hash;
pub(crate) use produce::producer::{Inlet, Producer};
#[cfg(test)]
pub(crate) use produce::rejection::Cause;
pub(crate) use produce::rejection::Rejection;
#[cfg(test)]
pub(crate) use produce::rejection::{RecordName, ReportPlace};
pub(crate) use produce::transport::Transport;
pub(crate) use stores::dead_letter_states::DeadLetterStates;
pub(crate) use stores::offset_topic::{OffsetTopic, StoredValue};
pub(crate) use stores::position_topic::{PositionTopic, Read, Receipt};
pub(crate) use stores::signal_topic::{SignalRecord, SignalTopic};
pub use stores::state_topic::{StateTopic, Stored};
pub(crate) use topics::admin::{Admin, Broker, Settings, Topic};
pub(crate) use topics::topic_creation::{TopicCreation, TopicGroup, TopicPatterns};
pub(crate) use topics::topic_maker::{Made, check_topic, make_topic};
pub(crate) use topics::topic_probe::{TopicAnswer, TopicProbe};
pub(crate) use transactional::open_transactions::OpenTransactions;
pub(crate) use transactional::transaction_fault::TransactionFault;
pub(crate) use transactional::transactional_sender::{Ended, TransactionalSender};
