//! Objects that must exist in the database: the statements that create them, and which of them are done.

use postgres_protocol::escape::{escape_identifier, escape_literal};

use crate::cli::shell::steps::Step;
use crate::postgres::{Error, PublicationOptions, PublishedOperations, Sql, TableFacts};

const TABLE: &str = include_str!("../../../../sql/outbox.sql");

/// Returns the step that creates the table.
pub(super) fn table(there: bool) -> Step {
    // The comments in the file are for its readers.
    let said = TABLE.lines().filter(|line| !line.trim_start().starts_with("--") && !line.trim().is_empty());
    let body: Vec<_> = said.collect();
    let body = body.join("\n");
    Step::new("table public.outbox", body.trim_end().trim_end_matches(';'), "DROP TABLE public.outbox")
        .unless(there)
}

/// Returns the steps of the publication of these tables.
pub(super) async fn publication(
    sql: &Sql,
    options: &PublicationOptions,
    tables: &[TableFacts],
) -> Result<Vec<Step>, Error> {
    let name = escape_identifier(&options.name);
    let inserts = if options.operations == PublishedOperations::Inserts { ", inserts only" } else { "" };
    let all: Vec<_> = tables.iter().collect();
    let Some(existing) = sql.publication(&options.name).await? else {
        let create = options.create_statement(&all);
        let of = if create.contains(" FOR ALL TABLES") { "all tables".to_owned() } else { list(&all) };
        let what = format!("publication {name} of {of}{inserts}");
        return Ok(vec![Step::new(what, create, format!("DROP PUBLICATION {name}"))]);
    };
    if !existing.inserts {
        return Err(Error::Precondition {
            problem: format!("publication {name} is there and does not publish inserts"),
            fix: format!(
                "give publication.name another name, or, if no other client reads it: ALTER PUBLICATION {name} SET (publish = '{}');",
                options.needed.publish()
            ),
        });
    }
    let missing: Vec<_> = all.iter().copied().filter(|table| !existing.publishes(table)).collect();
    let done = missing.is_empty();
    let of = list(if done { &all } else { &missing });
    let add = Step::new(
        format!("publication {name} of {of}"),
        format!("ALTER PUBLICATION {name} ADD TABLE {of}"),
        format!("ALTER PUBLICATION {name} DROP TABLE {of}"),
    );
    let lacking = existing.lacking(&options.needed);
    let widen = (!lacking.is_empty()).then(|| {
        Step::new(
            format!("publication {name} publishes {}", lacking.join(", ")),
            format!("ALTER PUBLICATION {name} SET (publish = '{}')", existing.widened(&options.needed)),
            format!("ALTER PUBLICATION {name} SET (publish = '{}')", existing.operations),
        )
    });
    Ok(std::iter::once(add.unless(done)).chain(widen).collect())
}

fn list(tables: &[&TableFacts]) -> String {
    tables.iter().map(|table| table.quoted()).collect::<Vec<_>>().join(", ")
}

/// Returns the step that creates the slot before the first start.
pub(super) async fn slot(sql: &Sql, name: &str) -> Result<Step, Error> {
    let literal = escape_literal(name);
    let make = format!("SELECT pg_create_logical_replication_slot({literal}, 'pgoutput')");
    let there = sql.slot_named(name).await?.is_some();
    let undo = format!("SELECT pg_drop_replication_slot({literal})");
    Ok(Step::new(format!("replication slot {name}"), make, undo).unless(there))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_that_of_the_file() {
        let step = table(false);
        assert!(
            step.sql.starts_with("CREATE TABLE IF NOT EXISTS public.outbox (") && !step.sql.ends_with(';'),
            "{step:?}"
        );
        assert!(TABLE.contains(&format!("-- Undo: {};", step.undo.unwrap())));
    }
}
