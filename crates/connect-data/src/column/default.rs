//! Defaults of columns in schemas.

use super::format::Format;
use super::types::bytes::decode_bits;
use super::types::numeric::precision_and_scale;
use super::{ColumnDescription, TypeKind};
use crate::{Decimal, Value};

/// Function calls that are written as one word.
const CURRENT_TIMES: [&str; 5] =
    ["current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"];

/// Returns the default that Debezium puts into a column's schema (`PostgresDefaultValueConverter`): a literal's value,
/// a zero value for a function call, and `None` for other expressions and for types that Debezium does not parse.
pub(super) fn value(column: &ColumnDescription, format: &Format) -> Option<Value<'static>> {
    let (kind, expression) = (&column.kind, column.default.as_deref()?);
    let expression = expression.trim();
    if expression.starts_with("NULL::") {
        return None;
    }
    let text = match kind {
        TypeKind::Enum { .. } => enum_literal(expression)?,
        TypeKind::Base { name } => {
            let zero = zero(name)?;
            let text = if is_generated(expression) { zero.to_owned() } else { literal(expression)? };
            parsed(name, text, column.type_modifier)?
        }
        TypeKind::Money { .. }
        | TypeKind::Domain { .. }
        | TypeKind::Array { .. }
        | TypeKind::Other { .. } => {
            return None;
        }
    };
    let value = match format {
        Format::Bits => decode_bits(&text)?,
        other => other.decode(&text)?.into_owned(),
    };
    let value = if text == END_OF_DAY { to_the_nanosecond(value) } else { value };
    // A struct cannot be a default (KAFKA-12694).
    (!matches!(value, Value::Struct(_) | Value::Null)).then_some(value)
}

/// Latest `time` in PostgreSQL's digits. Java's latest time of day is a nanosecond before `24:00`.
const END_OF_DAY: &str = "23:59:59.999999";

fn to_the_nanosecond(value: Value<'static>) -> Value<'static> {
    match value {
        Value::Str(text) => Value::Str(text.replace(".999999Z", ".999999999Z").into()),
        Value::Int64(nanos @ 86_399_999_999_000) => Value::Int64(nanos.saturating_add(999)),
        other => other,
    }
}

/// Returns the text of the zero value that replaces a function call, or `None` if Debezium does not parse defaults of
/// the type.
fn zero(type_name: &str) -> Option<&'static str> {
    Some(match type_name {
        "bit" => "00",
        "varbit" | "int2" | "int4" | "int8" => "0",
        "bool" => "false",
        "bpchar" | "varchar" | "text" | "xml" => "",
        "numeric" | "float4" | "float8" => "0.0",
        "json" | "jsonb" => "{}",
        "uuid" => "00000000-0000-0000-0000-000000000000",
        "date" => "1970-01-01",
        "time" | "interval" => "00:00:00",
        "timestamp" => "1970-01-01 00:00:00",
        "timestamptz" => "1970-01-01 00:00:00+00",
        _ => return None,
    })
}

/// Converts a literal's text as Java parses it: any boolean but `true` is false, and a number takes its column's scale.
fn parsed(type_name: &str, text: String, modifier: i32) -> Option<String> {
    match type_name {
        "bool" => Some(text.eq_ignore_ascii_case("true").to_string()),
        "numeric" => {
            let number = Decimal::parse(&text)?;
            let scale = precision_and_scale(modifier).map_or(number.scale(), |(_, scale)| scale);
            Some(number.with_scale(scale)?.to_plain_string())
        }
        "uuid" => uuid(&text),
        // Words without a digit are no time, and no bits.
        "interval" if !text.contains(|c: char| c.is_ascii_digit()) => Some("00:00:00".to_owned()),
        "bit" | "varbit" if !text.contains(|c: char| c.is_ascii_digit()) => Some(String::new()),
        "time" if text.starts_with("24:00") => Some(END_OF_DAY.to_owned()),
        "date" | "timestamp" | "timestamptz" => Some(moment(type_name, &text).unwrap_or(text)),
        _ => Some(text),
    }
}

/// Reads a UUID as Java does: five hexadecimal numbers, each cut to the length of its part.
fn uuid(text: &str) -> Option<String> {
    let number = |part: &str| u64::from_str_radix(part, 16).ok().filter(|_| !part.starts_with('+'));
    let numbers: Vec<_> = text.split('-').map(number).collect::<Option<_>>()?;
    let [low, middle, version, variant, node] = numbers[..] else { return None };
    let [low, middle, version] = [low & 0xFFFF_FFFF, middle & 0xFFFF, version & 0xFFFF];
    let [variant, node] = [variant & 0xFFFF, node & 0xFFFF_FFFF_FFFF];
    Some(format!("{low:08x}-{middle:04x}-{version:04x}-{variant:04x}-{node:012x}"))
}

/// Converts the literal of another date or time type, which `ALTER COLUMN … TYPE` leaves inside its casts: a timestamp
/// becomes its date, a date becomes its midnight, and the time zone is UTC.
fn moment(type_name: &str, text: &str) -> Option<String> {
    let (text, era) = text.strip_suffix(" BC").map_or((text, ""), |before| (before, " BC"));
    let (date, time) = text.split_once(' ').unwrap_or((text, ""));
    if !date.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if type_name == "date" {
        return Some(format!("{date}{era}"));
    }
    let time = if time.is_empty() { "00:00:00" } else { time };
    let zone = if type_name == "timestamptz" && !time.contains(['+', '-']) { "+00" } else { "" };
    let time = if type_name == "timestamp" { time.strip_suffix("+00").unwrap_or(time) } else { time };
    Some(format!("{date} {time}{zone}{era}"))
}

/// Reports whether the default is a function call: `now()`, `(nextval('s'::regclass))`, `CURRENT_TIMESTAMP`.
fn is_generated(expression: &str) -> bool {
    if CURRENT_TIMES.iter().any(|word| word.eq_ignore_ascii_case(expression)) {
        return true;
    }
    let name = expression.strip_prefix('(').unwrap_or(expression);
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(name.len());
    end > 0 && name.get(end..).is_some_and(|behind| behind.starts_with('(') && behind.contains(')'))
}

/// Returns a literal's text: the quoted part of `'{}'::jsonb` and `B'101'::"bit"`, and all of `1.5`.
fn literal(expression: &str) -> Option<String> {
    if expression.contains('\'') { quoted_literal(expression) } else { Some(expression.to_owned()) }
}

/// Returns the label of `'ok'::mood`, or `None` for a calculated default. A doubled quote stays doubled, as in
/// Debezium.
fn enum_literal(expression: &str) -> Option<String> {
    let (literal, _) = expression.rsplit_once("::")?;
    literal.strip_prefix('\'')?.strip_suffix('\'').map(str::to_owned)
}

/// Returns the text between the first quote and its closing quote. A doubled quote becomes one.
fn quoted_literal(expression: &str) -> Option<String> {
    let (_, literal) = expression.split_once('\'')?;
    let mut text = String::new();
    let mut characters = literal.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\'' && characters.next_if_eq(&'\'').is_none() {
            return Some(text);
        }
        text.push(character);
    }
    None
}
