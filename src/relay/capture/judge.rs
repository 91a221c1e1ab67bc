//! Whether a relation that the stream describes is captured: decided from what is known of it, without asking anybody.

use super::identity::{CapturedTable, CapturedTables};
use crate::outbox::EventRouter;
use crate::pgoutput::Relation;
use crate::postgres::{PublicationVersion, RelationFacts, TableFacts, TableFilter};

/// What decides.
#[derive(Clone, Copy)]
pub(in crate::relay) struct Rules<'r> {
    pub(in crate::relay) filter: &'r TableFilter,
    pub(in crate::relay) router: &'r EventRouter,
    pub(in crate::relay) captured: &'r CapturedTables,
}

/// What a relation is to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) enum Verdict {
    /// Its rows are sent, as those of this table.
    Captured(CapturedTable),
    /// The list names it, and the router's predicate leaves it out.
    LeftOut,
    /// Its rows are not sent.
    NotCaptured(NotCaptured),
    /// It may have been a partition of one of these.
    Unknown(Vec<String>),
}

/// Why the rows of a relation are not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) struct NotCaptured {
    /// One word from a fixed set: an option, or what is missing.
    pub(in crate::relay) reason: &'static str,
    /// What a person should know, when only little is missing.
    pub(in crate::relay) near_miss: Option<String>,
}

/// The catalog of today, as far as it matters for one relation.
pub(in crate::relay) struct Today<'t> {
    /// The relation; none when it is gone.
    pub(in crate::relay) facts: Option<&'t RelationFacts>,
    pub(in crate::relay) publication: &'t PublicationVersion,
    /// The captured tables that are still there.
    pub(in crate::relay) roots: &'t [TableFacts],
}

impl Rules<'_> {
    /// Judges by identity, by name, and by the table that it is a partition of today. None of them tells of a table that is
    /// in no partition tree today, or gone: see [`Rules::judge_former`].
    pub(in crate::relay) fn judge(
        &self,
        relation: &Relation,
        facts: Option<&RelationFacts>,
    ) -> Option<Verdict> {
        let own = CapturedTable::new(relation.oid, relation.oid, &relation.schema, &relation.table);
        let columns = names(relation);
        let known = self.captured.get(relation.oid);
        let root = facts.and_then(|facts| facts.root.as_ref()).filter(|root| {
            self.captured.get(root.oid).is_some() || self.mismatch(&root.schema, &root.name, &columns).is_ok()
        });
        let own = CapturedTable { root: root.map_or(own.root, |root| root.oid.0), ..own };
        let mismatch = match (self.mismatch(&relation.schema, &relation.table, &columns), known) {
            // A new name that is captured too is the table's name from now on, as it is for Debezium.
            (Ok(()), Some(known)) => {
                return Some(Verdict::Captured(CapturedTable { root: known.root, ..own }));
            }
            (Ok(()), None) => return Some(Verdict::Captured(own)),
            (Err(_), Some(known)) => return Some(Verdict::Captured(known)),
            (Err(LEFT_OUT), None) => return Some(Verdict::LeftOut),
            (Err(reason), None) => reason,
        };
        if root.is_some() {
            return Some(Verdict::Captured(own));
        }
        let may_have_been_ours = facts.is_none_or(|facts| facts.root.is_none() && !facts.inherits)
            && !mismatch.ends_with(".exclude.list")
            && mismatch != "predicate";
        (!may_have_been_ours).then(|| Verdict::NotCaptured(self.passed(relation, mismatch)))
    }

    /// Judges a table that is in no partition tree today, or gone. If the publication does not publish it by itself, its
    /// rows have come through a table that it was a partition of.
    pub(in crate::relay) fn judge_former(&self, relation: &Relation, today: &Today<'_>) -> Verdict {
        let columns = names(relation);
        let publication = today.publication;
        let member = publication.members.iter().any(|member| member.table == relation.oid);
        let by_itself =
            today.facts.is_some() && (member || publication.all_tables || !publication.schemas.is_empty());
        let same: Vec<_> = today
            .roots
            .iter()
            .filter(|root| root.partitioned && same_columns(&root.columns, &columns))
            .collect();
        let looks_like_ours = has_most_columns(self.router, &columns);
        let alike: Vec<_> = match same.is_empty() {
            true if looks_like_ours && !by_itself => {
                today.roots.iter().filter(|root| root.partitioned).collect()
            }
            _ => same,
        };
        // The relation itself is one of the others, when it is named.
        let others = publication.others || member;
        let only_ours = !publication.all_tables && publication.schemas.is_empty() && !others;
        match alike.as_slice() {
            [root] if only_ours && !by_itself => {
                let own = CapturedTable::new(relation.oid, root.oid, &relation.schema, &relation.table);
                Verdict::Captured(own)
            }
            [] if looks_like_ours && only_ours && !by_itself => {
                Verdict::Unknown(today.roots.iter().map(full_name).collect())
            }
            [] if looks_like_ours && !member && !self.gone(today).is_empty() => {
                Verdict::Unknown(self.gone(today))
            }
            [] => self.not_listed(relation, member),
            _ if member => self.not_listed(relation, member),
            several => Verdict::Unknown(several.iter().map(|root| full_name(root)).collect()),
        }
    }

    /// Captured tables that had partitions and are gone.
    fn gone(&self, today: &Today<'_>) -> Vec<String> {
        let known = self.captured.list();
        let had_partitions =
            |root: &CapturedTable| known.iter().any(|table| table.root == root.oid && table.oid != root.oid);
        let is_there = |root: &CapturedTable| today.roots.iter().any(|there| there.oid == root.oid());
        let roots = known.iter().filter(|table| table.root == table.oid);
        let gone = roots.filter(|root| !is_there(root) && had_partitions(root));
        gone.map(CapturedTable::full_name).collect()
    }

    fn not_listed(&self, relation: &Relation, member: bool) -> Verdict {
        let reason = self.filter.left_out_by(&relation.schema, &relation.table).unwrap_or("columns");
        let mut passed = self.passed(relation, reason);
        if member && passed.near_miss.is_none() {
            let table = format!("{}.{}", relation.schema, relation.table);
            passed.near_miss = Some(in_the_publication(&table, reason));
        }
        Verdict::NotCaptured(passed)
    }

    /// What keeps a table of this name and these columns from being captured.
    fn mismatch(&self, schema: &str, table: &str, columns: &[String]) -> Result<(), &'static str> {
        if let Some(list) = self.filter.left_out_by(schema, table) {
            return Err(list);
        }
        match (self.filter.names_tables(), self.router.acts_on(schema, table)) {
            (true, true) => Ok(()),
            (true, false) => Err(LEFT_OUT),
            (false, false) => Err("predicate"),
            (false, true) if self.router.fits(columns) => Ok(()),
            (false, true) => Err("columns"),
        }
    }

    fn passed(&self, relation: &Relation, reason: &'static str) -> NotCaptured {
        let columns = names(relation);
        let table = format!("{}.{}", relation.schema, relation.table);
        NotCaptured { reason, near_miss: near_miss(self.router, &table, &columns, reason) }
    }
}

/// Marks what [`Verdict::LeftOut`] says.
const LEFT_OUT: &str = "left out";

/// What a person should know of a table that is not captured and has most of the columns that the router needs.
pub(crate) fn near_miss(
    router: &EventRouter,
    table: &str,
    columns: &[String],
    reason: &str,
) -> Option<String> {
    if reason.ends_with(".exclude.list") || reason == "predicate" || !has_most_columns(router, columns) {
        return None;
    }
    let missing = router.missing(columns);
    if missing.is_empty() {
        return Some(format!(
            "table {table} has every column that the router needs, but {reason} leaves it out: its rows are \
             not sent"
        ));
    }
    let lacks: Vec<String> =
        missing.iter().map(|(option, column)| format!("\"{column}\" ({option})")).collect();
    Some(format!(
        "table {table} looks like an outbox table, but lacks {}: its rows are not sent",
        lacks.join(", ")
    ))
}

/// What a person should know of a table that the publication names and nothing captures.
pub(crate) fn in_the_publication(table: &str, reason: &str) -> String {
    match reason {
        "columns" => format!(
            "table {table} is in the publication, but lacks columns that the router needs: its rows are not \
             sent"
        ),
        list => {
            format!("table {table} is in the publication, but {list} leaves it out: its rows are not sent")
        }
    }
}

fn has_most_columns(router: &EventRouter, columns: &[String]) -> bool {
    router.missing(columns).len().saturating_mul(2) < router.required_columns().len()
}

fn names(relation: &Relation) -> Vec<String> {
    relation.columns.iter().map(|column| column.name.clone()).collect()
}

fn same_columns(left: &[String], right: &[String]) -> bool {
    left.len() == right.len() && left.iter().all(|column| right.contains(column))
}

fn full_name(table: &TableFacts) -> String {
    format!("{}.{}", table.schema, table.name)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::connect::NameAdjustment;
    use crate::connect::column::{ColumnOptions, ColumnRules};
    use crate::connect::converter::Converters;
    use crate::outbox::{EventContext, EventRouterOptions};
    use crate::pgoutput::{Column, ReplicaIdentity};
    use crate::postgres::{Member, NamedTable, TableOptions};
    use crate::wal::Oid;

    const OUTBOX: [&str; 5] = ["id", "aggregatetype", "aggregateid", "type", "payload"];
    const RENAMED: [&str; 5] = ["id", "aggregatetype", "aggregateid", "type", "body"];
    const ORDERS: [&str; 2] = ["id", "total"];

    pub(in crate::relay) fn router() -> EventRouter {
        let context = EventContext {
            option_prefix: String::new(),
            topic_prefix: "t".to_owned(),
            topic_delimiter: ".".to_owned(),
            run_id: None,
            columns: ColumnOptions::default(),
            condition: None,
            rules: ColumnRules::default(),
            schema_names: NameAdjustment::None,
            field_names: NameAdjustment::None,
        };
        let options = EventRouterOptions::parse(&|_| None).unwrap();
        EventRouter::new(options, Converters::parse(&|_| None).unwrap(), context).unwrap()
    }

    fn filter(include: &[&str], exclude: &[&str]) -> TableFilter {
        let own = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect();
        let options = TableOptions {
            table_include: own(include),
            table_exclude: own(exclude),
            ..TableOptions::default()
        };
        TableFilter::new(&options).unwrap()
    }

    fn relation(oid: u32, name: &str, columns: &[&str]) -> Relation {
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            type_oid: Oid(25),
            type_modifier: -1,
            in_identity: false,
        };
        Relation {
            oid: Oid(oid),
            schema: "public".to_owned(),
            table: name.to_owned(),
            replica_identity: ReplicaIdentity::Default,
            columns: columns.iter().map(column).collect(),
        }
    }

    fn known(tables: &[(u32, u32, &str)]) -> CapturedTables {
        let captured = CapturedTables::default();
        for (oid, root, name) in tables {
            captured.add(CapturedTable::new(Oid(*oid), Oid(*root), "public", name));
        }
        captured
    }

    /// `root` is that of a partition; none is a table of its own.
    fn facts(root: Option<(u32, &str)>, inherits: bool) -> RelationFacts {
        let root = root.map(|(oid, name)| NamedTable {
            oid: Oid(oid),
            schema: "public".to_owned(),
            name: name.to_owned(),
        });
        RelationFacts { schema: "public".to_owned(), name: "any".to_owned(), root, inherits }
    }

    fn shown(verdict: Verdict) -> String {
        match verdict {
            Verdict::Captured(table) => format!("{} of {}", table.name, table.root),
            Verdict::LeftOut => "left out".to_owned(),
            Verdict::NotCaptured(passed) => {
                format!("{}{}", passed.reason, if passed.near_miss.is_some() { ", nearly" } else { "" })
            }
            Verdict::Unknown(candidates) => format!("may be of {}", candidates.join(", ")),
        }
    }

    #[test]
    fn identity_comes_before_names_and_columns() {
        let (list, none) = (filter(&["public.outbox"], &["public.archive"]), filter(&[], &[]));
        let captured = known(&[(1, 1, "outbox"), (2, 1, "outbox_1")]);
        let own = facts(None, false);
        let cases = [
            ("by name", &list, relation(9, "outbox", &ORDERS), Some(&own), "outbox of 9"),
            ("renamed", &list, relation(1, "old", &OUTBOX), Some(&own), "outbox of 1"),
            ("a column renamed", &none, relation(1, "outbox", &RENAMED), Some(&own), "outbox of 1"),
            ("renamed, and there is no list", &none, relation(1, "new", &OUTBOX), Some(&own), "new of 1"),
            ("a partition that is gone", &list, relation(2, "outbox_1", &OUTBOX), None, "outbox_1 of 1"),
            ("by columns", &none, relation(9, "any", &OUTBOX), Some(&own), "any of 9"),
            (
                "a partition by columns",
                &none,
                relation(9, "outbox_2", &OUTBOX),
                Some(&facts(Some((8, "new")), true)),
                "outbox_2 of 8",
            ),
            (
                "a column is missing",
                &none,
                relation(9, "any", &RENAMED),
                Some(&facts(None, true)),
                "columns, nearly",
            ),
            (
                "a new partition",
                &list,
                relation(9, "outbox_2", &OUTBOX),
                Some(&facts(Some((1, "outbox")), true)),
                "outbox_2 of 1",
            ),
            (
                "a partition of another",
                &list,
                relation(9, "o_1", &ORDERS),
                Some(&facts(Some((8, "o")), true)),
                "table.include.list",
            ),
            (
                "a child table",
                &list,
                relation(9, "child", &OUTBOX),
                Some(&facts(None, true)),
                "table.include.list, nearly",
            ),
            ("excluded", &list, relation(9, "archive", &OUTBOX), None, "table.exclude.list"),
            ("another", &list, relation(9, "orders", &ORDERS), Some(&own), "former"),
            ("gone", &list, relation(9, "outbox_3", &OUTBOX), None, "former"),
        ];
        for (what, filter, relation, facts, expected) in cases {
            let rules = Rules { filter, router: &router(), captured: &captured };
            let verdict = rules.judge(&relation, facts).map_or_else(|| "former".to_owned(), shown);
            assert_eq!(verdict, expected, "{what}");
        }
    }

    fn root(oid: u32, name: &str, partitioned: bool, columns: &[&str]) -> TableFacts {
        TableFacts {
            oid: Oid(oid),
            schema: "public".to_owned(),
            name: name.to_owned(),
            partitioned,
            root: None,
            logged: true,
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        }
    }

    fn publication(all_tables: bool, others: bool, members: &[u32]) -> PublicationVersion {
        let member = |table: &u32| Member {
            oid: Oid(0),
            version: 1,
            table: Oid(*table),
            filtered: false,
            listed: false,
        };
        PublicationVersion {
            oid: Oid(5),
            version: 1,
            owner: Oid(10),
            all_tables,
            inserts: true,
            operations: "insert".to_owned(),
            via_root: false,
            others,
            members: members.iter().map(member).collect(),
            schemas: Vec::new(),
        }
    }

    #[test]
    fn a_table_that_is_gone_was_a_partition_of_ours_or_is_asked_for() {
        let (one, plain) = (vec![root(1, "outbox", true, &OUTBOX)], vec![root(1, "outbox", false, &OUTBOX)]);
        let two = vec![root(1, "outbox", true, &OUTBOX), root(2, "second", true, &OUTBOX)];
        let wider = vec![root(1, "outbox", true, &[&OUTBOX[..], &["more"]].concat())];
        let (ours, mixed, all) =
            (publication(false, false, &[1]), publication(false, true, &[1]), publication(true, false, &[]));
        let itself = publication(false, true, &[1, 9]);
        let there = facts(None, false);
        let cases = [
            ("dropped", &OUTBOX[..], None, &ours, &one, "gone of 1"),
            ("detached", &OUTBOX, Some(&there), &ours, &one, "gone of 1"),
            ("the root has a new column", &OUTBOX, None, &ours, &wider, "gone of 1"),
            ("two tables fit", &OUTBOX, None, &ours, &two, "may be of public.outbox, public.second"),
            ("no table has partitions", &OUTBOX, None, &ours, &plain, "may be of public.outbox"),
            ("other columns", &ORDERS, None, &ours, &one, "table.include.list"),
            ("other tables are published", &OUTBOX, None, &mixed, &one, "may be of public.outbox"),
            ("all tables are published", &OUTBOX, None, &all, &one, "may be of public.outbox"),
            ("all tables, detached", &OUTBOX, Some(&there), &all, &one, "may be of public.outbox"),
            ("all tables, no partitions", &OUTBOX, Some(&there), &all, &plain, "table.include.list, nearly"),
            ("all tables, other columns", &ORDERS, Some(&there), &all, &one, "table.include.list"),
            ("published by name", &OUTBOX, Some(&there), &itself, &one, "table.include.list, nearly"),
            (
                "published by name, other columns",
                &ORDERS,
                Some(&there),
                &itself,
                &one,
                "table.include.list, nearly",
            ),
        ];
        let (filter, router, captured) =
            (filter(&["public.outbox"], &[]), router(), known(&[(1, 1, "outbox")]));
        for (what, columns, facts, publication, roots, expected) in cases {
            let rules = Rules { filter: &filter, router: &router, captured: &captured };
            let today = Today { facts, publication, roots };
            assert_eq!(shown(rules.judge_former(&relation(9, "gone", columns), &today)), expected, "{what}");
        }
    }

    #[test]
    fn a_table_that_may_have_been_a_partition_of_one_that_is_gone_is_asked_for() {
        let (filter, router, there) = (filter(&["public.outbox"], &[]), router(), facts(None, false));
        let (all, itself) = (publication(true, false, &[]), publication(false, true, &[9]));
        let (with, without) = (known(&[(1, 1, "outbox"), (2, 1, "outbox_1")]), known(&[(1, 1, "outbox")]));
        let cases = [
            ("dropped", &with, &all, &OUTBOX[..], None, "may be of public.outbox"),
            ("detached", &with, &all, &OUTBOX, Some(&there), "may be of public.outbox"),
            ("other columns", &with, &all, &ORDERS, None, "table.include.list"),
            ("published by name", &with, &itself, &OUTBOX, Some(&there), "table.include.list, nearly"),
            ("it had no partitions", &without, &all, &OUTBOX, None, "table.include.list, nearly"),
        ];
        for (what, captured, publication, columns, facts, expected) in cases {
            let rules = Rules { filter: &filter, router: &router, captured };
            let today = Today { facts, publication, roots: &[] };
            assert_eq!(shown(rules.judge_former(&relation(9, "gone", columns), &today)), expected, "{what}");
        }
    }
}
