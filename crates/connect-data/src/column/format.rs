//! Text formats and schemas of PostgreSQL's types.

use super::TypeKind;
use super::options::{ColumnOptions, HstoreHandling, TimePrecision};
use super::types::geometry::Geometry;
use super::types::geometry::point;
use super::types::geometry::postgis::Postgis;
use super::types::interval::IntervalFormat;
use super::types::temporal::{
    TemporalFormat, date_format, time_format, timestamp_format, timestamptz_format, timetz_format,
};
use super::types::vector::Vector;
use super::types::{array, bytes, hstore, interval, numeric, unknown};
use crate::{Field, Kind, Schema, Value};

/// Text format of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Format {
    Bool,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    /// The text is the value.
    Text,
    Numeric(numeric::NumericFormat),
    Money(numeric::MoneyFormat),
    Bytea(super::BinaryHandling),
    /// `bit(1)`: a boolean.
    Bit,
    Bits,
    Temporal(TemporalFormat),
    Interval(IntervalFormat),
    Hstore(HstoreHandling),
    Point,
    /// A type that is shown only with `include.unknown.datatypes`.
    Unknown(super::BinaryHandling),
    Geometric(Geometry),
    Postgis(Postgis),
    Vector(Vector),
    /// Debezium announces the column and has null for each of its values.
    Lost,
    /// Element of an array of a geometric type or of `sparsevec`. Debezium announces such arrays, and fails at every
    /// element.
    WithoutForm,
    Array {
        element: Box<Self>,
        /// True if an element may be null.
        nullable: bool,
        /// Character between the elements (`pg_type.typdelim`).
        delimiter: char,
    },
}

impl Format {
    /// Returns a type's format and the schema of its values, or `None` when the type is not shown.
    pub(super) fn of(kind: &TypeKind, modifier: i32, options: &ColumnOptions) -> Option<(Self, Schema)> {
        match kind {
            TypeKind::Base { name } => base(name, modifier, options),
            TypeKind::Money { fraction_digits } => Some(numeric::money(Some(*fraction_digits), options)),
            TypeKind::Domain { base, modifier: own, .. } => {
                Self::of(base, if modifier >= 0 { modifier } else { *own }, options)
            }
            TypeKind::Enum { labels, .. } => Some((Self::Text, enumeration(labels))),
            TypeKind::Array { element } => array_of(element, modifier, options),
            TypeKind::Other { .. } => unknown::column(options),
        }
    }

    /// Reports whether the type has values for which [`Self::decode`] has no form.
    pub(super) const fn may_lack_a_form(&self) -> bool {
        match self {
            Self::Numeric(_) | Self::Money(_) | Self::Temporal(_) | Self::Interval(_) => true,
            Self::Hstore(_) | Self::Point | Self::Geometric(_) => true,
            Self::Postgis(_) | Self::Vector(_) => true,
            Self::WithoutForm | Self::Array { .. } => true,
            Self::Bool | Self::Int16 | Self::Int32 | Self::Int64 | Self::Float32 | Self::Float64 => false,
            Self::Text | Self::Bytea(_) | Self::Bit | Self::Bits | Self::Unknown(_) | Self::Lost => false,
        }
    }

    /// Reads a value. Returns `None` if the text is not of the type, or has no form.
    pub(super) fn decode<'a>(&self, text: &'a str) -> Option<Value<'a>> {
        Some(match self {
            Self::Text => Value::str(text),
            Self::Bool => Value::Bool(boolean(text)?),
            Self::Int16 => Value::Int16(text.parse().ok()?),
            Self::Int32 => Value::Int32(text.parse().ok()?),
            Self::Int64 => Value::Int64(text.parse().ok()?),
            Self::Float32 => Value::Float32(text.parse().ok()?),
            Self::Float64 => Value::Float64(text.parse().ok()?),
            Self::Numeric(format) => return format.decode(text),
            Self::Money(format) => return format.decode(text),
            Self::Bytea(handling) => return bytes::decode(text, *handling),
            Self::Bit => Value::Bool(boolean(text)?),
            Self::Bits => return bytes::decode_bits(text),
            Self::Temporal(format) => return format.decode(text),
            Self::Interval(format) => return format.decode(text),
            Self::Hstore(handling) => return hstore::decode(text, *handling),
            Self::Point => return point::decode(text),
            Self::Unknown(handling) => unknown::decode(text, *handling),
            Self::Geometric(geometry) => return geometry.decode(text),
            Self::Postgis(postgis) => return postgis.decode(text),
            Self::Vector(vector) => return vector.decode(text),
            Self::Lost => Value::Null,
            Self::WithoutForm => return None,
            Self::Array { element, nullable, delimiter } => {
                return array::decode(text, element, *nullable, *delimiter);
            }
        })
    }
}

fn base(name: &str, modifier: i32, options: &ColumnOptions) -> Option<(Format, Schema)> {
    let text = |schema| Some((Format::Text, schema));
    match name {
        "bool" => Some((Format::Bool, Schema::new(Kind::Boolean))),
        "int2" => Some((Format::Int16, Schema::new(Kind::Int16))),
        "int4" => Some((Format::Int32, Schema::new(Kind::Int32))),
        "int8" | "oid" => Some((Format::Int64, Schema::new(Kind::Int64))),
        "float4" => Some((Format::Float32, Schema::new(Kind::Float32))),
        "float8" => Some((Format::Float64, Schema::new(Kind::Float64))),
        "numeric" => Some(numeric::numeric(modifier, options)),
        "money" => Some(numeric::money(None, options)),
        "bytea" => Some((Format::Bytea(options.binary), bytes::schema(options.binary))),
        "bit" => Some(bytes::bits(modifier.max(1))),
        "varbit" => Some(bytes::bits(if modifier < 0 { i32::MAX } else { modifier })),
        "date" | "time" | "timetz" | "timestamp" | "timestamptz" => temporal(name, modifier, options.time),
        "interval" => {
            let (format, schema) = interval::format(modifier, options);
            Some((Format::Interval(format), schema))
        }
        "hstore" => Some((Format::Hstore(options.hstore), hstore::schema(options.hstore))),
        "point" => Some((Format::Point, point::schema())),
        "name" if options.keeps_accidents && !options.include_unknown => {
            Some((Format::Lost, Schema::new(Kind::String)))
        }
        "json" | "jsonb" => text(Schema::named(Kind::String, "io.debezium.data.Json")),
        "xml" => text(Schema::named(Kind::String, "io.debezium.data.Xml")),
        "uuid" => text(Schema::named(Kind::String, "io.debezium.data.Uuid")),
        "ltree" => text(Schema::named(Kind::String, "io.debezium.data.Ltree")),
        "tsvector" => text(Schema::named(Kind::String, "io.debezium.data.Tsvector")),
        "text" | "varchar" | "bpchar" | "citext" | "char" | "name" | "isbn" | "inet" | "cidr" | "macaddr"
        | "macaddr8" | "int4range" | "int8range" | "numrange" | "tsrange" | "tstzrange" | "daterange" => {
            text(Schema::new(Kind::String))
        }
        _ => of_extension(name)
            .or_else(|| Geometry::named(name).map(|known| (Format::Geometric(known), known.schema())))
            .or_else(|| unknown::column(options)),
    }
}

/// Returns the format and schema of a type of PostGIS or pgvector, in whichever schema it is installed.
fn of_extension(name: &str) -> Option<(Format, Schema)> {
    if let Some(known) = Postgis::named(name) {
        return Some((Format::Postgis(known), known.schema()));
    }
    Vector::named(name).map(|known| (Format::Vector(known), known.schema()))
}

fn temporal(name: &str, modifier: i32, precision: TimePrecision) -> Option<(Format, Schema)> {
    let (format, schema) = match name {
        "date" => date_format(precision),
        "time" => time_format(modifier, precision),
        "timetz" => timetz_format(modifier, precision),
        "timestamp" => timestamp_format(modifier, precision),
        "timestamptz" => timestamptz_format(modifier, precision),
        _ => return None,
    };
    Some((Format::Temporal(format), schema))
}

fn enumeration(labels: &[String]) -> Schema {
    Schema::named(Kind::String, "io.debezium.data.Enum").with_parameter("allowed", labels.join(","))
}

fn array_of(element: &TypeKind, modifier: i32, options: &ColumnOptions) -> Option<(Format, Schema)> {
    let (format, schema) = match element {
        TypeKind::Base { name } if is_excluded(name) => return None,
        TypeKind::Money { .. } => return None,
        TypeKind::Base { .. } | TypeKind::Enum { .. } => Format::of(element, modifier, options)?,
        // Debezium treats such an array as one of enums, and does not find their labels.
        element if is_domain_over_enum(element) => (Format::Text, enumeration(&[])),
        // Debezium does not support arrays of other domains.
        TypeKind::Domain { .. } | TypeKind::Array { .. } | TypeKind::Other { .. } => {
            unknown::column(options)?
        }
    };
    let format = match format {
        Format::Temporal(format) if options.rounds_times_in_arrays => {
            Format::Temporal(format.with_whole_millis())
        }
        Format::Geometric(_) | Format::Vector(Vector::Sparse) => Format::WithoutForm,
        other => other,
    };
    let nullable = !has_required_elements(element) && !matches!(format, Format::Unknown(_));
    let schema = Schema::new(Kind::Array(schema.optional(nullable).into()));
    Some((Format::Array { element: Box::new(format), nullable, delimiter: delimiter(element) }, schema))
}

fn is_domain_over_enum(element: &TypeKind) -> bool {
    matches!(element, TypeKind::Domain { .. }) && matches!(element.underlying(), TypeKind::Enum { .. })
}

/// Reports whether Debezium omits arrays of this element type from the event.
fn is_excluded(element: &str) -> bool {
    ["money", "name", "interval", "varbit", "xml", "point", "refcursor"].contains(&element)
}

/// Returns the delimiter of array elements, which is a comma for all but a few types.
fn delimiter(element: &TypeKind) -> char {
    match element {
        TypeKind::Base { name } if name == "box" => ';',
        TypeKind::Base { name } if Postgis::named(name).is_some() => ':',
        _ => ',',
    }
}

/// Reports whether an array's elements are required: Debezium does not make the elements of some arrays optional.
fn has_required_elements(element: &TypeKind) -> bool {
    match element {
        TypeKind::Enum { .. } => true,
        TypeKind::Base { name } => {
            ["tsvector", "isbn"].contains(&name.as_str()) || Vector::named(name).is_some()
        }
        TypeKind::Domain { .. } => is_domain_over_enum(element),
        TypeKind::Money { .. } | TypeKind::Array { .. } | TypeKind::Other { .. } => false,
    }
}

/// Reads `t` and `f` as the server writes them, and `true`, `false`, `1` and `0` as in defaults and bit strings.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "t" | "true" | "1" => Some(true),
        "f" | "false" | "0" => Some(false),
        _ => None,
    }
}

/// Returns a required field.
pub(super) fn required(name: &str, kind: Kind) -> Field {
    Field::new(name, Schema::new(kind).into())
}

/// Returns an optional field.
pub(super) fn nullable(name: &str, kind: Kind) -> Field {
    Field::new(name, Schema::new(kind).optional(true).into())
}
