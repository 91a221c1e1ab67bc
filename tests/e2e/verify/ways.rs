use super::answer::Answer;
use super::{NO, advance, event, relay};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::with;

const PARTITIONED: &str =
    "CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb)
     PARTITION BY LIST (aggregateid);
     CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES IN ('1')";

/// A way in which rows were skipped silently. `{name}` is the slot and the publication.
#[derive(Default)]
struct Way {
    /// The table, when it is not the usual one.
    table: Option<&'static str>,
    /// Statements before the row is written, and after it.
    before: &'static str,
    after: &'static str,
    /// Table to which the row is written, when it is not `public.outbox`.
    written_to: Option<&'static str>,
    /// Setting of the later run.
    setting: Option<(&'static str, &'static str)>,
}

const MADE_ANEW: &str = "SELECT pg_drop_replication_slot('{name}');
    SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')";

/// Returns the ways: a column is added, a column list, a partition is detached, a table is moved, the slot is created
/// again (by hand or by an instance that stood by), the publication is created again, a row filter.
fn ways() -> [Way; 7] {
    [
        Way {
            before: "ALTER TABLE outbox ADD COLUMN tenant text",
            setting: Some(("transforms.outbox.table.fields.additional.placement", "tenant:header")),
            ..Way::default()
        },
        Way {
            before: "ALTER PUBLICATION {name} SET TABLE outbox (id, aggregatetype, aggregateid, type)",
            ..Way::default()
        },
        Way {
            table: Some(PARTITIONED),
            after: "ALTER TABLE outbox DETACH PARTITION outbox_1",
            setting: Some(("table.include.list", "public.outbox,public.outbox_1")),
            ..Way::default()
        },
        Way {
            before: "CREATE SCHEMA other; ALTER TABLE outbox SET SCHEMA other",
            written_to: Some("other.outbox"),
            setting: Some(("table.include.list", "other.outbox")),
            ..Way::default()
        },
        Way { after: MADE_ANEW, ..Way::default() },
        Way {
            before: "DROP PUBLICATION {name}",
            after: "CREATE PUBLICATION {name} FOR TABLE outbox",
            ..Way::default()
        },
        Way { before: "ALTER PUBLICATION {name} SET TABLE outbox WHERE (type <> 'E')", ..Way::default() },
    ]
}

/// In each the slot is behind the row, and the row is in a table.
#[test]
fn a_row_that_was_skipped_is_named_however_it_came_about() {
    for way in ways() {
        let server = postgres18();
        let db = way.table.map_or_else(|| Outbox::create(server), |table| Outbox::create_bare(server, table));
        let config = db.config(kafka());
        relay(&db, &config);
        let lost = event("1", "{}");
        db.execute(&way.before.replace("{name}", db.name()));
        db.execute(&format!(
            "INSERT INTO {} (id, aggregatetype, aggregateid, type, payload) VALUES ('{}', 'order', '1', 'E', '{{}}')",
            way.written_to.unwrap_or("public.outbox"),
            lost.id
        ));
        db.execute(&way.after.replace("{name}", db.name()));
        advance(&db);
        let answer = Answer::of(&with(config, way.setting.as_slice()), &[]);
        let ids: Vec<_> = answer.findings().into_iter().map(|(_, id)| id).collect();
        let done = [way.before, way.after];
        assert_eq!((answer.exit, ids), (NO, vec![lost.id.to_string()]), "{done:?}: {:#}", answer.json);
    }
}
