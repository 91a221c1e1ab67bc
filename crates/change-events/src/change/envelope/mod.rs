//! The parts of an envelope that do not depend on the table: the blocks `source` and `transaction`, and the headers.

pub(super) mod headers;
pub(super) mod shape;
pub(super) mod source;
pub(super) mod transaction;
