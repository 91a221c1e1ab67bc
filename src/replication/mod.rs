//! The streaming replication sub-protocol: XLogData, keepalives, standby status updates, and its commands.
