//! The columns of tables with their types, keys and enum values, in one statement.

use std::collections::HashMap;

use tokio_postgres::Row;

use crate::connect::column::{ColumnDescription, TableDescription, TypeKind};
use crate::postgres::Error;
use crate::postgres::connections::sql::Sql;
use crate::wal::Oid;

/// Domains over arrays of domains … are followed this far.
const TYPE_DEPTH_MAX: u8 = 16;

/// Number of tables that one statement describes: enough that planning it does not count, and few enough that
/// the next is sent soon.
const TABLES_AT_ONCE: usize = 200;

/// The tables' columns, then their types, the requested types, and the types that those consist of. One statement sees one catalog: between two
/// a table may be altered, and a column would have a type that is not there.
const COLUMNS: &str = "
with recursive key as (
    select distinct on (i.indrelid) i.indrelid as relid, i.indkey::int2[] as columns,
           case when i.indisprimary then i.indnkeyatts else i.indnatts end as count
    from pg_index i join pg_class c on c.oid = i.indexrelid
    where i.indrelid = any($1) and i.indisunique and i.indexprs is null
    order by i.indrelid, i.indisprimary desc, c.relname),
place as (
    select key.relid, k.attnum, min(k.position) as position
    from key, unnest(key.columns) with ordinality k(attnum, position) where k.position <= key.count
    group by key.relid, k.attnum),
columns as (
    select a.attrelid, a.attnum, a.attname::text as name, a.atttypid as type, a.atttypmod as modifier,
           a.attnotnull or t.typtype = 'd' and t.typnotnull as required,
           pg_get_expr(d.adbin, d.adrelid) as expression, place.position as place
    from pg_attribute a join pg_type t on t.oid = a.atttypid
         left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
         left join place on place.relid = a.attrelid and place.attnum = a.attnum
    where a.attrelid = any($1) and a.attnum > 0 and not a.attisdropped),
needed(oid) as (
    select type from columns
    union select unnest($2::oid[])
    union
    select part.oid from needed n join pg_type t on t.oid = n.oid,
         lateral (values (t.typbasetype), (case t.typcategory when 'A' then t.typelem else 0 end)) part(oid)
    where part.oid <> 0)
select attnum, name, type, modifier, required, expression, place, attrelid,
       null::text, null::oid, null::int, null::oid, null::text[], null::int
from columns
union all
select null, t.typname::text, t.oid, null, null, null, null, null,
       t.typtype::text, t.typbasetype, t.typtypmod, case t.typcategory when 'A' then t.typelem else 0::oid end,
       array(select e.enumlabel::text from pg_enum e where e.enumtypid = t.oid order by e.enumsortorder),
       -- Digits of zero behind the one before the point: the session's lc_monetary, which is the walsender's too.
       case t.oid when 'money'::regtype then length(regexp_replace(0::money::text, '[^0]', '', 'g')) - 1 end
-- By the index for each: PostgreSQL takes the list to be long, and would read all types. Each table has two.
from needed n cross join lateral (select * from pg_type where oid = n.oid offset 0) t
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

/// The columns whose type has its default order from an operator outside of `pg_catalog`, such as `citext`; of a domain its base type.
/// Types without an order of their own, such as `varchar`, have that of a type in `pg_catalog`.
const OPERATORS: &str = "
with recursive base as (
    select a.attname, a.atttypid as type from pg_attribute a where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
    union all
    select b.attname, t.typbasetype from base b join pg_type t on t.oid = b.type where t.typtype = 'd')
select b.attname::text, n.nspname::text
from base b join pg_opclass c on c.opcintype = b.type and c.opcdefault
     join pg_am m on m.oid = c.opcmethod and m.amname = 'btree'
     join pg_amop o on o.amopfamily = c.opcfamily and o.amoplefttype = b.type and o.amoprighttype = b.type and o.amopstrategy = 5
     join pg_operator p on p.oid = o.amopopr and p.oprname = '>'
     join pg_namespace n on n.oid = p.oprnamespace
where n.nspname <> 'pg_catalog'";

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
    /// Reads the catalog's present description of a table's columns. pgoutput sends neither nullability nor
    /// defaults; Debezium too reads them from the catalog of the present, not of the row's LSN.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn describe(&self, table: Oid) -> Result<Vec<ColumnDescription>, Error> {
        Ok(self.describe_with(table, &[]).await?.columns)
    }

    /// Reads the description of many tables, in their order.
    ///
    /// # Errors
    /// When a query fails.
    pub(crate) async fn describe_all(
        &self,
        tables: impl Iterator<Item = Oid>,
    ) -> Result<Vec<Vec<ColumnDescription>>, Error> {
        let tables: Vec<Oid> = tables.collect();
        let mut described = Vec::with_capacity(tables.len());
        for some in tables.chunks(TABLES_AT_ONCE) {
            let mut answer = self.ask_columns(some, &[]).await?;
            described.extend(some.iter().map(|table| answer.columns.remove(table).unwrap_or_default()));
        }
        Ok(described)
    }

    /// Reads the description of one table, and of these types: a column may have had another one when its
    /// rows were written.
    ///
    /// # Errors
    /// When the query fails.
    pub(crate) async fn describe_with(&self, table: Oid, types: &[Oid]) -> Result<TableDescription, Error> {
        let mut answer = self.ask_columns(&[table], types).await?;
        let known = types.iter().copied().filter(|oid| answer.types.contains_key(oid));
        let types = known.map(|oid| (oid, kind(&answer.types, oid, TYPE_DEPTH_MAX))).collect();
        Ok(TableDescription { columns: answer.columns.remove(&table).unwrap_or_default(), types })
    }

    async fn ask_columns(&self, tables: &[Oid], types: &[Oid]) -> Result<Answer, Error> {
        const DOING: &str = "reading the columns of tables";
        let numbers = |oids: &[Oid]| oids.iter().map(|oid| oid.0).collect::<Vec<u32>>();
        let rows = self.query(DOING, COLUMNS, &[&numbers(tables), &numbers(types)]).await?;
        Answer::read(&rows).map_err(|error| Error::sql(DOING, error))
    }

    /// Reads the columns of a table's primary key, in the key's order; none when it has no primary key.
    ///
    /// # Errors
    /// When the query fails.
    pub(crate) async fn primary_key(&self, table: Oid) -> Result<Vec<String>, Error> {
        const DOING: &str = "reading the primary key of a table";
        let rows = self.query(DOING, PRIMARY_KEY, &[&table.0]).await?;
        rows.iter().map(|row| row.try_get(0).map_err(|error| Error::sql(DOING, error))).collect()
    }

    /// Returns the schema of the operators that order a column, for each column of a table whose operators are not PostgreSQL's own.
    ///
    /// # Errors
    /// When the query fails.
    pub(crate) async fn operator_schemas(&self, table: Oid) -> Result<HashMap<String, String>, Error> {
        const DOING: &str = "reading the operators of a table's columns";
        let rows = self.query(DOING, OPERATORS, &[&table.0]).await?;
        let schema = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
        rows.iter().map(schema).collect::<Result<_, _>>().map_err(|error| Error::sql(DOING, error))
    }

    /// Reads schema and name of the topmost table that `table` is a partition of, itself included; `None`
    /// if it was dropped.
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

/// Result of the query.
struct Answer {
    columns: HashMap<Oid, Vec<ColumnDescription>>,
    types: HashMap<Oid, TypeRow>,
}

impl Answer {
    fn read(rows: &[Row]) -> Result<Self, tokio_postgres::Error> {
        let (mut of_columns, mut types) = (Vec::new(), HashMap::new());
        for row in rows {
            match row.try_get::<_, Option<u32>>(7)? {
                Some(table) => of_columns.push((Oid(table), row)),
                None => drop(types.insert(Oid(row.try_get(2)?), TypeRow::read(row)?)),
            }
        }
        let mut columns: HashMap<_, Vec<_>> = HashMap::new();
        for (table, row) in of_columns {
            columns.entry(table).or_default().push(column(row, &types)?);
        }
        Ok(Self { columns, types })
    }
}

fn column(row: &Row, types: &HashMap<Oid, TypeRow>) -> Result<ColumnDescription, tokio_postgres::Error> {
    let type_oid = Oid(row.try_get(2)?);
    Ok(ColumnDescription {
        name: row.try_get(1)?,
        type_oid,
        type_modifier: row.try_get(3)?,
        kind: kind(types, type_oid, TYPE_DEPTH_MAX),
        not_null: row.try_get(4)?,
        default: row.try_get(5)?,
        key_position: row.try_get(6)?,
    })
}

impl TypeRow {
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            name: row.try_get(1)?,
            class: row.try_get(8)?,
            base: Oid(row.try_get(9)?),
            base_modifier: row.try_get(10)?,
            element: Oid(row.try_get(11)?),
            labels: row.try_get(12)?,
            money_digits: row.try_get(13)?,
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
