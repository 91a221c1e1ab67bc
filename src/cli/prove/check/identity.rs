//! Consequences of the replica identity and the key of a table for its change events.

use postgres_protocol::escape::escape_identifier;

use super::codes;
use super::report::Check;
use crate::change::ChangeEvents;
use crate::error::Diagnose as _;
use crate::postgres::{Error, ReplicaIdentities, ReplicaIdentityRule, Sql, TableFacts};

/// Each captured table; for a partitioned one its partitions, whose replica identities apply.
const IDENTITIES: &str = "
with captured as (
    select t.oid as root, coalesce(leaf.relid::oid, t.oid) as oid
    from unnest($1::oid[]) as t(oid) left join lateral pg_partition_tree(t.oid) as leaf on leaf.isleaf)
select n.nspname::text, c.relname::text, rn.nspname::text, r.relname::text, c.relreplident::text,
       exists(select from pg_index i where i.indrelid = c.oid and i.indisprimary),
       exists(select from pg_index i where i.indrelid = c.oid and i.indisreplident),
       exists(select from pg_index i where i.indrelid = r.oid and i.indisunique and i.indexprs is null),
       case when c.reltoastrelid <> 0 and pg_relation_size(c.reltoastrelid) > 0 then array(
           select a.attname::text from pg_attribute a
           where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attlen = -1 and a.attstorage <> 'p'
           order by a.attnum) else '{}' end,
       pg_has_role(c.relowner, 'USAGE')
from captured join pg_class c on c.oid = captured.oid join pg_class r on r.oid = captured.root
     join pg_namespace n on n.oid = c.relnamespace join pg_namespace rn on rn.oid = r.relnamespace
where c.relkind = 'r' order by 1, 2";

/// Catalog's facts of one table.
#[derive(Debug, Clone)]
#[cfg_attr(test, derive(Default))]
pub(in crate::cli) struct Identity {
    schema: String,
    name: String,
    /// The captured table, which differs from this one if this is a partition of it.
    root: (String, String),
    /// `relreplident`: d(efault), n(othing), f(ull), i(ndex).
    setting: String,
    has_primary_key: bool,
    has_identity_index: bool,
    /// True if a unique index without expressions provides the event's key, if there is no primary key.
    has_unique_index: bool,
    /// The columns that can be TOASTed, if the table has TOASTed values.
    toasted: Vec<String>,
    /// True if the role may change the table.
    is_ours: bool,
}

/// Reads the identities of the captured tables.
pub(in crate::cli) async fn identities(sql: &Sql, tables: &[TableFacts]) -> Result<Vec<Identity>, Error> {
    const DOING: &str = "reading the replica identities";
    let get = |source| Error::Sql { doing: DOING.to_owned(), source };
    let oids: Vec<u32> = tables.iter().map(|table| table.oid.0).collect();
    let rows = sql.query(DOING, IDENTITIES, &[&oids]).await?;
    rows.iter()
        .map(|row| {
            Ok(Identity {
                schema: row.try_get(0).map_err(get)?,
                name: row.try_get(1).map_err(get)?,
                root: (row.try_get(2).map_err(get)?, row.try_get(3).map_err(get)?),
                setting: row.try_get(4).map_err(get)?,
                has_primary_key: row.try_get(5).map_err(get)?,
                has_identity_index: row.try_get(6).map_err(get)?,
                has_unique_index: row.try_get(7).map_err(get)?,
                toasted: row.try_get(8).map_err(get)?,
                is_ours: row.try_get(9).map_err(get)?,
            })
        })
        .collect()
}

impl Identity {
    /// Returns the identity after a start has applied `replica.identity.autoset.values`, and the check of
    /// that.
    pub(in crate::cli) fn set_by(self, rules: &ReplicaIdentities) -> (Self, Option<Check>) {
        match rules.of(&self.schema, &self.name) {
            Ok(Some(rule)) if rule.letter() != self.setting => {
                let statement = rule.statement(&self.quoted());
                let title = format!("a start sets the replica identity of table {}", self.shown());
                let check = match self.is_ours {
                    true => Check::note(codes::REPLICA_IDENTITY, title).detail(statement),
                    // The start logs an error and streams with the existing identity.
                    false => {
                        let title =
                            format!("a start cannot set the replica identity of table {}", self.shown());
                        let check = Check::warning(codes::REPLICA_IDENTITY, title)
                            .detail("the role does not own the table")
                            .fix(format!("as its owner: {statement};"));
                        return (self, Some(check));
                    }
                };
                let is_index = rule.letter() == "i";
                let has_identity_index = is_index || self.has_identity_index;
                (Self { setting: rule.letter().to_owned(), has_identity_index, ..self }, Some(check))
            }
            Ok(_) => (self, None),
            Err(error) => {
                let check = Check::warning(codes::REPLICA_IDENTITY, error.to_string());
                let fix = error.fix();
                (self, Some(fix.into_iter().fold(check, Check::fix)))
            }
        }
    }

    /// Returns the checks of the table's change events; none if they are complete and have a key.
    pub(in crate::cli) fn checks(&self, changes: &ChangeEvents) -> Vec<Check> {
        let has_key = self.has_unique_index || changes.chooses_key(&self.root.0, &self.root.1);
        [self.updates(), (!has_key).then(|| self.no_key()), self.placeholders()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Returns the statement with which updates and deletes remain possible with a publication, and the one
    /// that undoes it. Returns `None` if they are possible already.
    pub(in crate::cli) fn lets_updates(&self) -> Option<(String, String)> {
        let before =
            if self.setting == "n" { ReplicaIdentityRule::Nothing } else { ReplicaIdentityRule::Default };
        let table = self.quoted();
        (!self.identifies()).then(|| (ReplicaIdentityRule::Full.statement(&table), before.statement(&table)))
    }

    /// Returns the same table with full identity.
    pub(in crate::cli) fn with_full(self) -> Self {
        Self { setting: ReplicaIdentityRule::Full.letter().to_owned(), ..self }
    }

    fn identifies(&self) -> bool {
        match self.setting.as_str() {
            "f" => true,
            "i" => self.has_identity_index,
            "d" => self.has_primary_key,
            _ => false,
        }
    }

    /// Returns the check of updates: PostgreSQL refuses the application's writes if it cannot identify their
    /// rows for a subscriber.
    fn updates(&self) -> Option<Check> {
        (!self.identifies()).then(|| {
            let title = format!("table {} has no replica identity", self.shown());
            let detail = "PostgreSQL refuses every UPDATE and DELETE of it, the application's too, as soon as a publication \
                          of updates and deletes has the table";
            Check::warning(codes::REPLICA_IDENTITY, title).detail(detail).fix(format!(
                "ALTER TABLE {table} ADD PRIMARY KEY (…); or: ALTER TABLE {table} REPLICA IDENTITY FULL;",
                table = self.quoted()
            ))
        })
    }

    fn no_key(&self) -> Check {
        let title = format!("events of table {} have no key", self.shown());
        let detail = "it has no primary key and no unique index: its events are spread over the topic's partitions, in no \
                      order, and a compacted topic refuses them";
        let (schema, name) = (&self.root.0, &self.root.1);
        let table = format!("{}.{}", escape_identifier(schema), escape_identifier(name));
        let pattern = fancy_regex::escape(&format!("{schema}.{name}")).into_owned();
        Check::warning(codes::NO_KEY, title).detail(detail).fix(format!(
            "ALTER TABLE {table} ADD PRIMARY KEY (…); or set message.key.columns={pattern}:column,column"
        ))
    }

    fn placeholders(&self) -> Option<Check> {
        (self.setting != "f" && !self.toasted.is_empty()).then(|| {
            let title = format!(
                "updates of table {} send unavailable.value.placeholder for large values that they do not change: {}",
                self.shown(),
                self.toasted.join(", ")
            );
            let detail = "PostgreSQL does not write such a value (TOAST) to the WAL again. With REPLICA IDENTITY FULL it \
                          writes the whole old row at each update and delete";
            Check::note(codes::PLACEHOLDERS, title)
                .detail(detail)
                .fix(format!("ALTER TABLE {} REPLICA IDENTITY FULL;", self.quoted()))
        })
    }

    /// Returns the table's name for messages.
    pub(in crate::cli) fn shown(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    fn quoted(&self) -> String {
        format!("{}.{}", escape_identifier(&self.schema), escape_identifier(&self.name))
    }
}
