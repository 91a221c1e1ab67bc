//! outboxd against real servers: PostgreSQL 15 and 18, Apache Kafka.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking, and shows what it saw"
)]

mod alerts;
mod altered_tables;
mod avro;
mod blocking_snapshots;
mod broker_errors;
mod broker_faults;
mod cancelled;
mod changes;
mod changes_avro;
mod changes_dead_letters;
mod changes_messages;
mod changes_options;
mod changes_router;
mod changes_snapshots;
mod check;
mod chunk_order;
mod cleanup;
mod cleanup_columns;
mod cleanup_courtesy;
mod cleanup_parquet;
mod cleanup_partitions;
mod commands;
mod conformance;
mod control;
mod crashes;
mod credentials;
mod dead_letters;
mod dead_letters_refused;
mod debug_bundle;
mod demo;
mod dlq;
mod event_positions;
mod exactly_once;
mod exactly_once_faults;
mod existing_slots;
mod explain;
mod explain_ids;
mod explain_tables;
mod failover;
mod first_minutes;
mod foreign_headers;
mod heartbeats;
mod impostors;
mod inbox_command;
mod init;
mod init_tables;
mod injection;
mod json_schemas;
mod kafka_logins;
mod kafka_rotation;
mod kafka_tokens;
mod least_privilege;
mod logins;
mod look_alikes;
mod messages;
mod migrate;
mod mistakes;
mod moves;
mod new_tables;
mod notifications;
mod offsets;
mod partman;
mod payloads;
mod positions;
mod postgres_19;
mod postgres_faults;
mod printed_commands;
mod printed_fixes;
mod printed_lines;
mod printed_statements;
mod process_limits;
mod protobuf;
mod publications;
mod refused_rows;
mod refused_topics;
mod restored;
mod rewritten_meanwhile;
mod rewritten_tables;
mod scale_out;
mod secrets;
mod server_limits;
mod server_settings;
mod servers;
mod signal_channels;
mod signal_command;
mod signals;
mod slot_guard;
mod slot_holders;
mod slot_recovery;
mod slots;
mod snapshots;
mod snapshots_again;
mod sources;
mod standby;
mod status_page;
mod status_port;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod tail;
mod tail_dedupe;
mod timescaledb;
mod topics;
mod topology;
mod tracing;
mod transactions;
mod unended_snapshots;
mod unpublished_meanwhile;
mod unseen_rows;
mod unusual_rows;
mod unwritten;
mod upgrades;
mod verify;
mod wire_faults;
