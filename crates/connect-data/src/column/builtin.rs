//! Object ids of PostgreSQL's built-in types.

use super::TypeKind;
use pg_replication::wal::Oid;

/// Built-in types: object id, object id of the array, name (`pg_type.dat`).
const TYPES: &[(u32, u32, &str)] = &[
    (16, 1000, "bool"),
    (17, 1001, "bytea"),
    (18, 1002, "char"),
    (19, 1003, "name"),
    (20, 1016, "int8"),
    (21, 1005, "int2"),
    (23, 1007, "int4"),
    (25, 1009, "text"),
    (26, 1028, "oid"),
    (114, 199, "json"),
    (142, 143, "xml"),
    (600, 1017, "point"),
    (601, 1018, "lseg"),
    (602, 1019, "path"),
    (603, 1020, "box"),
    (604, 1027, "polygon"),
    (628, 629, "line"),
    (650, 651, "cidr"),
    (700, 1021, "float4"),
    (701, 1022, "float8"),
    (718, 719, "circle"),
    (774, 775, "macaddr8"),
    (790, 791, "money"),
    (829, 1040, "macaddr"),
    (869, 1041, "inet"),
    (1042, 1014, "bpchar"),
    (1043, 1015, "varchar"),
    (1082, 1182, "date"),
    (1083, 1183, "time"),
    (1114, 1115, "timestamp"),
    (1184, 1185, "timestamptz"),
    (1186, 1187, "interval"),
    (1266, 1270, "timetz"),
    (1560, 1561, "bit"),
    (1562, 1563, "varbit"),
    (1700, 1231, "numeric"),
    (2950, 2951, "uuid"),
    (3614, 3643, "tsvector"),
    (3802, 3807, "jsonb"),
    (3904, 3905, "int4range"),
    (3906, 3907, "numrange"),
    (3908, 3909, "tsrange"),
    (3910, 3911, "tstzrange"),
    (3912, 3913, "daterange"),
    (3926, 3927, "int8range"),
];

/// Returns the type with this object id: [`TypeKind::Other`] if it is not in [`TYPES`].
pub(super) fn kind(oid: Oid) -> TypeKind {
    let found = TYPES.iter().find(|(base, array, _)| oid.0 == *base || oid.0 == *array);
    match found {
        Some((base, _, name)) if oid.0 == *base => TypeKind::base(*name),
        Some((_, _, name)) => TypeKind::Array { element: Box::new(TypeKind::base(*name)) },
        None => TypeKind::Other { name: format!("type {oid}") },
    }
}
