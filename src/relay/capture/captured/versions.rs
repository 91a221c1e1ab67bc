//! Comparison of two polls of the catalog: finds what changed between them, even if it was changed back.

use super::error::not_in_the_wal;
use super::identity::{CapturedTable, CapturedTables};
use super::suspicion::SuspicionCause;
use crate::postgres::{
    Error, FoundTable, Member, PublicationVersion, PublishedOperations, Storage, TableVersion,
};
use crate::wal::Oid;

/// State of the catalog at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) struct Look {
    /// The publication; none when it is gone.
    pub(in crate::relay) publication: Option<PublicationVersion>,
    /// The captured tables and their partitions.
    pub(in crate::relay) tables: Vec<TableVersion>,
    /// Tables that have the name of a captured one and are others.
    pub(in crate::relay) namesakes: Vec<Namesake>,
}

/// A table that has the name of a captured one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) struct Namesake {
    pub(in crate::relay) oid: Oid,
    pub(in crate::relay) table: CapturedTable,
    /// Every table that it is a partition of.
    pub(in crate::relay) ancestors: Vec<Oid>,
}

impl Namesake {
    /// Returns those of the tables `found` that are not captured and have the name of a captured one.
    pub(in crate::relay) fn among(found: Vec<FoundTable>, captured: &CapturedTables) -> Vec<Self> {
        let roots = captured.roots();
        let strangers = found.into_iter().filter(|found| captured.get(found.table.oid).is_none());
        let named = strangers.filter_map(|FoundTable { table: found, ancestors }| {
            let same = |table: &&CapturedTable| table.schema == found.schema && table.name == found.name;
            Some(Self { oid: found.oid, table: roots.iter().find(same)?.clone(), ancestors })
        });
        named.collect()
    }
}

/// The publication that is watched.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct Watched<'n> {
    pub(in crate::relay) publication: &'n str,
    /// The operations that it has to publish.
    pub(in crate::relay) needed: &'n PublishedOperations,
    /// True if captured tables may be missing from the publication.
    pub(in crate::relay) may_lack_tables: bool,
}

/// Finding of one poll of the catalog.
#[derive(Debug)]
pub(in crate::relay) enum Finding {
    /// Rows are not in the stream, or may not be: the relay ends.
    End(Error),
    /// Rows of the table may be missing, and nothing proves it: the operator must check.
    Suspect { table: CapturedTable, cause: SuspicionCause },
    /// As `Suspect` if the table's rows show that ALTER TABLE has rewritten them, which nothing else shows.
    SuspectIfAltered(CapturedTable),
    /// Worth a line.
    Note(String),
}

const GONE: &str = "rows that were written meanwhile are not in the stream. To send them, start once with \
                    -X snapshot.mode=always: it sends all rows of the table, also those that were sent \
                    before";
/// PostgreSQL cannot decode rows that were written while the publication was gone.
const OLDER_ROWS: &str =
    "If rows were written meanwhile, that start ends with the statement that moves the slot past them";
const AGAIN: &str = "rows that were written meanwhile may not be in the stream. To send them, start once \
                     with -X snapshot.mode=always: it sends all rows of the table, also those that were \
                     sent before";

/// Returns what is wrong with the catalog's state, and with its difference from the state before.
pub(in crate::relay) fn judge(watched: Watched<'_>, before: Option<&Look>, now: &Look) -> Vec<Finding> {
    let Watched { publication: name, .. } = watched;
    if let Some(error) = broken(watched, now) {
        return vec![Finding::End(error)];
    }
    let (Some(before), Some(publication)) = (before, &now.publication) else { return Vec::new() };
    if let Some(error) = before.publication.as_ref().and_then(|old| altered(name, old, publication, now)) {
        return vec![Finding::End(error)];
    }
    let known = |table: &TableVersion| before.tables.iter().find(|old| old.oid == table.oid);
    let rewritten = now.tables.iter().filter_map(|table| rewritten(known(table)?, table, publication));
    rewritten.chain(recreated(before, now, publication)).collect()
}

/// Returns the captured tables that the publication does not publish, quoted for SQL.
pub(in crate::relay) fn unpublished(now: &Look) -> Vec<String> {
    let Some(publication) = &now.publication else { return Vec::new() };
    let roots = now.tables.iter().filter(|table| table.oid == table.root);
    let unpublished =
        roots.filter(|table| !publishes(publication, table.oid, &table.schema, &table.ancestors));
    unpublished.map(TableVersion::quoted).collect()
}

/// Returns the reason for which rows are missing from the stream at present.
fn broken(Watched { publication: name, needed, may_lack_tables }: Watched<'_>, now: &Look) -> Option<Error> {
    let publish = needed.publish();
    let end =
        |problem: String, fix: String| Some(Error::Unpublished { problem, fix: format!("{fix}; {GONE}") });
    let roots = || now.tables.iter().filter(|table| table.oid == table.root);
    let Some(publication) = &now.publication else {
        let tables: Vec<_> = roots().map(TableVersion::quoted).collect();
        let create = format!(
            "CREATE PUBLICATION \"{name}\" FOR TABLE {} WITH (publish = '{publish}')",
            tables.join(", ")
        );
        let fix = format!("{create}; {GONE}. {OLDER_ROWS}");
        return Some(Error::Unpublished { problem: format!("publication {name:?} is gone"), fix });
    };
    if !publication.inserts && needed.has_inserts() {
        let fix = format!("ALTER PUBLICATION \"{name}\" SET (publish = '{publish}')");
        return end(format!("publication {name:?} does not publish inserts any more"), fix);
    }
    if let Some(table) = now.tables.iter().find(|table| table.storage != Storage::Logged) {
        return Some(not_in_the_wal(table));
    }
    if may_lack_tables {
        return None;
    }
    let lost = unpublished(now).into_iter().next();
    let unpublished = |namesake: &&Namesake| {
        !publishes(publication, namesake.oid, &namesake.table.schema, &namesake.ancestors)
    };
    let lost =
        lost.or_else(|| now.namesakes.iter().find(unpublished).map(|namesake| namesake.table.quoted()))?;
    let fix = format!(
        "as the owner of the publication and the table: ALTER PUBLICATION \"{name}\" ADD TABLE {lost}"
    );
    end(format!("publication {name:?} does not publish table {lost} any more"), fix)
}

/// Returns whether inserts into a table are published: by itself, by its schema, or by what it is a partition
/// of.
fn publishes(publication: &PublicationVersion, table: Oid, schema: &str, ancestors: &[Oid]) -> bool {
    let mut named = ancestors.iter().copied().chain([table]);
    publication.all_tables
        || publication.schemas.iter().any(|member| member.schema == schema)
        || named.any(|oid| publication.members.iter().any(|member| member.table == oid))
}

/// Returns the error for a publication that was changed between two polls.
fn altered(name: &str, old: &PublicationVersion, new: &PublicationVersion, now: &Look) -> Option<Error> {
    let what = difference(old, new, now)?;
    let problem = format!("publication {name:?} {what} while outboxd streams");
    let fix = format!("make sure that the publication is as you want it, and start outboxd again; {AGAIN}");
    Some(Error::Unpublished { problem, fix })
}

fn difference(old: &PublicationVersion, new: &PublicationVersion, now: &Look) -> Option<String> {
    const BACK: &str = "was changed and changed back";
    if old.operations != new.operations {
        let (old, new) = (&old.operations, &new.operations);
        return Some(format!("has other published operations ({new} instead of {old})"));
    }
    if old.oid != new.oid {
        return Some("was dropped and made again".to_owned());
    }
    let same_row = (old.all_tables, old.via_root, old.owner) == (new.all_tables, new.via_root, new.owner);
    if old.version != new.version && same_row {
        return Some(BACK.to_owned());
    }
    let shown = |table: Oid| {
        let known = now.tables.iter().find(|known| known.oid == table);
        known.map_or_else(
            || format!("the table of object id {table}"),
            |known| format!("table {}", known.full_name()),
        )
    };
    for member in &new.members {
        let before: Vec<&Member> = old.members.iter().filter(|old| old.table == member.table).collect();
        if before.contains(&member) {
            continue;
        }
        let had = |narrowed: fn(&Member) -> bool| before.iter().any(|old| narrowed(old));
        if member.filtered && !had(|old| old.filtered) {
            return Some(format!("has a row filter for {}", shown(member.table)));
        }
        if member.listed && !had(|old| old.listed) {
            return Some(format!("has a column list for {}", shown(member.table)));
        }
        if !before.is_empty() {
            return Some(format!("{BACK} for {}", shown(member.table)));
        }
    }
    let is_there = |member: &&Member| now.tables.iter().any(|table| table.oid == member.table);
    let left = |member: &&Member| !new.members.iter().any(|other| other.table == member.table);
    if let Some(member) = old.members.iter().filter(is_there).find(left) {
        return Some(format!("does not name {} any more", shown(member.table)));
    }
    let schema = old.schemas.iter().find(|schema| {
        now.tables.iter().any(|table| table.schema == schema.schema) && !new.schemas.contains(schema)
    });
    schema.map(|schema| format!("{BACK} for schema {}", schema.schema))
}

/// Returns the finding for a rewritten table, which may have been unlogged meanwhile. PostgreSQL refuses that
/// for a table that a publication names. TRUNCATE, VACUUM FULL and CLUSTER retain the TOAST table, ALTER
/// TABLE makes another; only SET UNLOGGED and SET LOGGED also rewrite the table's own sequences. A table
/// without long values has no TOAST table, and TRUNCATE … RESTART IDENTITY rewrites its sequences: then only
/// its rows show the difference.
fn rewritten(old: &TableVersion, new: &TableVersion, publication: &PublicationVersion) -> Option<Finding> {
    if old.filenode == new.filenode {
        return None;
    }
    let shown = new.full_name();
    if new.toast != Oid(0) && old.toast == new.toast {
        return Some(Finding::Note(format!(
            "table {shown} was truncated, or rewritten by VACUUM FULL or \
                                           CLUSTER: no event is missing"
        )));
    }
    let named = publication.members.iter().any(|member| member.table == new.oid);
    let sequences_stayed = !new.sequences.is_empty() && old.sequences == new.sequences;
    if named || sequences_stayed {
        return Some(Finding::Note(format!("table {shown} was rewritten: no event is missing")));
    }
    let table = CapturedTable::new(new.oid, new.root, &new.schema, &new.name);
    Some(match new.toast {
        Oid(0) => Finding::SuspectIfAltered(table),
        _ => Finding::Suspect { table, cause: SuspicionCause::Rewritten },
    })
}

/// Returns the findings for tables that have the name of one that was seen before, and were added to the
/// publication by name after they were created.
fn recreated(before: &Look, now: &Look, publication: &PublicationVersion) -> Vec<Finding> {
    let had = |name: &str| before.tables.iter().any(|old| old.oid == old.root && old.full_name() == name);
    let seen = |oid: Oid| {
        before.tables.iter().any(|old| old.oid == oid) || before.namesakes.iter().any(|old| old.oid == oid)
    };
    let own = |oid: Oid, schema: &str, name: &str| CapturedTable::new(oid, oid, schema, name);
    let roots = now.tables.iter().filter(|table| table.oid == table.root);
    let captured = roots.map(|table| own(table.oid, &table.schema, &table.name));
    let others = now.namesakes.iter();
    let others = others.map(|other| own(other.oid, &other.table.schema, &other.table.name));
    captured
        .chain(others)
        .filter(|table| !seen(table.oid()) && had(&table.full_name()))
        .filter(|table| publication.members.iter().any(|member| member.table == table.oid()))
        .map(|table| Finding::Suspect { table, cause: SuspicionCause::CreatedAgain })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::suspicion::Suspicion;
    use super::*;
    use crate::wal::Lsn;

    fn table(oid: u32, root: u32, name: &str) -> TableVersion {
        TableVersion {
            oid: Oid(oid),
            root: Oid(root),
            schema: "public".to_owned(),
            name: name.to_owned(),
            parent: (oid != root).then(|| "outbox".to_owned()),
            ancestors: if oid == root { Vec::new() } else { vec![Oid(root)] },
            storage: Storage::Logged,
            filenode: Oid(oid + 100),
            toast: Oid(oid + 200),
            sequences: Vec::new(),
        }
    }

    fn member(oid: u32, table: u32) -> Member {
        Member { oid: Oid(oid), version: 7, table: Oid(table), filtered: false, listed: false }
    }

    fn publication() -> PublicationVersion {
        PublicationVersion {
            oid: Oid(5),
            version: 7,
            owner: Oid(10),
            all_tables: false,
            inserts: true,
            operations: "insert".to_owned(),
            via_root: false,
            others: false,
            members: vec![member(50, 1)],
            schemas: Vec::new(),
        }
    }

    /// Makes the state of a table with one partition.
    fn look() -> Look {
        Look {
            publication: Some(publication()),
            tables: vec![table(1, 1, "outbox"), table(2, 1, "outbox_1")],
            namesakes: Vec::new(),
        }
    }

    fn namesake(oid: u32) -> Namesake {
        let table = CapturedTable::new(Oid(1), Oid(1), "public", "outbox");
        Namesake { oid: Oid(oid), table, ancestors: Vec::new() }
    }

    fn change(change: impl FnOnce(&mut PublicationVersion)) -> Look {
        let mut publication = publication();
        change(&mut publication);
        Look { publication: Some(publication), ..look() }
    }

    fn with_partition(change: impl FnOnce(&mut TableVersion)) -> Look {
        let mut look = look();
        change(&mut look.tables[1]);
        look
    }

    /// Returns the findings between the state above and this one.
    fn found(now: &Look) -> String {
        let watched =
            Watched { publication: "p", needed: &PublishedOperations::Inserts, may_lack_tables: false };
        let said = judge(watched, Some(&look()), now).into_iter().map(|finding| match finding {
            Finding::End(error) => error.to_string(),
            Finding::Suspect { table, cause } => {
                let text = Suspicion::new(cause, Lsn::ZERO).warning(&table.full_name());
                format!("suspect: {}", text.split('.').take(2).collect::<Vec<_>>().join("."))
            }
            Finding::SuspectIfAltered(table) => format!("suspect if altered: {}", table.quoted()),
            Finding::Note(text) => format!("note: {text}"),
        });
        said.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn what_leaves_the_stream_or_was_out_of_it_is_found() {
        let gone = "publication \"p\" does not publish table \"public\".\"outbox\" any more";
        let back = "publication \"p\" was changed and changed back";
        let all = |look: Look| {
            let all_tables = PublicationVersion { all_tables: true, members: Vec::new(), ..publication() };
            Look { publication: Some(all_tables), ..look }
        };
        let cases = [
            ("as before", look(), String::new()),
            ("no publication", Look { publication: None, ..look() }, "publication \"p\" is gone".to_owned()),
            ("no inserts", change(|it| it.inserts = false), "publication \"p\" does not publish inserts any more".to_owned()),
            ("taken out", change(|it| it.members.clear()), gone.to_owned()),
            ("another table in its place", Look { tables: Vec::new(), namesakes: vec![namesake(9)], ..look() }, gone.to_owned()),
            (
                "a partition in its place that is published with its root",
                Look {
                    tables: Vec::new(),
                    namesakes: vec![Namesake { ancestors: vec![Oid(8)], ..namesake(9) }],
                    ..change(|it| it.members = vec![member(51, 8)])
                },
                String::new(),
            ),
            ("dropped and not made anew", Look { tables: Vec::new(), ..look() }, String::new()),
            (
                "created again and added",
                Look { tables: Vec::new(), namesakes: vec![namesake(9)], ..change(|it| it.members = vec![member(51, 9)]) },
                "suspect: table public.outbox was created again and added to the publication: rows that were written to it before that are not in the stream".to_owned(),
            ),
            (
                "made anew where all tables are published",
                all(Look { tables: Vec::new(), namesakes: vec![namesake(9)], ..look() }),
                String::new(),
            ),
            ("renamed and back", change(|it| it.version = 8), format!("{back} while outboxd streams")),
            (
                "another owner",
                change(|it| (it.version, it.owner) = (8, Oid(11))),
                String::new(),
            ),
            (
                "more operations",
                change(|it| it.operations = "insert, update".to_owned()),
                "publication \"p\" has other published operations (insert, update instead of insert) while outboxd streams".to_owned(),
            ),
            (
                "made again",
                change(|it| it.oid = Oid(6)),
                "publication \"p\" was dropped and made again while outboxd streams".to_owned(),
            ),
            (
                "taken out and put in",
                change(|it| it.members = vec![member(51, 1)]),
                format!("{back} for table public.outbox while outboxd streams"),
            ),
            (
                "a filter",
                change(|it| it.members = vec![Member { filtered: true, ..member(51, 1) }]),
                "publication \"p\" has a row filter for table public.outbox while outboxd streams".to_owned(),
            ),
            (
                "a column list for a partition",
                change(|it| it.members.push(Member { listed: true, ..member(51, 2) })),
                "publication \"p\" has a column list for table public.outbox_1 while outboxd streams".to_owned(),
            ),
            ("a partition named as well", change(|it| it.members.push(member(51, 2))), String::new()),
            (
                "an unlogged partition",
                with_partition(|it| it.storage = Storage::Unlogged),
                "table public.outbox_1 is unlogged: its rows never reach the WAL".to_owned(),
            ),
            (
                "truncated",
                with_partition(|it| it.filenode = Oid(9)),
                "note: table public.outbox_1 was truncated, or rewritten by VACUUM FULL or CLUSTER: no event is missing".to_owned(),
            ),
            (
                "written anew",
                with_partition(|it| (it.filenode, it.toast) = (Oid(9), Oid(8))),
                "suspect: table public.outbox_1 was rewritten by ALTER TABLE".to_owned(),
            ),
            (
                "written anew, without a TOAST table",
                with_partition(|it| (it.filenode, it.toast) = (Oid(9), Oid(0))),
                "suspect if altered: \"public\".\"outbox_1\"".to_owned(),
            ),
        ];
        for (what, now, expected) in cases {
            assert_eq!(found(&now), expected, "{what}");
        }
    }

    /// PostgreSQL does not let a table be unlogged that a publication names.
    #[test]
    fn a_rewrite_that_cannot_have_been_unlogged_is_a_note() {
        let written = |sequences: [Vec<u32>; 2], oid| {
            let [before, after] = sequences;
            let old = TableVersion { sequences: before, ..table(oid, 1, "t") };
            let new = TableVersion { sequences: after, filenode: Oid(9), toast: Oid(8), ..old.clone() };
            matches!(rewritten(&old, &new, &publication()), Some(Finding::Note(_)))
        };
        assert!(written([vec![], vec![]], 1), "named");
        assert!(!written([vec![], vec![]], 2));
        assert!(written([vec![5], vec![5]], 2), "its sequence was left alone");
        assert!(!written([vec![5], vec![6]], 2));
    }
}
