//! Report of `outboxd init`.

use serde_json::{Map, Value, json};

use super::found;
use super::given::Given;
use super::outbox::{Outbox, Poller};
use super::plan::{Plan, SlotBefore, What};
use super::tables::Tables;
use crate::cli::prove::check::{as_object, told};
use crate::cli::shell::steps;
use crate::cli::shell::text::{clean, columns};
use crate::kafka::tool_lines;
use crate::postgres::SnapshotMode;

/// The shape of Spring Modulith's event publications.
const MODULITH: &str = "modulith";

/// Returns the report of existing and missing objects, as text.
pub(super) fn lines(plan: &Plan, given: &Given, into: &str) -> String {
    let mut text = match &plan.what {
        What::Outbox(outbox) => of_outbox(plan, outbox) + &warnings(plan, outbox, into),
        What::Tables(tables) => of_tables(plan, tables),
    };
    text.push_str("in PostgreSQL\n");
    text.push_str(&steps::shown(&plan.steps));
    if !plan.topics.missing.is_empty() || !plan.topics.there.is_empty() {
        text.push_str("in Kafka\n");
        plan.topics
            .there
            .iter()
            .for_each(|topic| text.push_str(&format!("  already there: topic {topic}\n")));
        for topic in &plan.topics.missing {
            text.push_str(&format!(
                "  topic {topic}\n    undo: {}\n",
                tool_lines::topics(&format!("--delete --topic {topic}"))
            ));
        }
    }
    match (&plan.written, &given.file) {
        (Some(settings), _) => {
            text.push_str(&format!("in {into}\n"));
            settings
                .iter()
                .for_each(|(key, value)| text.push_str(&format!("  {}={}\n", clean(key), clean(value))));
        }
        (None, Some(file)) => {
            text.push_str(&format!("already there: {}\n", clean(&file.display().to_string())));
        }
        (None, None) => {}
    }
    text
}

fn of_outbox(plan: &Plan, outbox: &Outbox) -> String {
    let name = clean(&outbox.name());
    let Some(shape) = &outbox.shape else { return format!("outbox {name}\n") };
    let is = if shape.preset == "columns" { String::new() } else { format!(", known as {}", shape.preset) };
    let event_type = shape.event_type.iter().filter(|column| **column != shape.route);
    let rows: Vec<_> = [
        [format!("  {}", shape.id), "id, header of the record".to_owned()],
        [format!("  {}", shape.key), "key".to_owned()],
        [format!("  {}", shape.route), format!("topic {}", topic(plan, outbox).unwrap_or_default())],
        [format!("  {}", shape.payload), "value".to_owned()],
    ]
    .into_iter()
    .chain(event_type.map(|column| [format!("  {column}"), "header".to_owned()]))
    .map(|row| row.map(|cell| clean(&cell)))
    .collect();
    format!("outbox {name}{is}\n{}", columns(&rows))
}

fn of_tables(plan: &Plan, tables: &Tables) -> String {
    let names = tables.all.iter().map(|table| format!("  {}\n", clean(&found::name(table))));
    let mut text = format!("each change of\n{}", names.collect::<String>());
    text.push_str(&told(&tables.warnings));
    text.push_str(&rows(plan));
    if tables.is_routed {
        text.push_str("! transforms route records to topics that are not known in advance: the first record of each topic creates it\n");
    }
    text
}

/// Returns the line about the treatment of existing rows.
fn rows(plan: &Plan) -> String {
    let what = match (plan.parts.postgres.snapshot.mode, plan.slot) {
        // With a configuration and its slot there has been a start.
        (_, SlotBefore::There) if plan.written.is_none() => return String::new(),
        _ if plan.rows == 0 => return String::new(),
        (SnapshotMode::NoData, _) => {
            "not sent (snapshot.mode=no_data): only what is written from the first start on".to_owned()
        }
        (SnapshotMode::Always, _) => "sent at each start (snapshot.mode=always)".to_owned(),
        (_, SlotBefore::Absent | SlotBefore::Made) => {
            "sent at the first start; snapshot.mode=no_data sends no existing rows".to_owned()
        }
        (_, SlotBefore::There) => format!(
            "sent at the first start, unless outboxd has a position of replication slot {}; snapshot.mode=no_data sends no existing rows",
            plan.parts.postgres.slot.name
        ),
    };
    let verb = if plan.rows == 1 { "is" } else { "are" };
    format!("! {} {verb} {what}\n", counted(plan.rows))
}

/// Returns the warnings that the user should read before the confirmation.
fn warnings(plan: &Plan, outbox: &Outbox, into: &str) -> String {
    let mut text = String::new();
    if let Some(shape) = &outbox.shape
        && shape.key == shape.id
    {
        text.push_str(
            "! no column has the aggregate of an event: its id becomes the key, and events have no order\n",
        );
    }
    if outbox.shape.as_ref().is_some_and(|shape| shape.preset == MODULITH) {
        text.push_str(
            "! Spring Modulith writes a row for each listener: an event that several listen to is on its topic as often\n",
        );
    }
    if let Some(Poller { mark, unmarked, others }) = &outbox.poller {
        let looks = match mark.column() {
            Some(column) => format!(
                "column {} looks like the mark of a program that polls this table{}",
                clean(column),
                or_others(others)
            ),
            None => "a program polls this table and deletes what it has sent".to_owned(),
        };
        text.push_str(&format!("! {looks}; {}\n", clean(&unmarked.told())));
        text.push_str("  no publication is made: beside that program every event would be sent twice. ");
        text.push_str(&match mark.migrate_command(into) {
            Some(command) => format!(
                "To move over without a gap:\n  {command}\n  if no program polls it any more: --no-poller\n"
            ),
            None => {
                "Stop that program, and run init again with\n  --no-poller: the first start sends the rows \
                     that are left\n"
                    .to_owned()
            }
        });
    } else {
        text.push_str(&rows(plan));
    }
    text
}

/// Names the other columns that may be the mark: the program determines which one it reads by.
fn or_others(others: &[String]) -> String {
    if others.is_empty() {
        return String::new();
    }
    format!(" (or {}: it is the one in the condition of its SELECT)", clean(&others.join(", ")))
}

fn counted(rows: i64) -> String {
    match rows {
        1 => "1 row that is there".to_owned(),
        100_001.. => "more than 100000 rows that are there".to_owned(),
        rows => format!("{rows} rows that are there"),
    }
}

fn topic(plan: &Plan, outbox: &Outbox) -> Option<String> {
    let settings = plan.written.iter().flatten();
    let said = settings.into_iter().find(|(key, _)| key.ends_with(".route.topic.replacement"));
    let only = plan.topics.only.clone();
    let known = || outbox.shape.as_ref().map(|shape| shape.topic().to_owned());
    said.map(|(_, topic)| topic.clone()).or(only).or_else(known)
}

/// Returns the report for a script.
pub(super) fn object(plan: &Plan, done: bool) -> Value {
    let configuration: Option<Map<String, Value>> = plan
        .written
        .as_ref()
        .map(|all| all.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect());
    let mut object = match &plan.what {
        What::Outbox(outbox) => json!({
            "table": outbox.name(),
            "preset": outbox.shape.as_ref().map(|shape| &shape.preset),
            "poller": outbox.poller.as_ref().map(|Poller { mark, unmarked, others }| {
                json!({ "column": mark.column(), "others": others, "told": unmarked.told() })
            }),
        }),
        What::Tables(tables) => json!({
            "tables": tables.all.iter().map(found::name).collect::<Vec<_>>(),
            "warnings": tables.warnings.iter().map(as_object).collect::<Vec<_>>(),
        }),
    };
    let rest = json!({
        "rows": plan.rows,
        "steps": steps::object(&plan.steps),
        "topics": { "there": plan.topics.there, "missing": plan.topics.missing },
        "configuration": configuration,
        "done": done,
    });
    if let (Some(object), Value::Object(rest)) = (object.as_object_mut(), rest) {
        object.extend(rest);
    }
    object
}
