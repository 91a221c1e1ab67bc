//! Kafka's transactions.

pub(super) mod open_transactions;
pub(super) mod transaction_fault;
pub(super) mod transaction_reports;
pub(super) mod transactional_sender;
pub(super) mod transactions;
