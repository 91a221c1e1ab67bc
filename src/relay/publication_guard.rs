use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time;

use crate::postgres::{Error, PublicationFacts, PublicationOptions, Sql, TableFacts};

/// How often the publication is looked at. It costs two small queries.
const INTERVAL: Duration = Duration::from_secs(5);

/// Watches that the captured tables stay in the publication. The server says nothing when one leaves it: what is written
/// to it then is not in the stream, and never will be.
#[derive(Debug)]
pub(super) struct PublicationGuard {
    verdict: oneshot::Receiver<Error>,
    _watcher: JoinSet<()>,
}

/// What a look has found.
#[derive(Debug)]
enum Finding {
    /// Inserts are published, of every table.
    Sound,
    /// Tables that were taken out and put in again since the look before.
    Interrupted(Vec<String>),
    /// Inserts are not in the stream.
    Unpublished(Error),
}

impl PublicationGuard {
    /// Begins to watch, until it is dropped.
    pub(super) fn watch(options: &PublicationOptions, sql: &Arc<Sql>, tables: &[TableFacts]) -> Self {
        let (sender, verdict) = oneshot::channel();
        let mut watcher = JoinSet::new();
        let (name, sql, tables) = (options.name.clone(), Arc::clone(sql), tables.to_vec());
        if !tables.is_empty() {
            watcher.spawn(async move { drop(sender.send(watch(&name, &sql, &tables).await)) });
        }
        Self { verdict, _watcher: watcher }
    }

    /// What has been found.
    ///
    /// # Errors
    /// When inserts are not in the stream.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        self.verdict.try_recv().map_or(Ok(()), Err)
    }
}

/// Looks again and again, and returns with what ends the relay.
async fn watch(name: &str, sql: &Sql, captured: &[TableFacts]) -> Error {
    let mut before = None;
    loop {
        // The stream tells when PostgreSQL is gone; this connection alone says nothing new.
        if let Ok((facts, tables)) = look(name, sql, captured).await {
            match judge(name, before.as_ref(), facts.as_ref(), &tables) {
                Finding::Sound => {}
                Finding::Interrupted(tables) => tracing::error!(
                    publication = name,
                    tables = tables.join(", "),
                    "tables were taken out of the publication and put in again: what was written to them in between is not in \
                     the stream; start once with -X snapshot.mode=always to send all rows that are there"
                ),
                Finding::Unpublished(error) => return error,
            }
            if let (None, Some(facts)) = (&before, &facts) {
                warn_of_filters(name, facts, &tables);
            }
            before = facts;
        }
        time::sleep(INTERVAL).await;
    }
}

async fn look(
    name: &str,
    sql: &Sql,
    captured: &[TableFacts],
) -> Result<(Option<PublicationFacts>, Vec<TableFacts>), Error> {
    let facts = sql.publication(name).await?;
    Ok((facts, sql.tables_named_as(captured).await?))
}

fn warn_of_filters(name: &str, facts: &PublicationFacts, tables: &[TableFacts]) {
    for table in tables.iter().filter(|table| facts.filtered.contains(&table.oid)) {
        let table = table.quoted();
        tracing::warn!(publication = name, table, "a row filter: rows that it leaves out are not sent");
    }
}

/// A table that is not there any more has no rows to lose; one that has its name now has.
fn judge(
    name: &str,
    before: Option<&PublicationFacts>,
    facts: Option<&PublicationFacts>,
    tables: &[TableFacts],
) -> Finding {
    let quoted = || tables.iter().map(TableFacts::quoted).collect::<Vec<_>>().join(", ");
    let again = "what was written meanwhile is not in the stream, and can be sent from the table only: start once with -X \
                 snapshot.mode=always, and all rows that are there are sent, again as well";
    let unpublished = |problem: String, cure: String| {
        Finding::Unpublished(Error::Precondition { problem, cure: format!("{cure}; {again}") })
    };
    let Some(facts) = facts else {
        let cure = format!("CREATE PUBLICATION \"{name}\" FOR TABLE {} WITH (publish = 'insert')", quoted());
        return unpublished(format!("publication {name:?} is gone"), cure);
    };
    if !facts.inserts {
        let cure = format!("ALTER PUBLICATION \"{name}\" SET (publish = 'insert')");
        return unpublished(format!("publication {name:?} does not publish inserts any more"), cure);
    }
    if let Some(table) = tables.iter().find(|table| !table.logged) {
        let table = table.quoted();
        return unpublished(
            format!("table {table} is unlogged now"),
            format!("ALTER TABLE {table} SET LOGGED"),
        );
    }
    if let Some(table) = tables.iter().find(|table| !facts.publishes(table)) {
        let table = table.quoted();
        let cure = format!(
            "as the owner of the publication and the table: ALTER PUBLICATION \"{name}\" ADD TABLE {table}"
        );
        return unpublished(format!("publication {name:?} does not publish table {table} any more"), cure);
    }
    let membership = |facts: &PublicationFacts, table: &TableFacts| {
        let named = |oid| facts.tables.iter().position(|other| *other == oid);
        let place = named(table.oid).or_else(|| table.root.and_then(named))?;
        facts.memberships.get(place).copied()
    };
    let interrupted: Vec<String> = tables
        .iter()
        .filter(|table| before.is_some_and(|before| membership(before, table) != membership(facts, table)))
        .map(TableFacts::quoted)
        .collect();
    if interrupted.is_empty() { Finding::Sound } else { Finding::Interrupted(interrupted) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::Oid;

    fn table(oid: u32) -> TableFacts {
        TableFacts {
            oid: Oid(oid),
            schema: "public".to_owned(),
            name: "outbox".to_owned(),
            partitioned: false,
            root: None,
            logged: true,
            columns: Vec::new(),
        }
    }

    /// A publication of one table, by its name too as `pg_publication_tables` has it.
    fn publication(oid: u32, membership: u32) -> PublicationFacts {
        PublicationFacts {
            all_tables: false,
            inserts: true,
            via_root: false,
            tables: vec![Oid(oid)],
            memberships: vec![membership],
            filtered: Vec::new(),
            published: Vec::new(),
        }
    }

    /// What a look comes to after the first one, as a word and the problem or the tables.
    fn found(facts: Option<PublicationFacts>, tables: &[TableFacts]) -> String {
        match judge("p", Some(&publication(1, 7)), facts.as_ref(), tables) {
            Finding::Sound => "sound".to_owned(),
            Finding::Interrupted(tables) => format!("interrupted: {}", tables.join(", ")),
            Finding::Unpublished(error) => error.to_string(),
        }
    }

    #[test]
    fn a_table_that_leaves_the_publication_is_noticed() {
        let gone = "publication \"p\" does not publish table \"public\".\"outbox\" any more";
        let inserts = PublicationFacts { inserts: false, ..publication(1, 7) };
        let all = PublicationFacts {
            all_tables: true,
            tables: Vec::new(),
            memberships: Vec::new(),
            ..publication(1, 7)
        };
        let unlogged = TableFacts { logged: false, ..table(1) };
        let cases: [(&str, Option<PublicationFacts>, Vec<TableFacts>, &str); 9] = [
            ("as before", Some(publication(1, 7)), vec![table(1)], "sound"),
            ("dropped and not made anew", Some(publication(1, 7)), vec![], "sound"),
            ("dropped and made anew", Some(publication(1, 7)), vec![table(2)], gone),
            (
                "made anew and put in",
                Some(publication(2, 8)),
                vec![table(2)],
                "interrupted: \"public\".\"outbox\"",
            ),
            ("taken out", Some(publication(3, 7)), vec![table(1)], gone),
            (
                "taken out and put in",
                Some(publication(1, 8)),
                vec![table(1)],
                "interrupted: \"public\".\"outbox\"",
            ),
            (
                "no inserts",
                Some(inserts),
                vec![table(1)],
                "publication \"p\" does not publish inserts any more",
            ),
            ("no publication", None, vec![table(1)], "publication \"p\" is gone"),
            ("unlogged", Some(all), vec![unlogged], "table \"public\".\"outbox\" is unlogged now"),
        ];
        for (what, facts, tables, expected) in cases {
            assert_eq!(found(facts, &tables), expected, "{what}");
        }
    }
}
