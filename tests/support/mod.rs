//! Foundation of the tests: real servers, the real binary, and waiting for conditions. Everything blocks; a test is a
//! plain function.
//!
//! ```ignore
//! let db = Outbox::create(postgres18());
//! let relay = Relay::start(&db.config(kafka()));
//! db.insert(&[Event::new("order", "1", "OrderCreated", "{}")]);
//! let records = kafka().read(&db.topic("order"), 1);
//! ```
//!
//! The shared servers start on first use and end with the test process; a test that stops or kills one starts its own.
//! A server that cannot be started is a failure, never a skip.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod acl;
pub(crate) mod backlog;
pub(crate) mod backup;
pub(crate) mod broker_proxy;
pub(crate) mod browser;
pub(crate) mod cache;
pub(crate) mod certificate;
pub(crate) mod collector;
pub(crate) mod foreign;
pub(crate) mod hooks;
pub(crate) mod http;
pub(crate) mod in_process;
pub(crate) mod kafka;
mod kafka_home;
pub(crate) mod mock_kafka;
pub(crate) mod outbox;
pub(crate) mod pg_proxy;
pub(crate) mod postgres;
pub(crate) mod programs;
pub(crate) mod prometheus;
pub(crate) mod proxy;
mod proxy_messages;
pub(crate) mod raw_record;
pub(crate) mod record;
pub(crate) mod recording;
pub(crate) mod registry;
mod registry_home;
pub(crate) mod relay;
pub(crate) mod secure_kafka;
pub(crate) mod session;
pub(crate) mod signed_tokens;
pub(crate) mod standby;
pub(crate) mod terminal;
pub(crate) mod token_endpoint;
pub(crate) mod vault;
pub(crate) mod wait;
pub(crate) mod watcher;
pub(crate) mod withheld;
