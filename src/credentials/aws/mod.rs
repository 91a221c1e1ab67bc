//! Tokens of AWS' IAM: a signed URL in the place of a password, valid for 15 minutes.
//!
//! ```text
//!   environment · web identity · profile · container · instance ──▶ Keys ──▶ role? ──▶ signature::presign ──▶ token
//! ```
//!
//! Signing needs no network. Keys that expire are asked for again shortly before.

mod chain;
mod iam_token;
mod keys;
mod profile;
mod role;
mod signature;

pub(crate) use chain::Environment;
pub(crate) use iam_token::{IamToken, TokenError, region_of_kafka, region_of_rds};
pub(crate) use role::Role;
