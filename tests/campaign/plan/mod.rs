//! What a seed draws, and which pairs were drawn.

pub(crate) mod draw;
pub(crate) mod feature;
pub(crate) mod matrix;
