//! Statements of a migration from a poller.

use postgres_protocol::escape::{escape_identifier, escape_literal};

use super::phase::Phase;
use super::site::{COUNT_TRIGGER, Site, TRIGGER};
use crate::cli::shell::steps::Step;
use crate::postgres::HandoverPhase;

/// Returns the steps of `start` up to the flip, in their order.
pub(super) fn all(site: &Site) -> Vec<Step> {
    vec![publication(site), slot(site), flip(site)]
}

/// Returns the step that creates the publication of the rows that have the mark when they are inserted. Later changes
/// by the poller are UPDATEs, which it does not publish.
pub(super) fn publication(site: &Site) -> Step {
    let name = &site.options.publication.name;
    let quoted = escape_identifier(name);
    // Without it, the filters of the partitions apply, and they have none.
    let via_root = if site.table.partitioned { ", publish_via_partition_root = true" } else { "" };
    let sql = format!(
        "CREATE PUBLICATION {quoted} FOR TABLE {} WHERE ({})\n  WITH (publish = 'insert'{via_root});\n{}",
        site.table.quoted(),
        site.mark.is_sent(),
        site.note(HandoverPhase::Draining)
    );
    let what = format!("publication {name:?} of the rows that have the mark when they are inserted");
    Step::new(what, sql, format!("DROP PUBLICATION {quoted}")).unless(site.phase() != Phase::NotBegun)
}

/// Returns the step that creates the slot. It precedes the flip: transactions that commit from here on are retained.
pub(super) fn slot(site: &Site) -> Step {
    let name = escape_literal(site.slot_name());
    let failover = if site.options.slot.failover { ", failover => true" } else { "" };
    Step::new(
        format!("replication slot {:?}, from which outboxd will read", site.slot_name()),
        format!("SELECT pg_create_logical_replication_slot({name}, 'pgoutput'{failover})"),
        format!("SELECT pg_drop_replication_slot({name})"),
    )
    .unless(site.slot.is_some())
}

/// Returns the step from which on new rows are outboxd's. Its lock waits for every transaction that has written to the
/// table, so each row belongs to exactly one program.
pub(super) fn flip(site: &Site) -> Step {
    let (table, function, counter) = (site.table.quoted(), function(site), counter(site));
    let set: Vec<_> = site.set_columns.iter().map(|column| escape_identifier(column)).collect();
    let sql = format!(
        "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS\n  $$BEGIN NEW.{} := {}; RETURN NEW; END$$;\n\
         CREATE TRIGGER {TRIGGER} BEFORE INSERT ON {table}\n  FOR EACH ROW EXECUTE FUNCTION {function}();\n\
         CREATE SEQUENCE IF NOT EXISTS {counter}; GRANT USAGE ON SEQUENCE {counter} TO PUBLIC;\n\
         CREATE OR REPLACE FUNCTION {counter}() RETURNS trigger LANGUAGE plpgsql AS\n  \
         $$BEGIN PERFORM pg_catalog.nextval(TG_ARGV[0]::pg_catalog.regclass); RETURN NULL; END$$;\n\
         CREATE TRIGGER {COUNT_TRIGGER} AFTER UPDATE OF {} ON {table}\n  FOR EACH ROW WHEN ({}) EXECUTE FUNCTION {counter}({})",
        escape_identifier(site.mark.column()),
        site.mark.value(),
        set.join(", "),
        site.mark.was_sent(),
        escape_literal(&counter).trim_start()
    );
    Step::new(
        format!(
            "trigger that gives new rows of {} the mark: they are outboxd's; another counts those that a program marks all the same",
            site.name()
        ),
        sql,
        drop_trigger(site),
    )
    .unless(site.trigger.is_some() || matches!(site.phase(), Phase::Finished | Phase::Returned))
}

/// Returns the step that records that the poller has no rows of its own left.
pub(super) fn drained(site: &Site) -> Step {
    let (note, undo) = (site.note(HandoverPhase::Drained), site.note(HandoverPhase::Draining));
    // The counter restarts: a row that two of several pollers have marked so far proves nothing.
    let counter = counter(site);
    let note = format!("ALTER SEQUENCE IF EXISTS {counter} RESTART;\n{note}");
    Step::new("note on the publication that the poller has sent its own rows", note, undo)
}

/// Returns the step from which on all rows are published. While the trigger exists, its rows have the mark, and the
/// step can be undone.
pub(super) fn widen(site: &Site) -> Step {
    let name = &site.options.publication.name;
    let table = format!("ALTER PUBLICATION {} SET TABLE {}", escape_identifier(name), site.table.quoted());
    Step::new(
        format!("publication {name:?} of all rows"),
        format!("{table};\n{}", site.note(HandoverPhase::Finishing)),
        format!("{table} WHERE ({}); {}", site.mark.is_sent(), site.note(HandoverPhase::Drained)),
    )
    .unless(site.phase() == Phase::Finishing)
}

/// Returns the step from which on new rows have no mark.
pub(super) fn untrigger(site: &Site) -> Step {
    Step::for_good(
        format!("no trigger gives new rows of {} the mark any more", site.name()),
        drop_trigger(site),
    )
}

/// Returns the step that blocks inserts, so that outboxd can send its last row.
pub(super) fn hold(site: &Site) -> Step {
    Step::new(
        format!("inserts into {} wait until outboxd has sent its last row", site.name()),
        format!("BEGIN;\nLOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", site.table.quoted()),
        "ROLLBACK",
    )
}

/// Returns the step that determines the position in the WAL. The commit of its transaction is written behind it, so that the slot can
/// advance past it. It has no change and no message: other slots of the database have nothing to send.
pub(super) fn place(site: &Site) -> Step {
    Step::for_good(
        format!("in another session: a place in the WAL that slot {:?} is to reach", site.slot_name()),
        "SELECT pg_current_wal_insert_lsn()::text WHERE txid_current() > 0",
    )
}

/// Returns the step from which on new rows are the poller's, and inserts continue.
pub(super) fn hand_back(site: &Site) -> Step {
    let trigger = |does: &str| match site.trigger {
        Some(_) => format!("ALTER TABLE {} {does} TRIGGER {TRIGGER};\n", site.table.quoted()),
        None => String::new(),
    };
    Step::new(
        format!("new rows of {} are the poller's", site.name()),
        format!("{}{};\nCOMMIT", trigger("DISABLE"), site.note(HandoverPhase::Returned)),
        format!("{}{}", trigger("ENABLE").replace('\n', " "), site.note(HandoverPhase::Drained)),
    )
}

pub(super) fn drop_slot(site: &Site) -> Step {
    let name = site.slot_name();
    let text = format!("SELECT pg_drop_replication_slot({})", escape_literal(name).trim_start());
    Step::for_good(format!("replication slot {name:?} is dropped"), text).unless(site.slot.is_none())
}

pub(super) fn drop_publication(site: &Site) -> Step {
    let name = &site.options.publication.name;
    let text = format!("DROP PUBLICATION {}", escape_identifier(name));
    Step::for_good(format!("publication {name:?} is dropped"), text)
}

/// Returns the statements that drop the triggers, their functions and the counter.
fn drop_trigger(site: &Site) -> String {
    let (table, counter) = (site.table.quoted(), counter(site));
    format!(
        "DROP TRIGGER IF EXISTS {TRIGGER} ON {table}; DROP FUNCTION IF EXISTS {}(); \
         DROP TRIGGER IF EXISTS {COUNT_TRIGGER} ON {table}; DROP FUNCTION IF EXISTS {counter}(); DROP SEQUENCE IF EXISTS {counter}",
        function(site)
    )
}

/// Returns the name of the counter of outboxd's rows that a program has marked, and of the function that advances it.
pub(super) fn counter(site: &Site) -> String {
    format!("{}.outboxd_migrate_{}_marked", escape_identifier(&site.table.schema), site.table.oid.0)
}

/// Returns the name of the trigger's function, in the schema of the table. With the object id no long name must be cut.
fn function(site: &Site) -> String {
    format!("{}.outboxd_migrate_{}", escape_identifier(&site.table.schema), site.table.oid.0)
}
