use super::TypeKind;
use super::bytes::decode_bits;
use super::format::Format;
use crate::connect::Value;

/// Words that stand for a function call.
const CURRENT_TIMES: [&str; 5] =
    ["current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"];

/// The default that Debezium puts into a column's schema (`PostgresDefaultValueConverter`): a literal's value, a zero
/// value for a function call, nothing for other expressions and for types it does not parse.
pub(super) fn value(kind: &TypeKind, format: &Format, expression: &str) -> Option<Value<'static>> {
    let expression = expression.trim();
    if expression.starts_with("NULL::") {
        return None;
    }
    let text = match kind {
        TypeKind::Enum { .. } => quoted_literal(expression)?,
        TypeKind::Base { name } => {
            let zero = zero(name)?;
            if is_generated(expression) { zero.to_owned() } else { literal(expression) }
        }
        TypeKind::Domain { .. } | TypeKind::Array { .. } | TypeKind::Other { .. } => return None,
    };
    let value = match format {
        Format::Bits => decode_bits(&text)?,
        other => other.decode(&text)?.into_owned(),
    };
    // A struct cannot be a default (KAFKA-12694).
    (!matches!(value, Value::Struct(_) | Value::Null)).then_some(value)
}

/// What stands for a generated value of the type, or `None` when Debezium does not parse defaults of the type.
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

/// `now()`, `(nextval('s'::regclass))`, `CURRENT_TIMESTAMP`
fn is_generated(expression: &str) -> bool {
    if CURRENT_TIMES.iter().any(|word| word.eq_ignore_ascii_case(expression)) {
        return true;
    }
    let name = expression.strip_prefix('(').unwrap_or(expression);
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(name.len());
    end > 0 && name.get(end..).is_some_and(|behind| behind.starts_with('(') && behind.contains(')'))
}

/// `'{}'::jsonb` and `B'101'::"bit"` are what stands in the quotes, `1.5` is itself.
fn literal(expression: &str) -> String {
    quoted_literal(expression).unwrap_or_else(|| expression.to_owned())
}

fn quoted_literal(expression: &str) -> Option<String> {
    let (_, quoted) = expression.split_once('\'')?;
    let mut text = String::with_capacity(quoted.len());
    let mut characters = quoted.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\'' && characters.next_if_eq(&'\'').is_none() {
            return Some(text);
        }
        text.push(character);
    }
    None
}
