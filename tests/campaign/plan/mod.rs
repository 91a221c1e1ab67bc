//! Draws of a seed, and the pairs that were drawn.

pub(crate) mod cover;
pub(crate) mod draw;
pub(crate) mod feature;
pub(crate) mod matrix;
