//! A `tower` layer for the header `Idempotency-Key`, as draft-ietf-httpapi-idempotency-key-header has it.
//!
//! | the request | its answer |
//! | --- | --- |
//! | has no key, or a malformed one | 400 |
//! | comes again, and the first one is done | the first one's answer: status, headers, body, and `Idempotent-Replayed: true` |
//! | comes again, and the first one is at work | 409 with `Retry-After`: the seconds that are left of its lease |
//! | has a key that was used for another request | 422 |
//! | is longer than the limit | 413 |
//! | cannot be looked up, because the store is away | 503 with `Retry-After` |
//!
//! Only `POST` and `PATCH` are looked at: the other methods are idempotent by themselves. The layer stands inside of
//! authentication: a repeat gets the first one's answer without the handler being asked.

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
