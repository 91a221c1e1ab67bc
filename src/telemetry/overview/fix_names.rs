//! A fix in JSON: as `fix`, and for one release also as `cure`, its name before. Readers accept either, and both.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize)]
struct Written<'f> {
    fix: Option<&'f str>,
    cure: Option<&'f str>,
}

#[derive(Deserialize)]
struct Read {
    fix: Option<String>,
    cure: Option<String>,
}

/// Writes both names; the field is flattened into its object.
pub(crate) fn serialize<S: Serializer>(fix: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let fix = fix.as_deref();
    Written { fix, cure: fix }.serialize(serializer)
}

/// Reads the fix of an instance of this version or of an earlier one.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let Read { fix, cure } = Read::deserialize(deserializer)?;
    Ok(fix.or(cure))
}
