//! The include and exclude lists of table names.

use super::facts::TableFacts;
use crate::connect::{NamePatterns, OptionError, OptionReader};
use crate::postgres::{Error, SnapshotOptions, TableOptions};

/// Captured tables: Debezium's include and exclude lists.
#[derive(Debug, Default)]
pub struct TableFilter {
    schema_include: NamePatterns,
    schema_exclude: NamePatterns,
    table_include: NamePatterns,
    /// The entries of `table.include.list` as they are written.
    entries: Vec<String>,
    table_exclude: NamePatterns,
    /// True if rows become change events. A router's tables are those of its outbox.
    is_of_changes: bool,
    /// `table.ignore.builtin=false`
    includes_builtin: bool,
    /// The signalling table.
    signals: Option<String>,
    /// `snapshot.include.collection.list`
    in_snapshot: NamePatterns,
}

/// The one table in users' schemas that Debezium treats as one of the server's.
const OF_POSTGIS: &str = "spatial_ref_sys";

impl TableFilter {
    /// Compiles the lists. Entries match the whole of `schema.table` (or of the schema) and ignore case, as Debezium's.
    ///
    /// # Errors
    /// When an entry is no regular expression; the first one.
    pub fn new(tables: &TableOptions) -> Result<Self, OptionError> {
        OptionReader::alone(&|_| None, |options| Ok(Self::read(options, tables)))
    }

    /// Reads the filter from the options, and collects every mistake.
    pub fn read(options: &mut OptionReader<'_>, tables: &TableOptions) -> Self {
        Self {
            schema_include: NamePatterns::read(options, "schema.include.list", &tables.schema_include),
            schema_exclude: NamePatterns::read(options, "schema.exclude.list", &tables.schema_exclude),
            table_include: NamePatterns::read(options, "table.include.list", &tables.table_include),
            entries: tables.table_include.clone(),
            table_exclude: NamePatterns::read(options, "table.exclude.list", &tables.table_exclude),
            is_of_changes: false,
            includes_builtin: tables.includes_builtin,
            signals: tables.signals.clone(),
            in_snapshot: NamePatterns::default(),
        }
    }

    /// Adds the tables of `snapshot.include.collection.list`.
    #[must_use]
    pub fn with_snapshot(self, options: &mut OptionReader<'_>, snapshot: &SnapshotOptions) -> Self {
        let in_snapshot = NamePatterns::read(options, "snapshot.include.collection.list", &snapshot.include);
        Self { in_snapshot, ..self }
    }

    /// Marks the filter as one of change events.
    #[must_use]
    pub fn of_changes(self) -> Self {
        Self { is_of_changes: true, ..self }
    }

    /// Returns whether a table is unlogged and skipped for it: its changes never reach the WAL. One that a
    /// list names is meant, and refused. One that an expression finds, or that is captured with all others,
    /// is often a temporary one of a user.
    #[must_use]
    pub fn skips_unlogged(&self, table: &TableFacts) -> bool {
        let name = format!("{}.{}", table.schema, table.name);
        let is_named = |entry: &String| entry.trim().replace('\\', "").eq_ignore_ascii_case(&name);
        !table.logged && self.is_of_changes && !self.entries.iter().any(is_named) && !self.is_signals(table)
    }

    /// Returns whether tables are named at all. If not, a table is captured for its columns.
    #[must_use]
    pub fn names_tables(&self) -> bool {
        !self.table_include.is_empty()
    }

    /// Returns whether a table of this name is captured, as far as names decide.
    #[must_use]
    pub fn matches(&self, schema: &str, table: &str) -> bool {
        self.excluded_by(schema, table).is_none()
    }

    /// Returns the option that excludes a table of this name.
    #[must_use]
    pub fn excluded_by(&self, schema: &str, table: &str) -> Option<&'static str> {
        let full = format!("{schema}.{table}");
        if self.signals.as_ref() == Some(&full) {
            return None;
        }
        let rules = [
            ("table.ignore.builtin", !self.includes_builtin && table.eq_ignore_ascii_case(OF_POSTGIS)),
            ("schema.exclude.list", self.schema_exclude.matches(schema)),
            ("table.exclude.list", self.table_exclude.matches(&full)),
            ("schema.include.list", !self.schema_include.is_empty() && !self.schema_include.matches(schema)),
            ("table.include.list", !self.table_include.is_empty() && !self.table_include.matches(&full)),
        ];
        rules.into_iter().find_map(|(list, leaves_out)| leaves_out.then_some(list))
    }

    /// Returns whether it is the signalling table, whose rows are in no snapshot.
    #[must_use]
    pub fn is_signals(&self, table: &TableFacts) -> bool {
        self.signals.as_ref().is_some_and(|signals| *signals == format!("{}.{}", table.schema, table.name))
    }

    /// Returns whether a snapshot of all captured tables has the rows of this one.
    #[must_use]
    pub fn is_in_snapshot(&self, table: &TableFacts) -> bool {
        let name = format!("{}.{}", table.schema, table.name);
        !self.is_signals(table) && (self.in_snapshot.is_empty() || self.in_snapshot.matches(&name))
    }

    /// Returns whether a snapshot of all captured tables leaves none out.
    #[must_use]
    pub fn has_whole_snapshots(&self) -> bool {
        self.in_snapshot.is_empty()
    }

    /// Returns the names in whose order a snapshot reads tables, as Debezium does.
    #[must_use]
    pub const fn order(&self) -> &NamePatterns {
        &self.table_include
    }

    /// Returns the captured ones among `tables`. A partition is captured with its root and not named itself,
    /// unless it is matched and the root is not.
    ///
    /// # Errors
    /// When a captured table never reaches the WAL.
    pub fn captured<'t>(
        &self,
        tables: &'t [TableFacts],
        is_outbox: impl Fn(&TableFacts) -> bool,
    ) -> Result<Vec<&'t TableFacts>, Error> {
        let matched = |table: &TableFacts| {
            self.matches(&table.schema, &table.name)
                && !self.skips_unlogged(table)
                && (self.names_tables() || is_outbox(table))
        };
        let root_matched = |table: &TableFacts| {
            table.root.is_some_and(|root| tables.iter().any(|other| other.oid == root && matched(other)))
        };
        let captured: Vec<_> = tables.iter().filter(|table| matched(table) && !root_matched(table)).collect();
        match captured.iter().find(|table| !table.logged) {
            Some(table) => Err(Error::Precondition {
                problem: format!(
                    "table {}.{} is unlogged: its rows never reach the WAL",
                    table.schema, table.name
                ),
                fix: format!(
                    "ALTER TABLE {} SET LOGGED; or leave it out by table.exclude.list",
                    table.quoted()
                ),
            }),
            None => Ok(captured),
        }
    }
}

impl TableFacts {
    /// Returns the name, quoted for SQL.
    #[must_use]
    pub fn quoted(&self) -> String {
        let quote = postgres_protocol::escape::escape_identifier;
        format!("{}.{}", quote(&self.schema), quote(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::Oid;

    fn filter(include: &[&str], exclude: &[&str]) -> TableFilter {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        let options = TableOptions {
            table_include: own(include),
            table_exclude: own(exclude),
            ..TableOptions::default()
        };
        TableFilter::new(&options).unwrap()
    }

    fn table(oid: u32, name: &str, root: Option<u32>) -> TableFacts {
        TableFacts {
            oid: Oid(oid),
            schema: "public".to_owned(),
            name: name.to_owned(),
            partitioned: false,
            root: root.map(Oid),
            logged: true,
            columns: Vec::new(),
        }
    }

    #[test]
    fn a_table_that_is_included_may_be_excluded() {
        assert!(filter(&["public.*"], &[]).matches("public", "outbox"));
        assert!(!filter(&["public.*"], &["public.outbox"]).matches("public", "outbox"));
        assert!(!filter(&["public.outbox"], &[]).matches("other", "outbox"));
    }

    #[test]
    fn the_signalling_table_is_captured_whatever_the_lists_say() {
        let table_include = vec!["public.a".to_owned()];
        let signals = Some("public.signals".to_owned());
        let options = TableOptions { table_include, signals, ..TableOptions::default() };
        let filter = TableFilter::new(&options).unwrap();
        assert!(filter.matches("public", "signals") && !filter.matches("public", "b"));
    }

    #[test]
    fn the_table_of_postgis_is_captured_only_when_that_is_asked_for() {
        let table_include = vec!["gis.*".to_owned()];
        for includes_builtin in [false, true] {
            let table_include = table_include.clone();
            let options = TableOptions { table_include, includes_builtin, ..TableOptions::default() };
            let filter = TableFilter::new(&options).unwrap();
            assert_eq!(filter.matches("gis", "Spatial_ref_sys"), includes_builtin);
            assert!(
                filter.matches("gis", "spatial_ref_sys_2") && !filter.matches("public", "spatial_ref_sys")
            );
        }
    }

    #[test]
    fn a_snapshot_has_the_tables_that_its_list_names_and_no_signals() {
        let options = TableOptions { signals: Some("public.s".to_owned()), ..TableOptions::default() };
        let filter = |include: &[&str]| {
            let include = include.iter().map(|pattern| (*pattern).to_owned()).collect();
            let snapshot = SnapshotOptions { include, ..SnapshotOptions::default() };
            TableFilter::new(&options).unwrap().with_snapshot(&mut OptionReader::new(&|_| None), &snapshot)
        };
        let cases: [(&[&str], &[&str]); 3] =
            [(&[], &["a", "b"]), (&["PUBLIC.a", "public.s"], &["a"]), (&["a"], &[])];
        for (include, expected) in cases {
            let names = ["a", "b", "s"];
            let (filter, kept) = (filter(include), |name: &&str| table(1, name, None));
            let kept: Vec<_> = names.into_iter().filter(|name| filter.is_in_snapshot(&kept(name))).collect();
            assert_eq!(kept, expected, "{include:?}");
        }
    }

    #[test]
    fn an_unlogged_table_is_left_aside_unless_it_is_named() {
        let mut tables = [table(1, "a", None), table(2, "b", None)];
        tables[1].logged = false;
        let count = |filter: &TableFilter| filter.captured(&tables, |_| true).ok().map(|found| found.len());
        for (include, of_router, of_changes) in [
            (&[] as &[&str], None, Some(1)),
            (&["public.*"], None, Some(1)),
            (&["public.a", "PUBLIC\\.b"], None, None),
            (&["public.a", "public.b"], None, None),
            (&["public.a"], Some(1), Some(1)),
        ] {
            assert_eq!(count(&filter(include, &[])), of_router, "{include:?}");
            assert_eq!(count(&filter(include, &[]).of_changes()), of_changes, "{include:?}");
        }
    }

    #[test]
    fn a_partition_goes_with_its_root() {
        let tables = [table(1, "outbox", None), table(2, "outbox_1", Some(1)), table(3, "other", None)];
        let names = |filter: &TableFilter| -> Vec<String> {
            filter.captured(&tables, |_| false).unwrap().iter().map(|t| t.name.clone()).collect()
        };
        assert_eq!(names(&filter(&["public.outbox.*"], &[])), ["outbox"]);
        assert_eq!(names(&filter(&["public.outbox_1"], &[])), ["outbox_1"]);
        assert_eq!(names(&filter(&[], &[])), Vec::<String>::new());
    }
}
