//! Foundation of outboxd's tests.
#![allow(dead_code, reason = "this binary uses a part")]

#[path = "../../../../tests/support/cache.rs"]
pub(crate) mod cache;
#[path = "../../../../tests/support/kafka.rs"]
pub(crate) mod kafka;
#[path = "../../../../tests/support/kafka_home.rs"]
mod kafka_home;
#[path = "../../../../tests/support/postgres.rs"]
pub(crate) mod postgres;
#[path = "../../../../tests/support/programs.rs"]
pub(crate) mod programs;
#[path = "../../../../tests/support/proxy.rs"]
pub(crate) mod proxy;
#[path = "../../../../tests/support/proxy_messages.rs"]
mod proxy_messages;
#[path = "../../../../tests/support/raw_record.rs"]
pub(crate) mod raw_record;
#[path = "../../../../tests/support/record.rs"]
pub(crate) mod record;
#[path = "../../../../tests/support/wait.rs"]
pub(crate) mod wait;
#[path = "../../../../tests/support/watcher.rs"]
pub(crate) mod watcher;
