//! The client that reads the slot.

/// Holder of the slot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("replication slot {slot:?} is held by process {pid} ({application}{client}){}", .other.as_deref().unwrap_or_default())]
pub struct SlotHolder {
    /// `slot.name`.
    pub slot: String,
    /// The walsender's process id.
    pub pid: i32,
    /// Its `application_name`.
    pub application: String,
    /// ` at ADDRESS`, when it is known.
    pub client: String,
    /// Differences, if it is an outboxd of another service.
    pub other: Option<String>,
    /// True if the slot exists; otherwise its reader sends the snapshot that comes before it.
    pub has_slot: bool,
}
