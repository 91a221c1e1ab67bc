//! `replica.identity.autoset.values`: the replica identities that a start sets for captured tables.

use postgres_protocol::escape::escape_identifier;

use super::publication::{READ_ONLY, unwritten};
use crate::connect::{NamePatterns, OptionError};
use crate::error::{Class, Diagnose as _};
use crate::postgres::{Error, Sql, TableFacts};
use crate::wal::Oid;

const OPTION: &str = "replica.identity.autoset.values";

const FORM: &str = "it must be schema.table:IDENTITY,schema.table:IDENTITY, each table a regular expression and each \
                    identity DEFAULT, FULL, NOTHING or INDEX and the index's name";

const IDENTITIES: &str = "
select c.relreplident::text,
       (select i.relname::text from pg_index x join pg_class i on i.oid = x.indexrelid
        where x.indrelid = c.oid and x.indisreplident)
from pg_class c where c.oid = $1";

/// Replica identities to set, by table.
#[derive(Debug, Clone, Default)]
pub struct ReplicaIdentities(Vec<(NamePatterns, ReplicaIdentityRule)>);

/// Result of setting replica identities.
#[derive(Debug, Default)]
pub struct SetIdentities {
    /// The tables that have got it.
    pub changed: Vec<String>,
    /// Reason why others have not.
    pub refused: Vec<Error>,
}

/// Replica identity to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaIdentityRule {
    /// The primary key.
    Default,
    /// The whole row.
    Full,
    /// Nothing.
    Nothing,
    /// The columns of a unique index.
    Index(String),
}

impl ReplicaIdentities {
    /// Reads `schema.table:FULL,schema.table:INDEX name`.
    ///
    /// # Errors
    /// When an entry is none.
    pub(crate) fn parse(text: &str) -> Result<Self, OptionError> {
        text.split(',').map(rule).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether there is nothing to set.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the replica identity to set for a table, if any.
    ///
    /// # Errors
    /// When two entries match the table.
    pub fn of(&self, schema: &str, table: &str) -> Result<Option<&ReplicaIdentityRule>, Error> {
        let name = format!("{schema}.{table}");
        let mut matching = self.0.iter().filter(|(tables, _)| tables.matches(&name)).map(|(_, rule)| rule);
        match (matching.next(), matching.next()) {
            (_, Some(_)) => Err(Error::Precondition {
                problem: format!("two entries of {OPTION} match table {name}"),
                fix: format!("let one entry of {OPTION} match it"),
            }),
            (rule, None) => Ok(rule),
        }
    }

    /// Sets the identity of each captured table, and of each partition of one. As in Debezium, a table whose
    /// identity cannot be set does not prevent the others from being streamed: its error is returned.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn set(&self, sql: &Sql, captured: &[TableFacts]) -> Result<SetIdentities, Error> {
        let mut outcome = SetIdentities::default();
        if self.is_empty() {
            return Ok(outcome);
        }
        let is_captured = |oid: Oid| captured.iter().any(|table| table.oid == oid);
        for table in sql.tables().await? {
            if !is_captured(table.oid) && !table.root.is_some_and(is_captured) {
                continue;
            }
            let rule = match self.of(&table.schema, &table.name) {
                Ok(Some(rule)) => rule,
                Ok(None) => continue,
                Err(error) => {
                    outcome.refused.push(error);
                    continue;
                }
            };
            if rule.is_that_of(sql, table.oid).await? {
                continue;
            }
            match rule.give(sql, &table).await {
                Ok(()) => outcome.changed.push(format!("{}.{}", table.schema, table.name)),
                Err(error) if error.class() == Class::Transient => return Err(error),
                Err(error) => outcome.refused.push(error),
            }
        }
        Ok(outcome)
    }
}

impl ReplicaIdentityRule {
    /// Returns the value of `pg_class.relreplident`.
    #[must_use]
    pub const fn letter(&self) -> &'static str {
        match self {
            Self::Default => "d",
            Self::Full => "f",
            Self::Nothing => "n",
            Self::Index(_) => "i",
        }
    }

    /// Returns the statement that sets it for a table with this quoted name.
    #[must_use]
    pub fn statement(&self, table: &str) -> String {
        let identity = match self {
            Self::Default => "DEFAULT".to_owned(),
            Self::Full => "FULL".to_owned(),
            Self::Nothing => "NOTHING".to_owned(),
            Self::Index(name) => format!("USING INDEX {}", escape_identifier(name)),
        };
        format!("ALTER TABLE {table} REPLICA IDENTITY {identity}")
    }

    async fn is_that_of(&self, sql: &Sql, table: Oid) -> Result<bool, Error> {
        const DOING: &str = "reading a replica identity";
        let get = |error| Error::sql(DOING, error);
        let rows = sql.query(DOING, IDENTITIES, &[&table.0]).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let (letter, index): (String, Option<String>) =
            (row.try_get(0).map_err(get)?, row.try_get(1).map_err(get)?);
        Ok(letter == self.letter() && !matches!(self, Self::Index(name) if index.as_ref() != Some(name)))
    }

    async fn give(&self, sql: &Sql, table: &TableFacts) -> Result<(), Error> {
        let statement = self.statement(&table.quoted());
        match sql.execute("setting a replica identity", &statement).await {
            Err(error) if error.sqlstate() == Some("42501") => Err(Error::Precondition {
                problem: format!(
                    "the role may not set the replica identity of table {}.{} that {OPTION} requires",
                    table.schema, table.name
                ),
                fix: format!("as the owner of the table: {statement};"),
            }),
            Err(error) if error.sqlstate() == Some(READ_ONLY) => {
                let problem = format!(
                    "table {}.{} does not have the replica identity that {OPTION} requires",
                    table.schema, table.name
                );
                Err(unwritten(sql, &problem, "set", &statement).await?)
            }
            outcome => outcome,
        }
    }
}

fn rule(entry: &str) -> Result<(NamePatterns, ReplicaIdentityRule), OptionError> {
    let refused = || OptionError::new(OPTION, entry, FORM);
    let (tables, identity) = entry.trim().split_once(':').ok_or_else(refused)?;
    if tables.is_empty() || tables.contains(char::is_whitespace) {
        return Err(refused());
    }
    let rule = match identity.to_ascii_uppercase().as_str() {
        "DEFAULT" => ReplicaIdentityRule::Default,
        "FULL" => ReplicaIdentityRule::Full,
        "NOTHING" => ReplicaIdentityRule::Nothing,
        _ => ReplicaIdentityRule::Index(index(identity).ok_or_else(refused)?),
    };
    Ok((NamePatterns::new(OPTION, &[tables.to_owned()])?, rule))
}

/// Parses the name of an index. Debezium writes the name without quotes, so that PostgreSQL folds its
/// capitals to small letters.
fn index(identity: &str) -> Option<String> {
    let (word, name) = identity.split_once(' ')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'));
    (word.eq_ignore_ascii_case("INDEX") && is_name).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_is_for_the_tables_that_it_matches() {
        let rules =
            ReplicaIdentities::parse(" public.a:full,public.b.*:INDEX IX_b , s.c:nothing,s.[cd]:DEFAULT")
                .unwrap();
        let statement = |schema: &str, table: &str| {
            rules.of(schema, table).map(|rule| rule.map(|rule| rule.statement("t"))).ok()
        };
        let cases = [
            ("public", "a", Some(Some("ALTER TABLE t REPLICA IDENTITY FULL"))),
            ("public", "b_2", Some(Some("ALTER TABLE t REPLICA IDENTITY USING INDEX \"ix_b\""))),
            ("s", "d", Some(Some("ALTER TABLE t REPLICA IDENTITY DEFAULT"))),
            ("s", "e", Some(None)),
            ("s", "c", None),
        ];
        for (schema, table, expected) in cases {
            let expected = expected.map(|statement| statement.map(str::to_owned));
            assert_eq!(statement(schema, table), expected, "{schema}.{table}");
        }
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        for text in [
            "",
            "public.a",
            "public.a:",
            "public.a:SOME",
            "public.a:INDEX",
            "public.a:INDEX a-b",
            "(:FULL",
            "a b:FULL",
        ] {
            assert!(ReplicaIdentities::parse(text).is_err(), "{text}");
        }
    }
}
