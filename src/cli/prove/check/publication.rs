//! Consequences of the publication's state for a relay.

use postgres_protocol::escape::escape_identifier;

use super::catalog::{PublishedTable, Rights};
use super::codes;
use super::report::Check;
use super::tables::{self, Outbox};
use crate::postgres::{Autocreate, PublicationFacts, PublicationOptions, PublishedOperations, TableFacts};

/// Makes the check of a publication that must be created.
pub(super) fn to_be_made(
    options: &PublicationOptions,
    tables: &[&TableFacts],
    rights: &Rights,
    slot_exists: bool,
) -> Check {
    let (name, code) = (&options.name, codes::PUBLICATION);
    let statement = format!("{};", options.create_statement(tables));
    let missing = format!("publication {name:?} does not exist");
    let check = match options.autocreate {
        Autocreate::Disabled => Check::failure(
            code,
            format!("{missing}, and publication.autocreate.mode=disabled forbids making it"),
        )
        .fix(format!("as the owner of the table: {statement}")),
        _ if !may_create(options.autocreate, tables, rights) => {
            Check::failure(code, format!("{missing}, and the role may not make it"))
                .detail(needed_rights(options.autocreate))
                .fix(format!("as a role that may: {statement}"))
        }
        Autocreate::NoTables if options.may_lack_tables => Check::ok(
            code,
            format!("{missing} yet; run makes it without tables, and sends what is put into it: {statement}"),
        ),
        Autocreate::NoTables => Check::warning(
            code,
            format!("{missing}; run makes it without tables, and then ends: no table is published"),
        )
        .fix("remove publication.autocreate.mode"),
        Autocreate::AllTables | Autocreate::Filtered => {
            Check::ok(code, format!("{missing} yet; run makes it: {statement}"))
        }
    };
    if slot_exists && check.fix.is_none() {
        return Check::warning(code, format!("{missing}, but the slot does"))
            .detail(
                "the slot may have changes from before the publication: PostgreSQL cannot decode them for it",
            )
            .fix(format!(
                "{statement}\nand if the stream then fails, drop the slot, so that run creates it again"
            ));
    }
    check
}

/// Makes the check of a publication that must be created on the primary.
pub(super) fn missing_on_standby(options: &PublicationOptions, tables: &[&TableFacts]) -> Check {
    let title = format!("publication {:?} does not exist, and a standby cannot make it", options.name);
    Check::failure(codes::PUBLICATION, title)
        .fix(format!("on the primary, as the owner of the table: {};", options.create_statement(tables)))
}

fn may_create(autocreate: Autocreate, tables: &[&TableFacts], rights: &Rights) -> bool {
    rights.superuser
        || match autocreate {
            Autocreate::AllTables => false,
            Autocreate::NoTables => rights.create,
            Autocreate::Disabled | Autocreate::Filtered => rights.create && owns_all(tables, rights),
        }
}

fn owns_all(tables: &[&TableFacts], rights: &Rights) -> bool {
    tables.iter().all(|table| rights.owned_tables.contains(&table.oid))
}

const fn needed_rights(autocreate: Autocreate) -> &'static str {
    match autocreate {
        Autocreate::AllTables => "FOR ALL TABLES needs a superuser",
        Autocreate::NoTables => "it needs CREATE on the database",
        Autocreate::Disabled | Autocreate::Filtered => {
            "it needs CREATE on the database and must own every table"
        }
    }
}

/// Returns the checks of an existing publication.
pub(super) fn existing(
    options: &PublicationOptions,
    facts: &PublicationFacts,
    tables: &[&TableFacts],
    rights: &Rights,
) -> Vec<Check> {
    let name = escape_identifier(&options.name);
    let mut checks = vec![Check::ok(codes::PUBLICATION, format!("publication {name} exists"))];
    checks.extend(operations(&name, options, facts));
    if facts.all_tables {
        checks.push(everything(&name, options, tables));
    }
    checks.push(membership(options, facts, tables, rights));
    checks.extend(tables.iter().filter_map(|table| partitions(&name, facts, table)));
    checks
}

/// Returns the check of the published operations. Without inserts a relay does not start. Other operations
/// that are not published make no events, which is permitted.
fn operations(name: &str, options: &PublicationOptions, facts: &PublicationFacts) -> Option<Check> {
    let code = codes::PUBLISHED_OPERATIONS;
    let fix = format!("ALTER PUBLICATION {name} SET (publish = '{}');", facts.widened(&options.needed));
    let lacking = facts.lacking(&options.needed);
    if lacking.contains(&"insert") {
        return Some(Check::failure(code, format!("publication {name} does not publish inserts")).fix(fix));
    }
    if !lacking.is_empty() {
        let title =
            format!("publication {name} does not publish {}: they make no events", lacking.join(", "));
        return Some(Check::warning(code, title).fix(fix));
    }
    let what = match &options.needed {
        PublishedOperations::Inserts => "inserts",
        needed => needed.publish(),
    };
    (!what.is_empty()).then(|| Check::ok(code, format!("it publishes {what}")))
}

fn everything(name: &str, options: &PublicationOptions, tables: &[&TableFacts]) -> Check {
    let what = if options.needed == PublishedOperations::Inserts { "insert into" } else { "change of" };
    Check::warning(codes::PUBLISHED_EXCESS, format!("publication {name} is FOR ALL TABLES"))
        .detail(format!(
            "the server decodes and sends every {what} any table, and outboxd drops those of other tables"
        ))
        .fix(format!(
            "make a narrow one under another name: CREATE PUBLICATION outboxd FOR TABLE {} WITH (publish = '{}');\n\
             then, when the slot has passed that point, set publication.name to it",
            list(tables),
            options.needed.publish()
        ))
}

fn membership(
    options: &PublicationOptions,
    facts: &PublicationFacts,
    tables: &[&TableFacts],
    rights: &Rights,
) -> Check {
    let (name, code) = (escape_identifier(&options.name), codes::PUBLISHED_TABLES);
    let missing: Vec<_> = tables.iter().copied().filter(|table| !facts.publishes(table)).collect();
    if missing.is_empty() {
        return Check::ok(code, format!("it publishes {}", names(tables)));
    }
    let alter = format!("ALTER PUBLICATION {name} ADD TABLE {};", list(&missing));
    let may_alter = rights.superuser || rights.owns_publication && owns_all(&missing, rights);
    if options.autocreate == Autocreate::Filtered && may_alter {
        return Check::note(code, format!("publication {name} does not publish {} yet", names(&missing)))
            .detail(format!("run does: {alter}"));
    }
    let title = format!("publication {name} does not publish {}", names(&missing));
    let check =
        if options.may_lack_tables { Check::warning(code, title) } else { Check::failure(code, title) };
    check.fix(format!("as the owner of the publication and the table: {alter}"))
}

fn partitions(name: &str, facts: &PublicationFacts, table: &TableFacts) -> Option<Check> {
    let shown = tables::name(table);
    match (table.partitioned, table.root.is_some(), facts.via_root) {
        (true, _, true) => {
            Some(Check::ok(codes::PARTITIONS, format!("rows of every partition of {shown} come under its name")))
        }
        (true, _, false) => Some(
            Check::note(codes::PARTITIONS, format!("rows of {shown} come under the names of its partitions")).detail(
                format!(
                    "they are routed in the same way, but names of value schemas have the partition's name. \
                     To have the table's name: ALTER PUBLICATION {name} SET (publish_via_partition_root = \
                     true);"
                ),
            ),
        ),
        (false, true, true) => Some(
            Check::failure(codes::PARTITIONS, format!("rows of partition {shown} come under the name of its root"))
                .detail("table.include.list names the partition only, so that none of them would be captured")
                .fix(format!(
                    "name the root in table.include.list, or: ALTER PUBLICATION {name} SET (publish_via_partition_root = false);"
                )),
        ),
        (false, ..) => None,
    }
}

/// Returns the checks of row filters and column lists of captured tables (PostgreSQL 15 and later).
pub(super) fn filters(publication: &str, published: &[PublishedTable], outboxes: &[Outbox]) -> Vec<Check> {
    let name = escape_identifier(publication);
    let mut checks = Vec::new();
    for sent in published {
        let found = outboxes
            .iter()
            .find(|outbox| outbox.table.name == sent.name && outbox.table.schema == sent.schema);
        let Some(outbox) = found else { continue };
        let (shown, quoted) = (tables::name(&outbox.table), outbox.table.quoted());
        if let Some(filter) = &sent.row_filter {
            let title = format!("publication {name} sends only rows of {shown} WHERE {filter}");
            checks.push(Check::note(codes::ROW_FILTER, title));
        }
        let lacking: Vec<_> = outbox
            .mapped
            .iter()
            .map(|(_, column)| column.as_str())
            .filter(|c| !sent.columns.iter().any(|s| s == c))
            .collect();
        let whole = outbox.columns.len() == sent.columns.len();
        if !lacking.is_empty() {
            let title = format!("publication {name} does not send column {} of {shown}", lacking.join(", "));
            let filter =
                sent.row_filter.as_ref().map_or_else(String::new, |filter| format!(" WHERE {filter}"));
            // One transaction, so that no insert finds the table unpublished.
            let fix = format!(
                "BEGIN;\nALTER PUBLICATION {name} DROP TABLE {quoted};\nALTER PUBLICATION {name} ADD TABLE \
                 {quoted}{filter};\nCOMMIT;"
            );
            checks.push(Check::failure(codes::COLUMN_LIST, title).fix(fix));
        } else if !whole {
            let title =
                format!("publication {name} sends only columns {} of {shown}", sent.columns.join(", "));
            checks.push(Check::note(codes::COLUMN_LIST, title));
        }
    }
    checks
}

fn names(tables: &[&TableFacts]) -> String {
    tables.iter().map(|table| tables::name(table)).collect::<Vec<_>>().join(", ")
}

fn list(tables: &[&TableFacts]) -> String {
    tables.iter().map(|table| table.quoted()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::report::Outcome::{self, Failure, Note, Ok, Warning};
    use super::super::tables::tests::{outbox, table};
    use super::*;
    use crate::postgres::PublishedOperations;
    use crate::wal::Oid;

    fn options(autocreate: Autocreate) -> PublicationOptions {
        let operations = PublishedOperations::Inserts;
        PublicationOptions {
            name: "p".to_owned(),
            autocreate,
            needed: operations.clone(),
            operations,
            via_partition_root: false,
            may_lack_tables: false,
        }
    }

    fn rights(superuser: bool, create: bool, owned: &[u32]) -> Rights {
        let owned_tables = owned.iter().copied().map(Oid).collect();
        Rights { superuser, create, owned_tables, owns_publication: !owned.is_empty() }
    }

    fn facts() -> PublicationFacts {
        PublicationFacts {
            all_tables: false,
            inserts: true,
            operations: "insert".to_owned(),
            via_root: false,
            tables: vec![Oid(1)],
            published: Vec::new(),
            handover: None,
        }
    }

    fn outcome(checks: &[Check], code: codes::Code) -> Option<Outcome> {
        checks.iter().find(|check| check.code == code).map(|check| check.outcome)
    }

    #[test]
    fn what_must_be_made_needs_rights() {
        use Autocreate::{AllTables, Disabled, Filtered, NoTables};
        let (superuser, owner) = (rights(true, true, &[]), rights(false, true, &[1]));
        let (no_create, no_owner) = (rights(false, false, &[1]), rights(false, true, &[]));
        let cases = [
            (Disabled, &superuser, false, Failure),
            (Filtered, &superuser, false, Ok),
            (Filtered, &owner, false, Ok),
            (Filtered, &owner, true, Warning),
            (Filtered, &no_create, true, Failure),
            (Filtered, &no_owner, false, Failure),
            (AllTables, &owner, false, Failure),
            (AllTables, &superuser, false, Ok),
            (NoTables, &no_owner, false, Warning),
        ];
        let table = table(1);
        for (autocreate, rights, slot_exists, outcome) in cases {
            let check = to_be_made(&options(autocreate), &[&table], rights, slot_exists);
            assert_eq!(check.outcome, outcome, "{check:?}");
            assert!(outcome == Ok || check.fix.is_some(), "{check:?}");
        }
    }

    #[test]
    fn what_exists_is_compared() {
        let (owner, guest) = (rights(false, true, &[2]), rights(false, true, &[]));
        let (known, unknown) = (table(1), table(2));
        let check = |facts: &PublicationFacts, table, rights| {
            existing(&options(Autocreate::Filtered), facts, &[table], rights)
        };
        let good = check(&facts(), &known, &guest);
        assert!(good.iter().all(|check| check.outcome == Ok), "{good:?}");
        let updates = PublicationFacts { inserts: false, operations: "update".to_owned(), ..facts() };
        assert_eq!(outcome(&check(&updates, &known, &owner), codes::PUBLISHED_OPERATIONS), Some(Failure));
        let needed = PublishedOperations::Listed("insert, update, delete".to_owned());
        let of_changes = PublicationOptions { needed, ..options(Autocreate::Filtered) };
        let told = existing(&of_changes, &facts(), &[&known], &owner);
        let told = told.iter().find(|check| check.code == codes::PUBLISHED_OPERATIONS).unwrap();
        assert_eq!(told.outcome, Warning);
        assert!(told.title.contains("does not publish update, delete"), "{told:?}");
        assert!(told.fix.as_ref().unwrap().contains("'insert, update, delete'"), "{told:?}");
        let all = PublicationFacts { all_tables: true, ..facts() };
        assert_eq!(outcome(&check(&all, &unknown, &guest), codes::PUBLISHED_EXCESS), Some(Warning));
        assert_eq!(outcome(&check(&all, &unknown, &guest), codes::PUBLISHED_TABLES), Some(Ok));
        assert_eq!(outcome(&check(&facts(), &unknown, &owner), codes::PUBLISHED_TABLES), Some(Note));
        assert_eq!(outcome(&check(&facts(), &unknown, &guest), codes::PUBLISHED_TABLES), Some(Failure));
    }

    #[test]
    fn partitions_and_their_root() {
        let cases = [
            (true, None, true, Some(Ok)),
            (true, None, false, Some(Note)),
            (false, Some(Oid(9)), true, Some(Failure)),
            (false, Some(Oid(9)), false, None),
            (false, None, true, None),
        ];
        for (partitioned, root, via_root, expected) in cases {
            let table = TableFacts { partitioned, root, ..table(1) };
            let check = partitions("p", &PublicationFacts { via_root, ..facts() }, &table);
            assert_eq!(check.map(|check| check.outcome), expected);
        }
    }

    #[test]
    fn filters_and_lists_are_shown() {
        let sent = |columns: &[&str], row_filter: Option<&str>| PublishedTable {
            schema: "public".to_owned(),
            name: "outbox".to_owned(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            row_filter: row_filter.map(str::to_owned),
        };
        let all = ["id", "aggregateid", "payload", "aggregatetype", "more"];
        let cases = [
            (sent(&all, None), None, None),
            (sent(&all, Some("(sent)")), Some(Note), None),
            (sent(&all[..4], None), None, Some(Note)),
            (sent(&all[..3], None), None, Some(Failure)),
        ];
        for (sent, filter, list) in cases {
            let checks = filters("p", &[sent], &[outbox()]);
            assert_eq!(outcome(&checks, codes::ROW_FILTER), filter);
            assert_eq!(outcome(&checks, codes::COLUMN_LIST), list);
        }
    }
}
