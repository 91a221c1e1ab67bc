//! Consequences of the captured tables for a relay. Primary keys do not matter: only inserts are sent.

use super::codes;
use super::report::Check;
use crate::cli::change::init::{Mark, marks_among};
use crate::connect::column::{ColumnDescription, TypeKind};
use crate::outbox::{Assumption, BindError, EventRouter};
use crate::postgres::{PublicationFacts, Storage, TableFacts, TableFilter, TableVersion, Unreadable};
use crate::relay::{
    Route, excluded_by_predicate, in_the_publication, near_miss, no_table, none_yet, not_in_the_wal,
    relation_of,
};

const EVENT_ID: &str = "table.field.event.id";
const EVENT_KEY: &str = "table.field.event.key";
const ROUTE: &str = "route.by.field";

/// A captured table whose columns fit the router.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Outbox {
    pub(in crate::cli) table: TableFacts,
    pub(super) columns: Vec<ColumnDescription>,
    /// The columns that options name, each with its option.
    pub(super) mapped: Vec<(&'static str, String)>,
}

impl Outbox {
    /// Returns the column of the event's id.
    pub(in crate::cli) fn id_column(&self) -> Option<&str> {
        self.column(EVENT_ID)
    }

    /// Returns the column of the key.
    pub(in crate::cli) fn key_column(&self) -> Option<&str> {
        self.column(EVENT_KEY)
    }

    /// Returns the column that decides the topic.
    pub(in crate::cli) fn route_column(&self) -> Option<&str> {
        self.column(ROUTE)
    }

    /// Reports whether records may have no key.
    pub(super) fn key_may_be_null(&self) -> bool {
        self.column(EVENT_KEY).is_some_and(|key| self.may_be_null(key))
    }

    fn column(&self, option: &str) -> Option<&str> {
        self.mapped.iter().find(|(known, _)| *known == option).map(|(_, column)| column.as_str())
    }

    fn may_be_null(&self, column: &str) -> bool {
        self.columns.iter().any(|known| known.name == column && !known.not_null)
    }
}

/// Returns the table's name for messages, with its schema.
pub(in crate::cli) fn name(table: &TableFacts) -> String {
    format!("{}.{}", table.schema, table.name)
}

/// Returns the captured tables among all, unlogged ones included, and their check. `may_be_none` permits an
/// empty result.
pub(in crate::cli) fn captured(
    filter: &TableFilter,
    route: &Route,
    may_be_none: bool,
    all: &[TableFacts],
) -> (Vec<TableFacts>, Check) {
    // Each unlogged table has a check of its own; it is checked like the others otherwise.
    let as_logged =
        |table: &TableFacts| TableFacts { logged: !filter.skips_unlogged(table), ..table.clone() };
    let as_logged: Vec<_> = all.iter().map(as_logged).collect();
    let acts_on = |table: &TableFacts| route.acts_on(&table.schema, &table.name);
    let found = match filter.captured(&as_logged, |table| acts_on(table) && route.fits(&table.columns)) {
        Ok(found) => found,
        Err(error) => return (Vec::new(), Check::error(codes::TABLES, &error)),
    };
    let tables: Vec<_> =
        all.iter().filter(|table| found.iter().any(|other| other.oid == table.oid)).cloned().collect();
    if tables.is_empty() && may_be_none {
        let check = match route.outbox() {
            Some(_) => Check::ok(codes::TABLES, "captured: no table, only logical messages"),
            None => Check::warning(codes::TABLES, none_yet(filter, all)),
        };
        return (tables, check);
    }
    if let Some(table) = tables.iter().find(|table| !acts_on(table)) {
        let error = excluded_by_predicate(&table.schema, &table.name);
        return (tables, Check::error(codes::TABLES, &error));
    }
    if tables.is_empty() {
        return (tables, Check::error(codes::TABLES, &no_table(filter, route, all)));
    }
    let names: Vec<_> = tables.iter().map(name).collect();
    let why = if filter.names_tables() { "" } else { " for its columns: table.include.list is not set" };
    let check = Check::ok(codes::TABLES, format!("captured{why}: {}", names.join(", ")));
    (tables, check)
}

/// The cause of reading rows of the captured tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// The next start.
    Snapshot,
    /// The next start, if it is the first with a slot that exists.
    FirstStart,
    /// A signal.
    Signal,
}

/// Makes the check of a table that the role may not read.
pub(super) fn unreadable(reader: Reader, lacking: Unreadable, table: &TableFacts, role: &str) -> Check {
    let shown = name(table);
    let what = if lacking.hides_rows { "all rows" } else { "the rows" };
    let title = format!("role {role:?} may not read {what} of table {shown}");
    let check = match reader {
        Reader::Snapshot => {
            Check::failure(codes::READABLE, title).detail("the next start sends them (snapshot.mode)")
        }
        Reader::FirstStart => Check::note(codes::READABLE, title)
            .detail("a first start with the slot that exists sends them (snapshot.mode)"),
        Reader::Signal => {
            Check::warning(codes::READABLE, title).detail("a snapshot that a signal asks for needs them")
        }
    };
    check.fix(lacking.grants(table, role))
}

/// Makes the check of a table whose inserts do not reach the WAL.
pub(super) fn unlogged(table: &TableFacts) -> Option<Check> {
    let (shown, quoted) = (name(table), table.quoted());
    (!table.logged).then(|| {
        Check::failure(codes::LOGGED, format!("table {shown} is unlogged: its rows never reach the WAL"))
            .fix(format!("ALTER TABLE {quoted} SET LOGGED;"))
    })
}

/// Returns the checks of tables that are not captured only because they are unlogged.
pub(super) fn passed_over(filter: &TableFilter, all: &[TableFacts]) -> Vec<Check> {
    let is_one =
        |table: &&TableFacts| filter.matches(&table.schema, &table.name) && filter.skips_unlogged(table);
    let told = |table: &TableFacts| {
        let title = format!("table {} is unlogged, and not captured for that", name(table));
        Check::warning(codes::LOGGED, title).fix(format!("ALTER TABLE {} SET LOGGED;", table.quoted()))
    };
    all.iter().filter(is_one).map(told).collect()
}

/// Returns the checks of partitions whose inserts do not reach the WAL.
pub(super) fn unlogged_partitions(versions: &[TableVersion]) -> Vec<Check> {
    let partitions =
        versions.iter().filter(|table| table.oid != table.root && table.storage != Storage::Logged);
    partitions.map(|table| Check::error(codes::LOGGED, &not_in_the_wal(table))).collect()
}

/// Returns the checks of tables that are published and almost captured.
pub(super) fn near_misses(
    filter: &TableFilter,
    route: &Route,
    publication: &PublicationFacts,
    captured: &[TableFacts],
    all: &[TableFacts],
) -> Vec<Check> {
    let is_captured = |table: &&TableFacts| {
        captured.iter().any(|other| other.oid == table.oid || table.root == Some(other.oid))
    };
    let published = all.iter().filter(|table| !is_captured(table) && publication.publishes(table));
    let misses = published.filter_map(|table| {
        let reason = filter.excluded_by(&table.schema, &table.name).unwrap_or("columns");
        let shown = name(table);
        let warning = near_miss(route, &shown, &table.columns, reason).or_else(|| {
            let named = publication.tables.contains(&table.oid) && !reason.ends_with(".exclude.list");
            named.then(|| in_the_publication(&shown, reason))
        })?;
        let pattern = fancy_regex::escape(&shown);
        Some(Check::warning(codes::NEAR_MISSES, warning).fix(format!(
            "to send its rows: add {pattern} to table.include.list; if they are not wanted: add it to \
             table.exclude.list"
        )))
    });
    misses.collect()
}

/// Binds a table to the router; returns the outbox, if the router's columns exist, and the checks with the
/// assumed columns.
pub(in crate::cli) fn bind(
    router: &EventRouter,
    table: &TableFacts,
    columns: Vec<ColumnDescription>,
) -> (Option<Outbox>, Vec<Check>) {
    let bound = router.bind(&relation_of(table, &columns), &columns);
    let assumptions = bound.as_ref().map_or(Vec::new(), |bound| bound.assumptions().to_vec());
    let checks = columns_found(table, &assumptions, bound.as_ref().err());
    let mapped = router.required_columns().into_iter().map(|(option, column)| {
        let twin = assumptions.iter().find(|known| known.option == option && known.absent == column);
        (option, twin.map_or_else(|| column.to_owned(), |twin| twin.used.clone()))
    });
    let outbox = Outbox { table: table.clone(), mapped: mapped.collect(), columns };
    (bound.is_ok().then_some(outbox), checks)
}

/// Binds a table to the EventRouter among other transforms that receives its rows, if there is one.
pub(in crate::cli) fn bind_routed(
    route: &Route,
    table: &TableFacts,
    columns: &[ColumnDescription],
) -> (Option<(EventRouter, Outbox)>, Vec<Check>) {
    let bound = match route.bind(&relation_of(table, columns), columns) {
        Ok(bound) => bound,
        Err(error) => return (None, vec![Check::error(codes::COLUMNS, &error)]),
    };
    let Some(router) = bound.event_router() else { return (None, Vec::new()) };
    let (outbox, checks) = bind(router, table, columns.to_vec());
    (outbox.map(|outbox| (router.clone(), outbox)), checks)
}

fn columns_found(table: &TableFacts, assumptions: &[Assumption], error: Option<&BindError>) -> Vec<Check> {
    if let Some(error) = error {
        return vec![Check::error(codes::COLUMNS, error)];
    }
    let fits =
        Check::ok(codes::COLUMNS, format!("table {} has every column that the router needs", name(table)));
    let assumed = assumptions.iter().map(|assumption| Check::note(codes::COLUMNS, assumption.to_string()));
    std::iter::once(fits).chain(assumed).collect()
}

/// Returns the checks of columns for which NULL is harmful.
pub(super) fn nullable(outbox: &Outbox) -> Vec<Check> {
    let harms = [
        (EVENT_ID, "consumers cannot recognise a repeat of an event without an id"),
        (
            EVENT_KEY,
            "records without a key go to any partition, in no order, and compacted topics refuse them",
        ),
        (ROUTE, "a row without it has no topic, and stops the relay (exit 6)"),
    ];
    let (shown, table) = (name(&outbox.table), outbox.table.quoted());
    let told = harms.iter().filter_map(|(option, harm)| {
        let column = outbox.column(option).filter(|column| outbox.may_be_null(column))?;
        let title = format!("column \"{column}\" of table {shown} ({option}) may be NULL");
        let quoted = postgres_protocol::escape::escape_identifier(column);
        let fix = format!("ALTER TABLE {table} ALTER COLUMN {quoted} SET NOT NULL;");
        Some(Check::warning(codes::NULLABLE, title).detail(*harm).fix(fix))
    });
    told.collect()
}

/// Makes the check of columns that suggest that a program polls the table. They remain after
/// its removal.
pub(super) fn polled(outbox: &Outbox, index_conditions: &[String]) -> Option<Check> {
    let typed = outbox.columns.iter().map(|column| (column.name.clone(), type_name(&column.kind)));
    let marks = Mark::by_indexes(marks_among(&typed.collect::<Vec<_>>()), index_conditions);
    let mark = marks.first()?;
    let columns: Vec<_> =
        marks.iter().filter_map(Mark::column).map(|column| format!("\"{column}\"")).collect();
    let (what, columns) =
        (if columns.len() == 1 { "column" } else { "one of the columns" }, columns.join(", "));
    let title = format!(
        "{what} {columns} of table {} looks like the mark of a program that polls it",
        name(&outbox.table)
    );
    let check = Check::note(codes::POLLED, title);
    let check = check.detail("as long as it runs, it sends the rows as well, and consumers get them twice");
    Some(mark.migrate_command("FILE").into_iter().fold(check, Check::fix))
}

/// Returns the name of a type, or an empty text if it is not a base type.
fn type_name(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Base { name } => name.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::report::Outcome::{Failure, Note, Ok, Warning};
    use super::*;
    use crate::connect::NameAdjustment;
    use crate::connect::column::{ColumnOptions, ColumnRules, TypeKind};
    use crate::connect::converter::Converters;
    use crate::outbox::{EventContext, EventRouterOptions};
    use crate::postgres::TableOptions;
    use crate::wal::Oid;

    const TEXT: u32 = 25;

    pub(in super::super) fn table(oid: u32) -> TableFacts {
        TableFacts {
            oid: Oid(oid),
            schema: "public".to_owned(),
            name: "outbox".to_owned(),
            partitioned: false,
            root: None,
            logged: true,
            columns: ["id", "aggregateid", "payload", "aggregatetype"].map(str::to_owned).to_vec(),
        }
    }

    pub(in super::super) fn outbox() -> Outbox {
        let names = ["id", "aggregateid", "payload", "aggregatetype", "more"];
        let (outbox, _) = bind(&router(), &table(1), names.map(|name| column(name, true)).to_vec());
        outbox.unwrap()
    }

    pub(in super::super) fn router() -> EventRouter {
        let context = EventContext {
            option_prefix: String::new(),
            topic_prefix: "t".to_owned(),
            topic_delimiter: ".".to_owned(),
            naming: Default::default(),
            run_id: None,
            columns: ColumnOptions::parse(&|_| None).unwrap(),
            condition: None,
            rules: ColumnRules::default(),
            schema_names: NameAdjustment::None,
            field_names: NameAdjustment::None,
        };
        let options = EventRouterOptions::parse(&|_| None).unwrap();
        EventRouter::new(options, Converters::parse(&|_| None).unwrap(), context).unwrap()
    }

    fn column(name: &str, not_null: bool) -> ColumnDescription {
        ColumnDescription {
            name: name.to_owned(),
            type_oid: Oid(TEXT),
            type_modifier: -1,
            kind: TypeKind::Base { name: "text".to_owned() },
            not_null,
            default: None,
            key_position: None,
        }
    }

    #[test]
    fn tables_are_found_by_name_or_by_columns() {
        let named = |include: &[&str]| {
            let table_include = include.iter().map(|entry| (*entry).to_owned()).collect();
            TableFilter::new(&TableOptions { table_include, ..TableOptions::default() }).unwrap()
        };
        let other = TableFacts { name: "orders".to_owned(), columns: vec!["id".to_owned()], ..table(2) };
        let all = [table(1), other];
        let cases = [
            (named(&["public.outbox"]), 1, Ok),
            (named(&[]), 1, Ok),
            (named(&["public.*"]), 2, Ok),
            (named(&["public.out"]), 0, Failure),
        ];
        for (filter, count, outcome) in cases {
            let (tables, check) = captured(&filter, &Route::Outbox(router()), false, &all);
            assert_eq!((tables.len(), check.outcome), (count, outcome), "{check:?}");
        }
    }

    #[test]
    fn an_unlogged_table_is_captured_and_reported() {
        let unlogged_table = TableFacts { logged: false, ..table(1) };
        let filter = TableFilter::new(&TableOptions::default()).unwrap();
        let (tables, check) = captured(&filter, &Route::Outbox(router()), false, &[unlogged_table]);
        assert_eq!(check.outcome, Ok);
        assert_eq!(unlogged(&tables[0]).map(|check| check.outcome), Some(Failure));
        assert_eq!(unlogged(&table(1)), None);
    }

    #[test]
    fn an_unlogged_table_that_nothing_names_is_reported_and_not_captured() {
        let all = [TableFacts { logged: false, ..table(1) }, table(2)];
        let filter = TableFilter::new(&TableOptions::default()).unwrap().of_changes();
        let (tables, check) = captured(&filter, &Route::Outbox(router()), false, &all);
        assert_eq!((tables.len(), check.outcome), (1, Ok));
        let told: Vec<_> = passed_over(&filter, &all).into_iter().map(|check| check.outcome).collect();
        assert_eq!(told, [Warning]);
    }

    #[test]
    fn tables_that_are_nearly_captured_are_reported() {
        let table_include = vec!["public.outbox".to_owned()];
        let table_exclude = vec!["public.archive".to_owned()];
        let options = TableOptions { table_include, table_exclude, ..TableOptions::default() };
        let filter = TableFilter::new(&options).unwrap();
        let named = |oid, name: &str| TableFacts { name: name.to_owned(), ..table(oid) };
        let orders = TableFacts { columns: vec!["id".to_owned()], ..named(3, "orders") };
        let all = [table(1), named(2, "outbox_2"), orders, named(4, "archive"), named(5, "unpublished")];
        let publication = PublicationFacts {
            all_tables: false,
            inserts: true,
            operations: "insert".to_owned(),
            via_root: false,
            tables: vec![Oid(1), Oid(2), Oid(3), Oid(4)],
            published: Vec::new(),
            handover: None,
        };
        let told = near_misses(&filter, &Route::Outbox(router()), &publication, &all[..1], &all);
        let titles: Vec<_> = told.iter().map(|check| check.title.as_str()).collect();
        assert_eq!(titles.len(), 2, "{titles:?}");
        assert!(titles[0].contains("public.outbox_2 has every column"), "{titles:?}");
        assert!(titles[1].contains("public.orders is in the publication"), "{titles:?}");
    }

    #[test]
    fn twins_are_noted_and_missing_columns_named() {
        let twins = ["id", "aggregate_id", "payload", "aggregate_type"].map(|name| column(name, true));
        let (outbox, checks) = bind(&router(), &table(1), twins.to_vec());
        assert_eq!(outbox.unwrap().route_column(), Some("aggregate_type"));
        let outcomes: Vec<_> = checks.iter().map(|check| check.outcome).collect();
        assert_eq!(outcomes, [Ok, Note, Note]);
        let (outbox, checks) = bind(&router(), &table(1), vec![column("id", true)]);
        assert!(outbox.is_none() && checks[0].outcome == Failure && checks[0].fix.is_some(), "{checks:?}");
    }

    #[test]
    fn columns_that_may_be_null_are_reported() {
        let columns = [("id", true), ("aggregateid", false), ("payload", false), ("aggregatetype", false)];
        let columns = columns.map(|(name, not_null)| column(name, not_null));
        let outbox = bind(&router(), &table(1), columns.to_vec()).0.unwrap();
        let checks = nullable(&outbox);
        assert!(outbox.key_may_be_null());
        assert_eq!(checks.len(), 2, "the payload may be NULL: {checks:?}");
        let fix = "ALTER TABLE \"public\".\"outbox\" ALTER COLUMN \"aggregateid\" SET NOT NULL;";
        assert_eq!(checks[0].fix.as_deref(), Some(fix));
    }
}
