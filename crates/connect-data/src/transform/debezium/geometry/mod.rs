//! Transforms of geometries, which are structs with well-known binary.

mod geometries;
pub(in crate::transform) mod geometry_format;
pub(in crate::transform) mod swap_coordinates;
mod wkb;
