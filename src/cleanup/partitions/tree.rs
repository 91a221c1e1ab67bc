//! A partitioned outbox.

use jiff::civil::DateTime;
use postgres_protocol::escape::escape_identifier;

use super::bounds::{Bound, KeyType, Range};
use super::partman::Manager;
use super::pattern::{Coming, Irregular, Named, PARTITIONS_MIN, Pattern};
use crate::postgres::{Error, Sql, TableFacts};
use crate::wal::Oid;

/// Most partitions that are created in one pass.
const COMING_MAX: usize = 400;
/// A date or a timestamp without a zone is this much later somewhere, at most.
const ZONES: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// Query of the time for partitions: `now`, or before that the start of the oldest transaction, which may
/// write rows of its time yet.
const KEY: &str = "
select p.partstrat = 'r' and p.partnatts = 1, format_type(a.atttypid, null), pg_get_userbyid(c.relowner)::text,
       to_char(now(), 'YYYY-MM-DD HH24:MI:SS'),
       to_char(least(now(), (select min(s.xact_start) from pg_stat_activity s
               where s.backend_type = 'client backend' and s.pid <> pg_backend_pid())), 'YYYY-MM-DD HH24:MI:SS'),
       nullif(p.partdefid, 0)::regclass::text, current_user::text
from pg_class c left join pg_partitioned_table p on p.partrelid = c.oid
     left join pg_attribute a on a.attrelid = p.partrelid and a.attnum = p.partattrs[0]
where c.oid = $1";

const PARTITIONS: &str = "
select c.oid, n.nspname::text, c.relname::text, coalesce(pg_get_expr(c.relpartbound, c.oid), ''), c.relkind = 'r'
from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_namespace n on n.oid = c.relnamespace
where i.inhparent = $1 and not i.inhdetachpending order by 2, 3";

/// A partition of an outbox that takes a range, and has no partitions of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) oid: Oid,
    pub(super) schema: String,
    pub(super) plain_name: String,
    pub(super) range: Range,
}

/// A partitioned outbox.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) table: TableFacts,
    /// Owner, for messages.
    pub(super) owner: String,
    /// Role of the session.
    role: String,
    pub(crate) manager: Manager,
    /// Key type; none when its ranges cannot be parsed.
    pub(super) key: Option<KeyType>,
    partitions: Vec<Partition>,
    /// The default partition, as messages name it.
    pub(super) default: Option<String>,
    now: DateTime,
    /// No transaction is older.
    oldest: DateTime,
    /// The last partition that has rows.
    current: Option<Oid>,
}

impl Partition {
    /// Returns the name for messages.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.schema, self.plain_name)
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns its name without the schema.
    pub(crate) fn table(&self) -> &str {
        &self.plain_name
    }

    /// Returns the name, quoted for SQL.
    pub(super) fn quoted(&self) -> String {
        format!("{}.{}", escape_identifier(&self.schema), escape_identifier(&self.plain_name))
    }
}

impl Tree {
    /// Reads the partitions of a table; none when it has no partitions.
    pub(crate) async fn look(sql: &Sql, table: &TableFacts) -> Result<Option<Self>, Error> {
        const DOING: &str = "reading how the outbox is partitioned";
        let get = |error| Error::sql(DOING, error);
        let time = |text: &str| {
            text.parse().map_err(|_| Error::Unexpected { message: "answer".to_owned(), doing: DOING })
        };
        if !table.partitioned {
            return Ok(None);
        }
        let keys = sql.query(DOING, KEY, &[&table.oid.0]).await?;
        let Some(row) = keys.first() else { return Ok(None) };
        let by_range: Option<bool> = row.try_get(0).map_err(get)?;
        let name: Option<&str> = row.try_get(1).map_err(get)?;
        let key = name.filter(|_| by_range == Some(true)).and_then(KeyType::of);
        let mut tree = Self {
            table: table.clone(),
            owner: row.try_get(2).map_err(get)?,
            role: row.try_get(6).map_err(get)?,
            manager: Manager::find(sql, table).await?,
            key,
            partitions: Vec::new(),
            default: row.try_get(5).map_err(get)?,
            now: time(row.try_get(3).map_err(get)?)?,
            oldest: time(row.try_get(4).map_err(get)?)?,
            current: None,
        };
        if let Some(key) = key {
            tree.partitions = partitions(sql, table, key).await?;
            tree.current = tree.newest_with_rows(sql).await?;
        }
        Ok(Some(tree))
    }

    /// Returns the outbox's name for messages.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.table.schema, self.table.name)
    }

    /// Returns the statement that lets the session's role do what only the owner may.
    pub(super) fn ownership_fix(&self) -> String {
        format!("GRANT {} TO {};", escape_identifier(&self.owner), escape_identifier(&self.role))
    }

    /// Returns whether a table is a partition that is removed as a whole, and not row by row.
    pub(crate) fn has(&self, oid: Oid) -> bool {
        self.partitions.iter().any(|partition| partition.oid == oid)
    }

    /// Returns partitions that get rows only from late writers: those whose time is over, or, of numbers,
    /// that lie in front of the last one with rows. The absence of late rows is checked again under a lock.
    ///
    /// Where partitions are made (`ahead`), enough stay to show the pattern, less those that are created
    /// before (`coming`): after a long stop all may be over, and without them none could be created any more.
    pub(crate) fn over(&self, ahead: usize, coming: usize) -> Vec<&Partition> {
        let wanted = if ahead == 0 { 0 } else { PARTITIONS_MIN.saturating_sub(coming) };
        let bounded = |it: &&Partition| it.range.lower.is_some() && it.range.upper.is_some();
        let shown: Vec<_> = self
            .partitions
            .iter()
            .rev()
            .filter(bounded)
            .take(wanted)
            .map(|partition| partition.oid)
            .collect();
        let current = self.partitions.iter().position(|partition| Some(partition.oid) == self.current);
        let is_over = |at: usize, partition: &Partition| match (self.key, partition.range.upper) {
            (Some(KeyType::Moment), Some(Bound::Time(upper))) => upper <= self.oldest,
            (Some(KeyType::Local), Some(Bound::Time(upper))) => {
                self.oldest.checked_sub(ZONES).is_ok_and(|oldest| upper <= oldest)
            }
            (Some(KeyType::Number), Some(_)) => current.is_some_and(|current| at < current),
            _ => false,
        };
        let all = self.partitions.iter().enumerate();
        let over = all.filter(|(at, partition)| is_over(*at, partition) && !shown.contains(&partition.oid));
        over.map(|(_, partition)| partition).collect()
    }

    /// Returns the partitions that are missing until there are `ahead` after the one that gets rows now.
    pub(crate) fn coming(&self, ahead: usize) -> Result<Vec<Coming>, Irregular> {
        if self.key.is_none() {
            return Err(Irregular::Key);
        }
        let named = self.partitions.iter().map(|it| Named { name: &it.plain_name, range: it.range });
        let named: Vec<_> = named.collect();
        let mut pattern = Pattern::of(&named)?;
        let mut lacking = self.behind(ahead, pattern.end());
        let mut coming = Vec::new();
        while lacking > 0 && coming.len() < COMING_MAX {
            let Some(next) = pattern.next() else { break };
            lacking = match next.lower {
                // One that is over already when it is made is none ahead.
                Bound::Time(lower) if lower <= self.now => lacking,
                _ => lacking.saturating_sub(1),
            };
            coming.push(next);
        }
        Ok(coming)
    }

    /// Returns how many of `ahead` are missing.
    fn behind(&self, ahead: usize, end: Bound) -> usize {
        let there = match end {
            Bound::Time(_) => {
                let begins_later = |partition: &&Partition| {
                    partition.range.lower.is_some_and(|lower| lower > Bound::Time(self.now))
                };
                self.partitions.iter().filter(begins_later).count()
            }
            Bound::Number(_) => {
                let newer = self.partitions.iter().rev();
                newer.take_while(|partition| Some(partition.oid) != self.current).count()
            }
        };
        // Where nothing has rows yet, the first takes them.
        let spare = usize::from(matches!(end, Bound::Number(_)) && self.current.is_none());
        ahead.saturating_sub(there.saturating_sub(spare))
    }

    /// Returns the last of those that have a beginning and an end.
    pub(super) fn newest(&self) -> Option<Oid> {
        self.partitions.last().map(|partition| partition.oid)
    }

    async fn newest_with_rows(&self, sql: &Sql) -> Result<Option<Oid>, Error> {
        const DOING: &str = "searching for the partition of new rows";
        if self.key != Some(KeyType::Number) {
            return Ok(None);
        }
        for partition in self.partitions.iter().rev() {
            let text = format!("select from only {} limit 1", partition.quoted());
            if !sql.query(DOING, &text, &[]).await?.is_empty() {
                return Ok(Some(partition.oid));
            }
        }
        Ok(None)
    }
}

/// Reads the partitions of a table that have a range, the oldest first.
async fn partitions(sql: &Sql, table: &TableFacts, key: KeyType) -> Result<Vec<Partition>, Error> {
    const DOING: &str = "reading the partitions";
    let get = |error| Error::sql(DOING, error);
    let mut found = Vec::new();
    for row in sql.query(DOING, PARTITIONS, &[&table.oid.0]).await? {
        let (bound, holds_rows): (&str, bool) = (row.try_get(3).map_err(get)?, row.try_get(4).map_err(get)?);
        let Some(range) = Range::read(bound, key).filter(|_| holds_rows) else { continue };
        found.push(Partition {
            oid: Oid(row.try_get(0).map_err(get)?),
            schema: row.try_get(1).map_err(get)?,
            plain_name: row.try_get(2).map_err(get)?,
            range,
        });
    }
    found.sort_by_key(|partition| partition.range.lower);
    Ok(found)
}
