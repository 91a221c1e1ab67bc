//! The relay: the one loop that knows both sides.

mod options;

pub use options::Options;
