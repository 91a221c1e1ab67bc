//! Calls of librdkafka that `rdkafka` does not offer.

pub mod headers;
pub mod login;
