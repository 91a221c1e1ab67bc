//! A `tower` layer for the header `Idempotency-Key`, as specified by draft-ietf-httpapi-idempotency-key-header.
//!
//! | the request | its answer |
//! | --- | --- |
//! | has no key, or a malformed one | 400 |
//! | is repeated, and the first one is done | the first one's answer: status, headers, body, and `Idempotent-Replayed: true` |
//! | is repeated, and the first one is in progress | 409 with `Retry-After`: the remaining seconds of its lease |
//! | has a key that was used for another request | 422 |
//! | is longer than the limit | 413 |
//! | cannot be checked, because the store is unavailable | 503 with `Retry-After` |
//!
//! Only `POST` and `PATCH` are checked: the other methods are idempotent by themselves. Place the layer inside of authentication: a repeat
//! gets the first one's answer without a call of the handler.

mod body;
mod detached;
mod header;
mod layer;
mod problem;
mod service;
#[cfg(test)]
mod tests;

pub use header::MalformedKey;
pub use layer::{Caller, IdempotencyLayer, Transient};
pub use service::{IDEMPOTENT_REPLAYED, IdempotencyService, Running};
