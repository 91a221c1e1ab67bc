//! Columns of archived tables.

use postgres_protocol::escape::escape_identifier;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;

use crate::postgres::{Error, Sql};
use crate::wal::Oid;

/// Most digits of a Parquet file's DECIMAL that all readers support.
const DIGITS_MAX: i32 = 38;
/// Offset that PostgreSQL adds to the modifier of a type.
const MODIFIER_HEADER: i32 = 4;

/// A column of a table whose rows are archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) nullable: bool,
}

/// Kind of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Date,
    Timestamp,
    Timestamptz,
    Uuid,
    Json,
    Bytea,
    /// `numeric` with a precision and a scale.
    Decimal {
        precision: i32,
        scale: i32,
    },
    /// Everything else, as PostgreSQL writes it.
    Text,
}

/// Query for the columns. A domain counts as its base type.
const COLUMNS: &str = "
with recursive base(attnum, name, filled, oid, modifier) as (
    select attnum, attname::text, attnotnull, atttypid, atttypmod from pg_attribute
    where attrelid = $1 and attnum > 0 and not attisdropped
    union all
    select base.attnum, base.name, base.filled, t.typbasetype, t.typtypmod
    from base join pg_type t on t.oid = base.oid and t.typtype = 'd')
select base.name, base.filled, base.oid, base.modifier
from base join pg_type t on t.oid = base.oid and t.typtype <> 'd' order by base.attnum";

/// Reads the columns of a table.
pub(super) async fn columns(sql: &Sql, table: Oid) -> Result<Vec<Column>, Error> {
    const DOING: &str = "reading the columns that are archived";
    let get = |error| Error::sql(DOING, error);
    let rows = sql.query(DOING, COLUMNS, &[&table.0]).await?;
    rows.iter()
        .map(|row| {
            let filled: bool = row.try_get(1).map_err(get)?;
            let kind = Kind::of(row.try_get(2).map_err(get)?, row.try_get(3).map_err(get)?);
            Ok(Column { name: row.try_get(0).map_err(get)?, kind, nullable: !filled })
        })
        .collect()
}

/// Returns an expression for a row of `alias` as a JSON object, each value of which is a text as PostgreSQL's
/// types write it. A cast to `text` would write some of them otherwise.
pub(super) fn expression(columns: &[Column], alias: &str) -> String {
    let columns: Vec<_> = columns
        .iter()
        .map(|Column { name, .. }| {
            let name = escape_identifier(name);
            format!("case when num_nulls({alias}.{name}) = 0 then format('%s', {alias}.{name}) end as {name}")
        })
        .collect();
    format!("(select row_to_json(texts)::text from (select {}) as texts)", columns.join(", "))
}

impl Kind {
    /// Returns the kind for the object id of a type and its modifier.
    fn of(oid: u32, modifier: i32) -> Self {
        match Type::from_oid(oid).unwrap_or(Type::TEXT) {
            Type::BOOL => Self::Bool,
            Type::INT2 => Self::Int2,
            Type::INT4 => Self::Int4,
            Type::INT8 => Self::Int8,
            Type::FLOAT4 => Self::Float4,
            Type::FLOAT8 => Self::Float8,
            Type::DATE => Self::Date,
            Type::TIMESTAMP => Self::Timestamp,
            Type::TIMESTAMPTZ => Self::Timestamptz,
            Type::UUID => Self::Uuid,
            Type::JSON | Type::JSONB => Self::Json,
            Type::BYTEA => Self::Bytea,
            Type::NUMERIC => Self::decimal(modifier),
            _ => Self::Text,
        }
    }

    /// Returns the kind of a number. Without a precision, or where it does not fit, it is a text: nothing is
    /// rounded.
    fn decimal(modifier: i32) -> Self {
        let Some(modifier) = modifier.checked_sub(MODIFIER_HEADER).filter(|modifier| *modifier >= 0) else {
            return Self::Text;
        };
        // From PostgreSQL 15 on a scale has 11 bits and a sign; a negative one is a great one here.
        let (precision, scale) = (modifier >> 16, modifier & 0x7ff);
        let fits = (1..=DIGITS_MAX).contains(&precision) && scale <= precision;
        if fits { Self::Decimal { precision, scale } } else { Self::Text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimals_where_they_fit() {
        let modifier = |precision: i32, scale: i32| ((precision << 16) | (scale & 0x7ff)) + 4;
        for (modifier, expected) in [
            (-1, None),
            (modifier(10, 2), Some((10, 2))),
            (modifier(38, 38), Some((38, 38))),
            (modifier(5, 0), Some((5, 0))),
            (modifier(39, 2), None),
            (modifier(3, 5), None),
            (modifier(5, -2), None),
        ] {
            let expected =
                expected.map_or(Kind::Text, |(precision, scale)| Kind::Decimal { precision, scale });
            assert_eq!(Kind::of(1700, modifier), expected, "{modifier}");
        }
    }

    #[test]
    fn a_row_is_asked_for_by_quoted_names() {
        let column = Column { name: "a\"b".to_owned(), kind: Kind::Text, nullable: true };
        assert_eq!(
            expression(&[column], "o"),
            "(select row_to_json(texts)::text from (select case when num_nulls(o.\"a\"\"b\") = 0 \
             then format('%s', o.\"a\"\"b\") end as \"a\"\"b\") as texts)"
        );
    }
}
