//! `outboxd signal snapshot | stop | pause | resume | log`: a request to a running relay.
//!
//! The signal goes into the signalling table, or into the WAL as the channels `file` and `kafka` write it. The relay
//! has read it when it confirms a position behind it.

mod args;
mod channel;
mod error;

pub(in crate::cli) use args::SignalArgs;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use args::{SendArgs, SignalCommand};
use channel::Channel;
use error::SignalError;

use crate::cli::run::assemble::assemble;
use crate::cli::shell::sql::open;
use crate::cli::{asynchronously, print, print_message};
use crate::error::Exit;
use crate::postgres::{SlotName, Sql};
use crate::relay::{Capture, RelayParts};
use crate::signal::expand;
use crate::wal::Lsn;

/// `application_name` of the command's session in `pg_stat_activity`.
const APPLICATION: &str = "outboxd signal";

/// Pause between two queries for the slot's position.
const PAUSE: Duration = Duration::from_millis(200);

/// Outcome of the wait for the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The relay has confirmed a position behind the signal.
    Read,
    /// A relay is connected, and has not confirmed it in time.
    Pending,
    /// No relay reads the slot.
    NoRelay,
}

/// Runs `outboxd signal`.
pub(in crate::cli) fn signal(args: &SignalArgs) -> Exit {
    asynchronously(send(&args.command)).unwrap_or_else(|exit| exit)
}

async fn send(command: &SignalCommand) -> Result<Exit, SignalError> {
    let args = command.send();
    let parts = assemble(&args.config)?.parts;
    let sql = open(&parts.postgres.server, APPLICATION).await?;
    let channel = Channel::find(&parts, &sql).await?;
    let tables = matching(command.tables(), &parts, &sql).await?;
    let id = args.id.clone().unwrap_or_else(|| format!("outboxd-{:016x}", fastrand::u64(..)));
    let (kind, data) = (command.kind(), data(command, &tables)?);
    let mut shown = json!({
        "id": id, "type": kind, "data": data, "tables": tables, "channel": channel.name(), "lsn": null, "read": false,
    });
    if args.dry_run {
        report(args, &shown, &format!("would write {kind} {id}{}", named(&tables)));
        return Ok(Exit::Ok);
    }
    channel.write(&sql, &id, kind, data.as_ref()).await?;
    let lsn = end_of_wal(&sql).await?;
    print_message(&format!("wrote {kind} {id} to {}{}", channel.name(), named(&tables)));
    let reading = wait(&sql, &parts.postgres.slot.name, lsn, args.wait).await?;
    if let Some(members) = shown.as_object_mut() {
        members.insert("lsn".to_owned(), lsn.to_string().into());
        members.insert("read".to_owned(), (reading == Reading::Read).into());
    }
    let slot = &parts.postgres.slot.name;
    report(args, &shown, &outcome_text(reading, slot, args.wait));
    Ok(if reading == Reading::Read || args.wait.is_zero() { Exit::Ok } else { Exit::Failed })
}

/// Expands names and expressions to captured tables; each must match one.
async fn matching(names: &[String], parts: &RelayParts, sql: &Sql) -> Result<Vec<String>, SignalError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let capture = Capture::find(sql, parts).await?;
    let captured: Vec<String> =
        capture.tables.iter().map(|table| format!("{}.{}", table.schema, table.name)).collect();
    let tables = expand(names, &captured);
    match tables.iter().find(|table| !captured.contains(table)) {
        Some(name) => Err(SignalError::NoTable { name: name.clone(), captured }),
        None => Ok(tables),
    }
}

/// Returns the data of the signal; the tables are named, so that a later table of a similar name is not meant.
fn data(command: &SignalCommand, tables: &[String]) -> Result<Option<Value>, SignalError> {
    Ok(match command {
        SignalCommand::Snapshot(args) => {
            let kind = if args.blocking { "blocking" } else { "incremental" };
            let mut data = json!({ "data-collections": tables, "type": kind });
            if let (Some(filter), Some(members)) = (&args.filter, data.as_object_mut()) {
                let [table] = tables else { return Err(SignalError::Filter(tables.len())) };
                let condition = json!([{ "data-collection": table, "filter": filter }]);
                members.insert("additional-conditions".to_owned(), condition);
            }
            Some(data)
        }
        SignalCommand::Stop(_) if tables.is_empty() => None,
        SignalCommand::Stop(_) => Some(json!({ "data-collections": tables })),
        SignalCommand::Log(args) => Some(json!({ "message": args.message })),
        SignalCommand::Pause(_) | SignalCommand::Resume(_) => None,
    })
}

/// Returns a position behind everything that this session has committed.
async fn end_of_wal(sql: &Sql) -> Result<Lsn, SignalError> {
    let texts = sql.texts("reading the end of the WAL", "SELECT pg_current_wal_insert_lsn()").await?;
    let text = texts.and_then(|row| row.into_iter().next().flatten());
    text.and_then(|text| text.parse().ok()).ok_or(SignalError::NoPosition)
}

async fn wait(sql: &Sql, slot: &SlotName, lsn: Lsn, time: Duration) -> Result<Reading, SignalError> {
    let deadline = Instant::now() + time;
    loop {
        let facts = sql.slot(slot).await?;
        let is_read = facts.as_ref().and_then(|facts| facts.confirmed_flush_lsn).is_some_and(|at| at >= lsn);
        if is_read {
            return Ok(Reading::Read);
        }
        if Instant::now() >= deadline {
            let has_reader = facts.is_some_and(|facts| facts.active_pid.is_some());
            return Ok(if has_reader { Reading::Pending } else { Reading::NoRelay });
        }
        sleep(PAUSE).await;
    }
}

fn outcome_text(reading: Reading, slot: &SlotName, time: Duration) -> String {
    match reading {
        Reading::Read => "the relay has read it".to_owned(),
        Reading::Pending if time.is_zero() => "the relay reads it as soon as the stream brings it".to_owned(),
        Reading::Pending => format!(
            "the relay has not confirmed it within {}: it lags behind, or reads a blocking snapshot\n  to fix: outboxd \
             status -c FILE shows the lag",
            humantime::format_duration(time)
        ),
        Reading::NoRelay => format!(
            "no relay reads replication slot {slot}: the signal waits in the WAL\n  to fix: outboxd run -c FILE"
        ),
    }
}

fn named(tables: &[String]) -> String {
    if tables.is_empty() { String::new() } else { format!(" for {}", tables.join(", ")) }
}

/// Prints the outcome: text for a person, or the object.
fn report(args: &SendArgs, shown: &Value, text: &str) {
    match args.json {
        true => print(&format!("{shown}\n")),
        false => print(&format!("{}\n", args.config.in_commands(text))),
    }
}
