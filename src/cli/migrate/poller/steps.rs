use postgres_protocol::escape::{escape_identifier, escape_literal};

use super::phase::Phase;
use super::site::{Site, TRIGGER};
use crate::cli::steps::Step;
use crate::postgres::HandoverPhase;

/// What `start` does, in its order.
pub(super) fn all(site: &Site) -> Vec<Step> {
    vec![publication(site), slot(site), flip(site)]
}

/// The publication has the rows that have the mark when they are inserted. What the poller does to its rows later is an UPDATE.
pub(super) fn publication(site: &Site) -> Step {
    let name = &site.options.publication.name;
    let quoted = escape_identifier(name);
    // Without it, the filters of the partitions count, and they have none.
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

/// Before the flip: what commits from here on is kept.
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

/// From here on new rows are outboxd's. The lock waits for every transaction that has written to the table, so each row is decided
/// once.
pub(super) fn flip(site: &Site) -> Step {
    let (table, function) = (site.table.quoted(), function(site));
    let sql = format!(
        "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS\n  $$BEGIN NEW.{} := {}; RETURN NEW; END$$;\n\
         CREATE TRIGGER {TRIGGER} BEFORE INSERT ON {table}\n  FOR EACH ROW EXECUTE FUNCTION {function}()",
        escape_identifier(site.mark.column()),
        site.mark.value()
    );
    Step::new(
        format!("trigger that gives new rows of {} the mark: they are outboxd's", site.name()),
        sql,
        drop_trigger(site),
    )
    .unless(site.trigger.is_some() || matches!(site.phase(), Phase::Finished | Phase::Returned))
}

/// What `start` writes down when the poller has none left.
pub(super) fn drained(site: &Site) -> Step {
    let (note, undo) = (site.note(HandoverPhase::Drained), site.note(HandoverPhase::Draining));
    Step::new("note on the publication that the poller has sent its own rows", note, undo)
}

/// All rows are published from here on. As long as the trigger is there, its rows have the mark, and it can be taken back.
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

/// New rows have no mark from here on.
pub(super) fn untrigger(site: &Site) -> Step {
    Step::for_good(
        format!("no trigger gives new rows of {} the mark any more", site.name()),
        drop_trigger(site),
    )
}

/// Inserts wait, and so outboxd comes to an end.
pub(super) fn hold(site: &Site) -> Step {
    Step::new(
        format!("inserts into {} wait until outboxd has sent its last row", site.name()),
        format!("BEGIN;\nLOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", site.table.quoted()),
        "ROLLBACK",
    )
}

/// What follows that place is flushed, so that the slot can pass it.
pub(super) fn place(site: &Site) -> Step {
    Step::for_good(
        format!("in another session: a place in the WAL that slot {:?} is to reach", site.slot_name()),
        "SELECT pg_logical_emit_message(true, 'outboxd', 'migrate')::text",
    )
}

/// New rows are the poller's from here on, and inserts go on.
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

/// What takes the trigger away.
fn drop_trigger(site: &Site) -> String {
    format!(
        "DROP TRIGGER IF EXISTS {TRIGGER} ON {}; DROP FUNCTION IF EXISTS {}()",
        site.table.quoted(),
        function(site)
    )
}

/// Beside the table. By its object id, a long name needs not be cut.
fn function(site: &Site) -> String {
    format!("{}.outboxd_migrate_{}", escape_identifier(&site.table.schema), site.table.oid.0)
}
