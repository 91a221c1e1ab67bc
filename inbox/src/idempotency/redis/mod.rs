//! Records in Redis: a hash for each key, and a script for each call.

mod store;

pub use store::RedisStore;
