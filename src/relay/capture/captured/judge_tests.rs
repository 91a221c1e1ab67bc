//! Verdicts on relations, case by case.

use super::identity::{CapturedTable, CapturedTables};
use super::judge::{Rules, Today, Verdict};
use crate::connect::NameAdjustment;
use crate::connect::column::{ColumnOptions, ColumnRules};
use crate::connect::converter::Converters;
use crate::outbox::{EventContext, EventRouter, EventRouterOptions};
use crate::pgoutput::{Column, Relation, ReplicaIdentity};
use crate::postgres::{
    Member, NamedTable, PublicationVersion, RelationFacts, TableFacts, TableFilter, TableOptions,
};
use crate::relay::capture::route::Route;
use crate::wal::Oid;

const OUTBOX: [&str; 5] = ["id", "aggregatetype", "aggregateid", "type", "payload"];
const RENAMED: [&str; 5] = ["id", "aggregatetype", "aggregateid", "type", "body"];
const ORDERS: [&str; 2] = ["id", "total"];

pub(in crate::relay) fn route() -> Route {
    let context = EventContext {
        option_prefix: String::new(),
        topic_prefix: "t".to_owned(),
        topic_delimiter: ".".to_owned(),
        naming: Default::default(),
        run_id: None,
        columns: ColumnOptions::default(),
        condition: None,
        rules: ColumnRules::default(),
        schema_names: NameAdjustment::None,
        field_names: NameAdjustment::None,
    };
    let options = EventRouterOptions::parse(&|_| None).unwrap();
    Route::Outbox(EventRouter::new(options, Converters::parse(&|_| None).unwrap(), context).unwrap())
}

fn filter(include: &[&str], exclude: &[&str]) -> TableFilter {
    let own = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect();
    let options =
        TableOptions { table_include: own(include), table_exclude: own(exclude), ..TableOptions::default() };
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

/// Makes facts of a relation. `root` is that of a partition; without one it is a table of its own.
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
        Verdict::Excluded => "left out".to_owned(),
        Verdict::NotCaptured(passed) => {
            format!("{}{}", passed.reason, if passed.near_miss.is_some() { ", nearly" } else { "" })
        }
        Verdict::Unknown(candidates) => format!("may be of {}", candidates.join(", ")),
    }
}

#[test]
fn identity_comes_before_names_and_columns() {
    let (list, none) = (filter(&["public.outbox"], &["public.archive"]), filter(&[], &[]));
    let captured = known(&[(1, 1, "outbox"), (2, 1, "outbox_1"), (3, 1, "archive")]);
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
        (
            "an excluded partition",
            &list,
            relation(9, "archive", &OUTBOX),
            Some(&facts(Some((1, "outbox")), true)),
            "table.exclude.list",
        ),
        (
            "an excluded partition that is remembered",
            &list,
            relation(3, "archive", &OUTBOX),
            Some(&facts(Some((1, "outbox")), true)),
            "table.exclude.list",
        ),
        (
            "a partition with a new name that is excluded",
            &list,
            relation(2, "archive", &OUTBOX),
            Some(&facts(Some((1, "outbox")), true)),
            "outbox_1 of 1",
        ),
        ("excluded", &list, relation(9, "archive", &OUTBOX), None, "table.exclude.list"),
        ("another", &list, relation(9, "orders", &ORDERS), Some(&own), "former"),
        ("gone", &list, relation(9, "outbox_3", &OUTBOX), None, "former"),
    ];
    for (what, filter, relation, facts, expected) in cases {
        let rules = Rules { filter, route: &route(), captured: &captured };
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
    let member =
        |table: &u32| Member { oid: Oid(0), version: 1, table: Oid(*table), filtered: false, listed: false };
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
    let (filter, route, captured) = (filter(&["public.outbox"], &[]), route(), known(&[(1, 1, "outbox")]));
    for (what, columns, facts, publication, roots, expected) in cases {
        let rules = Rules { filter: &filter, route: &route, captured: &captured };
        let today = Today { facts, publication, roots };
        assert_eq!(shown(rules.judge_former(&relation(9, "gone", columns), &today)), expected, "{what}");
    }
}

#[test]
fn a_table_that_may_have_been_a_partition_of_one_that_is_gone_is_asked_for() {
    let (filter, route, there) = (filter(&["public.outbox"], &[]), route(), facts(None, false));
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
        let rules = Rules { filter: &filter, route: &route, captured };
        let today = Today { facts, publication, roots: &[] };
        assert_eq!(shown(rules.judge_former(&relation(9, "gone", columns), &today)), expected, "{what}");
    }
}
