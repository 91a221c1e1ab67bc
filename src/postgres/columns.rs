use std::collections::HashMap;

use tokio_postgres::Row;

use super::Error;
use super::sql::Sql;
use crate::connect::column::{ColumnDescription, TableDescription, TypeKind};
use crate::wal::Oid;

/// Domains over arrays of domains … are followed this far.
const TYPE_DEPTH_MAX: u8 = 16;

/// A table's columns, and behind them their types, those that are asked for, and the types those are made of. One statement sees one catalog: between two
/// the table may be altered, and a column would have a type that is not there.
const COLUMNS: &str = "
with recursive key as (
    select i.indkey::int2[] as columns, case when i.indisprimary then i.indnkeyatts else i.indnatts end as count
    from pg_index i join pg_class c on c.oid = i.indexrelid
    where i.indrelid = $1 and i.indisunique and i.indexprs is null
    order by i.indisprimary desc, c.relname limit 1),
columns as (
    select a.attnum, a.attname::text as name, a.atttypid as type, a.atttypmod as modifier,
           a.attnotnull or t.typtype = 'd' and t.typnotnull as required,
           pg_get_expr(d.adbin, d.adrelid) as expression,
           (select k.position from key, unnest(key.columns) with ordinality k(attnum, position)
            where k.attnum = a.attnum and k.position <= key.count) as place
    from pg_attribute a join pg_type t on t.oid = a.atttypid
         left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped),
needed(oid) as (
    select type from columns
    union select unnest($2::oid[])
    union
    select part.oid from needed n join pg_type t on t.oid = n.oid,
         lateral (values (t.typbasetype), (case t.typcategory when 'A' then t.typelem else 0 end)) part(oid)
    where part.oid <> 0)
select attnum, name, type, modifier, required, expression, place,
       null::text, null::oid, null::int, null::oid, null::text[], null::int
from columns
union all
select null, t.typname::text, t.oid, null, null, null, null,
       t.typtype::text, t.typbasetype, t.typtypmod, case t.typcategory when 'A' then t.typelem else 0::oid end,
       array(select e.enumlabel::text from pg_enum e where e.enumtypid = t.oid order by e.enumsortorder),
       -- Digits of zero behind the one before the point: the session's lc_monetary, which is the walsender's too.
       case t.oid when 'money'::regtype then length(regexp_replace(0::money::text, '[^0]', '', 'g')) - 1 end
from pg_type t join needed n on n.oid = t.oid
order by 1";

const PARTITION_ROOT: &str = "
select n.nspname::text, c.relname::text
from pg_partition_ancestors($1::oid::regclass) with ordinality a(relid, ord)
     join pg_class c on c.oid = a.relid join pg_namespace n on n.oid = c.relnamespace
order by ord desc limit 1";

const PRIMARY_KEY: &str = "
select a.attname::text from pg_index i
cross join lateral unnest(i.indkey) with ordinality key (column_number, place)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = key.column_number
where i.indrelid = $1 and i.indisprimary and key.place <= i.indnkeyatts order by key.place";

struct TypeRow {
    name: String,
    class: String,
    base: Oid,
    base_modifier: i32,
    element: Oid,
    labels: Vec<String>,
    money_digits: Option<i32>,
}

impl Sql {
    /// What the catalog says of a table's columns now. pgoutput tells neither nullability nor defaults; Debezium too
    /// reads them from the catalog of the present, not of the row's LSN.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn describe(&self, table: Oid) -> Result<Vec<ColumnDescription>, Error> {
        Ok(self.describe_with(table, &[]).await?.columns)
    }

    /// The same, and what these types are: a column may have had another one when its rows were written.
    ///
    /// # Errors
    /// When the query fails.
    pub(crate) async fn describe_with(&self, table: Oid, types: &[Oid]) -> Result<TableDescription, Error> {
        const DOING: &str = "reading the columns of a table";
        let get = |error| Error::sql(DOING, error);
        let asked: Vec<u32> = types.iter().map(|oid| oid.0).collect();
        let rows = self.query(DOING, COLUMNS, &[&table.0, &asked]).await?;
        let (mut columns, mut types_there) = (Vec::new(), HashMap::new());
        for row in &rows {
            match row.try_get::<_, Option<i16>>(0).map_err(get)? {
                Some(_) => columns.push(row),
                None => {
                    types_there.insert(Oid(row.try_get(2).map_err(get)?), TypeRow::read(row).map_err(get)?);
                }
            }
        }
        let columns = columns
            .into_iter()
            .map(|row| {
                let type_oid = Oid(row.try_get(2).map_err(get)?);
                Ok(ColumnDescription {
                    name: row.try_get(1).map_err(get)?,
                    type_oid,
                    type_modifier: row.try_get(3).map_err(get)?,
                    kind: kind(&types_there, type_oid, TYPE_DEPTH_MAX),
                    not_null: row.try_get(4).map_err(get)?,
                    default: row.try_get(5).map_err(get)?,
                    key_position: row.try_get(6).map_err(get)?,
                })
            })
            .collect::<Result<_, _>>()?;
        let known = asked.into_iter().map(Oid).filter(|oid| types_there.contains_key(oid));
        let types = known.map(|oid| (oid, kind(&types_there, oid, TYPE_DEPTH_MAX))).collect();
        Ok(TableDescription { columns, types })
    }

    /// The columns of a table's primary key, in the key's order; none when it has no primary key.
    ///
    /// # Errors
    /// When the query fails.
    pub(crate) async fn primary_key(&self, table: Oid) -> Result<Vec<String>, Error> {
        const DOING: &str = "reading the primary key of a table";
        let rows = self.query(DOING, PRIMARY_KEY, &[&table.0]).await?;
        rows.iter().map(|row| row.try_get(0).map_err(|error| Error::sql(DOING, error))).collect()
    }

    /// Schema and name of the topmost table that `table` is a partition of, itself included; `None` when it is gone.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn partition_root(&self, table: Oid) -> Result<Option<(String, String)>, Error> {
        const DOING: &str = "reading the root of a partition";
        let get = |error| Error::sql(DOING, error);
        let rows = self.query(DOING, PARTITION_ROOT, &[&table.0]).await?;
        rows.first().map(|row| Ok((row.try_get(0).map_err(get)?, row.try_get(1).map_err(get)?))).transpose()
    }
}

impl TypeRow {
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            name: row.try_get(1)?,
            class: row.try_get(7)?,
            base: Oid(row.try_get(8)?),
            base_modifier: row.try_get(9)?,
            element: Oid(row.try_get(10)?),
            labels: row.try_get(11)?,
            money_digits: row.try_get(12)?,
        })
    }
}

fn kind(types: &HashMap<Oid, TypeRow>, oid: Oid, depth: u8) -> TypeKind {
    let (Some(row), Some(deeper)) = (types.get(&oid), depth.checked_sub(1)) else {
        return TypeKind::Other { name: format!("type {oid}") };
    };
    let name = row.name.clone();
    match row.class.as_str() {
        "d" => TypeKind::Domain {
            name,
            base: Box::new(kind(types, row.base, deeper)),
            modifier: row.base_modifier,
        },
        "e" => TypeKind::Enum { name, labels: row.labels.clone() },
        "b" if row.element != Oid(0) => {
            TypeKind::Array { element: Box::new(kind(types, row.element, deeper)) }
        }
        "b" if let Some(digits) = row.money_digits.and_then(|digits| digits.try_into().ok()) => {
            TypeKind::Money { fraction_digits: digits }
        }
        "b" | "r" => TypeKind::Base { name },
        _ => TypeKind::Other { name },
    }
}
