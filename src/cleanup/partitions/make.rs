//! Creation of future partitions.

use std::time::Duration;

use postgres_protocol::escape::escape_identifier;

use super::pattern::Coming;
use super::take::{SLOW, SkipReason, is_of_the_connection};
use super::tend::Event;
use super::tree::Tree;
use crate::cleanup::pass::YIELDED;
use crate::postgres::{Error, Sql};

/// Longest time for which the server may search the default partition.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Statements for what `LIKE` and `ATTACH` do not copy: storage parameters, those of TOAST too, privileges,
/// and the replica identity.
const AS_THE_NEWEST: &str = "
with newest as (select * from pg_class where oid = $1),
     stored as (select '' as prefix, unnest(reloptions) as option from newest
                union all select 'toast.', unnest(t.reloptions) from pg_class t join newest n on t.oid = n.reltoastrelid),
     granted as (select a.* from newest, aclexplode(relacl) a where a.grantee <> newest.relowner)
select format('alter table %s set (%s%s = %L)', $2::text, prefix, split_part(option, '=', 1), substr(option, strpos(option, '=') + 1))
from stored
union all
select format('grant %s on %s to %s%s', privilege_type, $2::text,
              case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end,
              case when is_grantable then ' with grant option' else '' end)
from granted
union all
select format('alter table %s replica identity %s', $2::text, case relreplident when 'f' then 'full' else 'nothing' end)
from newest where relreplident in ('f', 'n')
union all
select format('alter table %s replica identity using index %I', $2::text, c.relname)
from newest join pg_index x on x.indrelid = newest.oid and x.indisreplident
     join pg_inherits old on old.inhrelid = x.indexrelid join pg_inherits new on new.inhparent = old.inhparent
     join pg_index y on y.indexrelid = new.inhrelid and y.indrelid = $2::text::regclass
     join pg_class c on c.oid = y.indexrelid
where newest.relreplident = 'i'";

impl Tree {
    /// Makes the partitions that lack until there are `ahead`. Nothing that was sent or not has to do with it, so that they come while
    /// Kafka is away too.
    pub(crate) async fn make(
        &self,
        sql: &Sql,
        ahead: usize,
        mut tell: impl FnMut(Event),
    ) -> Result<(), Error> {
        if ahead == 0 {
            return Ok(());
        }
        let coming = match self.coming(ahead) {
            Ok(coming) => coming,
            Err(irregular) => {
                tell(Event::Irregular(irregular));
                return Ok(());
            }
        };
        for coming in coming {
            let name = self.name_of(&coming);
            match self.make_one(sql, &coming).await? {
                None => tell(Event::Made(name)),
                Some(reason) => {
                    tell(Event::NotMade(name, reason));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Makes a table beside the outbox and attaches it, which blocks no writers unless there is a default
    /// partition. `CREATE TABLE … PARTITION OF` would wait for all writers, and all later writers for it.
    /// Returns the reason if it fails.
    async fn make_one(&self, sql: &Sql, coming: &Coming) -> Result<Option<String>, Error> {
        let Err(error) = self.try_to_make(sql, coming).await else { return Ok(None) };
        let text = crate::error::chain(&error);
        let Some(reason) = error.sqlstate().and_then(|state| unmade(state, &text, self.default.as_deref()))
        else {
            return Err(error);
        };
        sql.execute("leaving a partition unmade", "rollback").await?;
        Ok(Some(reason))
    }

    async fn try_to_make(&self, sql: &Sql, coming: &Coming) -> Result<(), Error> {
        const DOING: &str = "making a partition";
        sql.execute(DOING, &format!("begin; {}", self.making(coming))).await?;
        let Some(newest) = self.newest() else { return sql.execute(DOING, "commit").await };
        let rows = sql.query(DOING, AS_THE_NEWEST, &[&newest.0, &self.quoted_name_of(coming)]).await?;
        let texts = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>();
        let mut texts = texts.map_err(|error| Error::sql(DOING, error))?;
        texts.push("commit".to_owned());
        sql.execute(DOING, &texts.join("; ")).await
    }

    /// Returns the statements that create a partition.
    fn making(&self, coming: &Coming) -> String {
        let (table, partition) = (self.table.quoted(), self.quoted_name_of(coming));
        let (lower, upper) = (coming.lower.literal(self.key), coming.upper.literal(self.key));
        // Writers to the default partition wait while the server searches it for rows of this range.
        let limit = self.default.as_ref().map_or_else(String::new, |_| {
            format!(
                "select set_config('statement_timeout', {0}::text, true) from pg_settings
                 where name = 'statement_timeout' and setting::int not between 1 and {0}; ",
                LOOK_MAX.as_millis()
            )
        });
        format!(
            "create table {partition} (like {table} including all excluding identity); \
             alter table {partition} owner to {}; {limit}\
             alter table {table} attach partition {partition} for values from ({lower}) to ({upper})",
            escape_identifier(&self.owner)
        )
    }

    fn quoted_name_of(&self, coming: &Coming) -> String {
        format!("{}.{}", escape_identifier(&self.table.schema), escape_identifier(&coming.name))
    }

    /// Returns the name of a coming partition for messages.
    pub(crate) fn name_of(&self, coming: &Coming) -> String {
        format!("{}.{}", self.table.schema, coming.name)
    }
}

/// Returns why a partition could not be created, beside this default partition; none when the connection
/// failed.
fn unmade(state: &str, text: &str, default: Option<&str>) -> Option<String> {
    match (state, default) {
        (state, _) if is_of_the_connection(state) => None,
        (SLOW, Some(default)) => Some(format!(
            "searching for its rows in the default partition {default} took longer than {} ms, while other sessions wait; a CHECK constraint \
             on {default} that excludes them makes the search unnecessary",
            LOOK_MAX.as_millis()
        )),
        (SLOW, None) => Some(SkipReason::Slow.to_string()),
        (state, _) if YIELDED.contains(&state) => Some("another session has locked the outbox".to_owned()),
        // It is there, rows of its range are in the default partition, the role does not own the outbox.
        _ => Some(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_partition_was_not_made_is_reported_unless_the_connection_is_gone() {
        for (code, default, expected) in [
            ("57014", Some("outbox_default"), Some("a CHECK constraint on outbox_default")),
            ("57014", None, Some("outboxd.cleanup.statement.timeout.ms")),
            ("55P03", Some("outbox_default"), Some("another session has locked the outbox")),
            ("23514", None, Some("23514")),
            ("42501", None, Some("42501")),
            ("57P01", None, None),
            ("08006", Some("outbox_default"), None),
        ] {
            let told = unmade(code, code, default);
            assert_eq!(told.is_some(), expected.is_some(), "{code}");
            assert!(told.unwrap_or_default().contains(expected.unwrap_or_default()), "{code}");
        }
    }
}
