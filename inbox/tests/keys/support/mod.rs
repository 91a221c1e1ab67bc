//! Foundation of the tests of records, leases and HTTP.

pub(crate) mod dynamodb;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod service;
pub(crate) mod subject;
