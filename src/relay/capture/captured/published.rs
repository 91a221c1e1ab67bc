//! Proof that a publication has published a table all the time while no outboxd watched it.

use serde::{Deserialize, Serialize};

use super::identity::CapturedTables;
use super::suspicion::SuspicionCause;
use super::versions::{Finding, Look};
use crate::postgres::{Member, PublicationVersion, TableVersion};

/// Rows of the catalog by which a publication sends all rows of a table. They are stored with the position. A start that finds others
/// suspects that rows are missing in the stream: the table was out of the publication, or the publication was changed and changed
/// back. Visible changes count as intended, as at each start: other settings, a row filter, a column list, another publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::relay) struct Published {
    settings: String,
    publication: RowVersion,
    /// Its rows for the table, for its schema, and for what the table is a partition of. None with `FOR ALL TABLES`.
    members: Vec<RowVersion>,
}

/// Object id and `xmin` of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct RowVersion(u32, u32);

impl Published {
    /// Returns `None` if the table is not published, or not with all rows and columns.
    fn of(name: &str, publication: &PublicationVersion, table: &TableVersion) -> Option<Self> {
        let PublicationVersion { oid, version, owner, all_tables, operations, via_root, .. } = publication;
        let is_named =
            |member: &&Member| member.table == table.oid || table.ancestors.contains(&member.table);
        let named: Vec<&Member> = publication.members.iter().filter(is_named).collect();
        if named.iter().any(|member| member.filtered || member.listed) {
            return None;
        }
        let of_schema = publication.schemas.iter().filter(|member| member.schema == table.schema);
        let members: Vec<_> = named
            .iter()
            .map(|member| RowVersion(member.oid.0, member.version))
            .chain(of_schema.map(|member| RowVersion(member.oid.0, member.version)))
            .collect();
        (*all_tables || !members.is_empty()).then(|| Self {
            settings: format!("{name}: {operations}, {all_tables}, {via_root}, {}", owner.0),
            publication: RowVersion(oid.0, *version),
            members,
        })
    }

    /// Returns whether rows may have been written since that are not in the stream.
    fn was_interrupted(&self, now: &Self) -> bool {
        let has_same_settings = self.settings == now.settings;
        let (RowVersion(before, _), RowVersion(oid, version)) = (self.publication, now.publication);
        if before != oid {
            // Rows that were written while there was no publication end the stream. So do all rows before one that was made later. Only
            // one that had the table later than itself leaves rows out in silence.
            let was_made_with_it = |member: &RowVersion| member.1 == version;
            return has_same_settings && !now.members.is_empty() && !now.members.iter().any(was_made_with_it);
        }
        let was_taken_out =
            !self.members.is_empty() && !self.members.iter().any(|member| now.members.contains(member));
        has_same_settings && self.publication != now.publication || was_taken_out
    }
}

/// Returns the findings of a process's first poll of the catalog, compared with the last one of an earlier process.
pub(in crate::relay) fn interrupted(captured: &CapturedTables, name: &str, now: &Look) -> Vec<Finding> {
    let Some(publication) = &now.publication else { return Vec::new() };
    let is_interrupted = |table: &&TableVersion| {
        let before = captured.get(table.oid).and_then(|known| known.published);
        let now = Published::of(name, publication, table);
        before.zip(now).is_some_and(|(before, now)| before.was_interrupted(&now))
    };
    let roots = now.tables.iter().filter(|table| table.oid == table.root);
    let tables = roots.filter(is_interrupted).filter_map(|table| captured.get(table.oid));
    tables.map(|table| Finding::Suspect { table, cause: SuspicionCause::Unpublished }).collect()
}

impl CapturedTables {
    /// Stores how the tables are published, by a poll that has found no reason to end the relay.
    pub(in crate::relay) fn set_published(&self, name: &str, look: &Look) {
        let Some(publication) = &look.publication else { return };
        let mut remembered = self.lock();
        let mut has_changed = false;
        for table in look.tables.iter().filter(|table| table.oid == table.root) {
            let Some(known) = remembered.tables.get_mut(&table.oid) else { continue };
            let now = Published::of(name, publication, table);
            has_changed |= known.published != now;
            known.published = now;
        }
        if has_changed {
            remembered.suspicions.store_again();
        }
    }

    /// Forgets how the tables were published, since the operator has accepted that rows may be missing, or all rows are sent.
    pub(in crate::relay) fn trust_publication(&self) {
        self.lock().tables.values_mut().for_each(|table| table.published = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::{SchemaMember, Storage, TableFilter};
    use crate::wal::Oid;

    fn table() -> TableVersion {
        TableVersion {
            oid: Oid(1),
            root: Oid(1),
            schema: "public".to_owned(),
            name: "outbox".to_owned(),
            parent: None,
            ancestors: vec![Oid(8)],
            storage: Storage::Logged,
            filenode: Oid(101),
            toast: Oid(201),
            sequences: Vec::new(),
        }
    }

    fn member(oid: u32, version: u32, table: u32) -> Member {
        Member { oid: Oid(oid), version, table: Oid(table), filtered: false, listed: false }
    }

    fn schema(oid: u32, schema: &str) -> SchemaMember {
        SchemaMember { oid: Oid(oid), version: 7, schema: schema.to_owned() }
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
            members: vec![member(50, 7, 1)],
            schemas: Vec::new(),
        }
    }

    fn look(publication: PublicationVersion) -> Look {
        Look { publication: Some(publication), tables: vec![table()], namesakes: Vec::new() }
    }

    /// Returns the number of suspicions of a process whose predecessor has seen `before`.
    fn suspicions(before: PublicationVersion, now: PublicationVersion) -> usize {
        let captured = CapturedTables::default();
        captured.learn(&[table()]);
        captured.set_published("p", &look(before));
        let next = CapturedTables::default();
        // The catalog is read before the position.
        next.learn(&[table()]);
        next.remember(captured.list_kept(), &TableFilter::default());
        interrupted(&next, "p", &look(now)).len()
    }

    #[test]
    fn a_table_that_was_out_of_the_publication_meanwhile_is_suspected() {
        let with = |change: fn(&mut PublicationVersion)| {
            let mut publication = publication();
            change(&mut publication);
            publication
        };
        let (one, all) = (publication, || with(|it| (it.all_tables, it.members) = (true, vec![])));
        let filtered = |oid| Member { filtered: true, ..member(oid, 8, 1) };
        let of_schema = || with(|it| (it.members, it.schemas) = (vec![], vec![schema(60, "public")]));
        let cases = [
            ("nothing", one(), one(), 0),
            ("taken out and added", one(), with(|it| it.members = vec![member(51, 8, 1)]), 1),
            ("changed and changed back", one(), with(|it| it.version = 8), 1),
            ("the same for all tables", all(), with(|it| (it.all_tables, it.version) = (true, 8)), 1),
            ("another table is added", one(), with(|it| it.members.push(member(51, 8, 2))), 0),
            (
                "added by another name before it is taken out",
                one(),
                with(|it| it.members = vec![member(51, 8, 8)]),
                1,
            ),
            ("its root is named too", one(), with(|it| it.members.push(member(51, 8, 8))), 0),
            (
                "other operations",
                one(),
                with(|it| (it.version, it.operations) = (8, "insert, update".to_owned())),
                0,
            ),
            (
                "other operations, and taken out and added",
                one(),
                with(|it| {
                    (it.version, it.operations, it.members) = (8, String::new(), vec![member(51, 8, 1)]);
                }),
                1,
            ),
            ("another owner", one(), with(|it| (it.version, it.owner) = (8, Oid(11))), 0),
            (
                "made again",
                one(),
                with(|it| (it.oid, it.version, it.members) = (Oid(6), 9, vec![member(51, 9, 1)])),
                0,
            ),
            (
                "made again, and the table added later",
                one(),
                with(|it| (it.oid, it.version, it.members) = (Oid(6), 9, vec![member(51, 10, 1)])),
                1,
            ),
            ("of all tables, made again", all(), PublicationVersion { oid: Oid(6), ..all() }, 0),
            ("a filter", one(), PublicationVersion { members: vec![filtered(51)], ..one() }, 0),
            ("another filter", PublicationVersion { members: vec![filtered(50)], ..one() }, one(), 0),
            ("its schema", of_schema(), of_schema(), 0),
            (
                "its schema, taken out and added",
                of_schema(),
                with(|it| (it.members, it.schemas) = (vec![], vec![schema(61, "public")])),
                1,
            ),
        ];
        for (what, before, now, expected) in cases {
            assert_eq!(suspicions(before, now), expected, "{what}");
        }
    }

    #[test]
    fn what_is_accepted_is_not_suspected() {
        let captured = CapturedTables::default();
        captured.learn(&[table()]);
        captured.set_published("p", &look(publication()));
        assert!(captured.take_unstored() && !captured.take_unstored());
        let now = look(PublicationVersion { version: 8, ..publication() });
        assert_eq!(interrupted(&captured, "p", &now).len(), 1);
        captured.trust_publication();
        assert_eq!(interrupted(&captured, "p", &now).len(), 0);
    }
}
