//! The fields of a record: the key or the value of it, paths to fields, structs with changed fields and their schemas.

pub(super) mod field_path;
pub(super) mod schemas;
pub(super) mod side;
pub(super) mod structs;
