//! Fixes for errors of the server, by SQLSTATE.

use crate::wire::ServerError;

/// Returns the fix for a login that the server refused.
pub(super) fn login_fix(user: &str, database: &str, error: &ServerError) -> String {
    match error.code.as_str() {
        "28P01" => format!("set database.password to the password of role {user:?}"),
        "3D000" => {
            format!("set database.dbname to a database that exists, or: CREATE DATABASE \"{database}\";")
        }
        "42501" => format!("as a superuser: ALTER ROLE \"{user}\" REPLICATION;"),
        "28000" => format!(
            "if there is no such role: CREATE ROLE \"{user}\" LOGIN REPLICATION;\nif there is, let it in: a line in \
             pg_hba.conf such as\n  host  {database}  {user}  samenet  \
             scram-sha-256\nthen SELECT pg_reload_conf(); a line for database \"replication\" is not enough \
             for logical replication"
        ),
        "53300" => "raise max_connections or max_wal_senders, or end sessions that are not needed".to_owned(),
        // PgBouncer: "unsupported startup parameter".
        "08P01" => "the other side is not PostgreSQL, or it is a pooler without replication: \
                    database.hostname and database.port must lead to the server itself"
            .to_owned(),
        _ => "see the server's log for the reason".to_owned(),
    }
}

/// Returns the table that the role may not use, as the server names it, untranslated: without its schema.
pub(super) fn forbidden_table(error: &ServerError) -> Option<&str> {
    error.message.strip_prefix("permission denied for table ").filter(|_| error.code == "42501")
}

/// Returns the fix for a statement that the server refused with this code.
pub(super) fn sqlstate_fix(code: &str) -> Option<String> {
    Some(match code {
        "42501" => "grant the role what it lacks; sql/role.sql lists all that outboxd needs".to_owned(),
 "53300" => "raise max_wal_senders or max_connections, or end sessions that are not needed".to_owned(),
        // A query on a standby that needs rows which the primary has removed.
        "40001" => "on the standby: ALTER SYSTEM SET hot_standby_feedback = on; or a longer max_standby_streaming_delay; \
                    then SELECT pg_reload_conf();"
            .to_owned(),
        "25006" => "it writes, which a standby refuses, and a session whose default_transaction_read_only is on too \
                    (to see where it is set: SELECT * FROM pg_db_role_setting;)"
            .to_owned(),
        "22P05" => {
            "a row's text has a character that UTF-8 lacks, or none of server_encoding. Correct the row; to continue without \
             it, advance the slot past its transaction: docs/operations.md#exit-6-a-row-cannot-be-sent"
                .to_owned()
        }
        "22021" => {
            "a row's text is not UTF-8, and the server cannot convert it: with server_encoding SQL_ASCII it does not know what the \
             bytes are. Correct the writer; to continue without the row, advance the slot past its \
             transaction: docs/operations.md#exit-6-a-row-cannot-be-sent"
                .to_owned()
        }
        "53400" => {
            "raise max_replication_slots (the server must restart), or drop an unused slot: SELECT \
             slot_name, database, active FROM pg_replication_slots;"
                .to_owned()
        }
        _ => return None,
    })
}
