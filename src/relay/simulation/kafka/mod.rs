//! The model of Kafka: brokers, transaction coordinator, the topic of positions, and librdkafka between them and the relay.

pub(super) mod broker;
pub(super) mod client;
pub(super) mod coordinator;
pub(super) mod pipe;
pub(super) mod positions;
