//! Debezium's `TimezoneConverter`: times in another zone.

mod zone;

use std::fmt::Write as _;

use super::unwrap::is_change_event;
use crate::column::{civil_date, civil_days};
use crate::source_record::SourceRecord;
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Field, Refused, Schema, Value};
use zone::{Zone, offset};

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
const NO_ZONE: &str = "it must be a zone by its name, such as Europe/Berlin, or an offset such as +02:00";

const NO_LIST: &str = "the first entry must be source:TABLE, source:TABLE:FIELD, topic:TOPIC, topic:TOPIC:FIELD or NAME:FIELD, \
     and each further one NAME or NAME:FIELD, of letters, digits, underscores and dots";

/// Times of a `source` block, which are numbers, and their units per second.
const EPOCHS: [(&str, i64); 3] = [("ts_ms", 1_000), ("ts_us", 1_000_000), ("ts_ns", 1_000_000_000)];

/// Transform `TimezoneConverter`, which converts times to another time zone.
#[derive(Debug)]
pub(in crate::transform) struct TimezoneConverter {
    zone: Zone,
    rules: Vec<Rule>,
    kind: ListKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListKind {
    /// No list is given.
    None,
    Include,
    Exclude,
}

/// Names with which a rule's name is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Topic,
    Table,
    Either,
}

/// Entry of `include.list` or `exclude.list`.
#[derive(Debug)]
struct Rule {
    scope: Scope,
    name: String,
    field: Option<String>,
}

impl TimezoneConverter {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let zone = settings.required("converted.timezone")?;
        let Some(zone) = Zone::parse(zone.trim()) else {
            return Err(settings.refuse("converted.timezone", NO_ZONE));
        };
        let (include, exclude) = (settings.list("include.list"), settings.list("exclude.list"));
        let (texts, kind, option) = match (include.is_empty(), exclude.is_empty()) {
            (true, true) => return Ok(Self { zone, rules: Vec::new(), kind: ListKind::None }),
            (false, true) => (include, ListKind::Include, "include.list"),
            (true, false) => (exclude, ListKind::Exclude, "exclude.list"),
            (false, false) => {
                return Err(
                    settings.refuse("exclude.list", "include.list is given too, only one of them may be")
                );
            }
        };
        match rules(&texts) {
            Some(rules) => Ok(Self { zone, rules, kind }),
            None => Err(settings.refuse(option, NO_LIST)),
        }
    }

    /// Returns the fields that the rules name for a record; none when no rule is for it.
    fn named(&self, table: Option<&str>, topic: &str) -> Option<Vec<&str>> {
        let order = [
            (Scope::Topic, Some(topic)),
            (Scope::Table, table),
            (Scope::Either, Some(topic)),
            (Scope::Either, table),
        ];
        order.iter().find_map(|(scope, name)| {
            let is_for = |rule: &&Rule| rule.scope == *scope && Some(rule.name.as_str()) == *name;
            let rules: Vec<&Rule> = self.rules.iter().filter(is_for).collect();
            let fields = rules.iter().filter_map(|rule| rule.field.as_deref());
            (!rules.is_empty()).then(|| fields.collect())
        })
    }

    /// Reports whether a field is converted, by the fields that were named.
    fn converts(&self, named: Option<&[&str]>, part: &str, field: &str) -> bool {
        let is_named = |names: &[&str]| {
            names.iter().any(|name| match name.split_once('.') {
                Some((of, name)) if matches!(of, "before" | "after" | "source") => {
                    of == part && name == field
                }
                _ => part != "source" && *name == field,
            })
        };
        match (self.kind, named) {
            (ListKind::None, _) | (ListKind::Exclude, None) => true,
            (ListKind::Include, None) => false,
            (ListKind::Include, Some(names)) => names.is_empty() || is_named(names),
            (ListKind::Exclude, Some(names)) => !names.is_empty() && !is_named(names),
        }
    }

    fn convert_all(
        &self,
        schema: &Schema,
        row: &mut [Value<'_>],
        now: i64,
        converts: impl Fn(&str) -> bool,
    ) -> Result<(), Problem> {
        for (field, value) in structs::fields(schema).iter().zip(row) {
            if is_time(field) && converts(&field.name) {
                // Connect's Struct returns the default in place of null.
                structs::take_default(&field.schema, value);
                self.convert(field, value, now)?;
            }
        }
        Ok(())
    }

    /// Converts a value. A time without a zone is read as local time of the zone; a text with an offset gets the zone's.
    /// `now` is in seconds since 1970.
    fn convert(&self, field: &Field, value: &mut Value<'_>, now: i64) -> Result<(), Problem> {
        let per_second = match field.schema.name() {
            Some("io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp") => 1_000,
            Some("io.debezium.time.MicroTimestamp") => 1_000_000,
            Some("io.debezium.time.NanoTimestamp") => 1_000_000_000,
            Some("io.debezium.time.ZonedTimestamp") => return self.convert_text(value, None),
            Some("io.debezium.time.ZonedTime") => return self.convert_text(value, Some(now)),
            _ => return Ok(()),
        };
        if let Value::Int64(time) | Value::Date(time) = value {
            let ahead = self.zone.at_local(time.div_euclid(per_second));
            // Infinity is the largest number, and wraps around, as in Java.
            *time = time.wrapping_sub(ahead.wrapping_mul(per_second));
        }
        Ok(())
    }

    /// Converts a text with an offset. With `today`, in seconds since 1970, it is a time without a date, and gets the offset
    /// of that moment.
    fn convert_text(&self, value: &mut Value<'_>, today: Option<i64>) -> Result<(), Problem> {
        let Value::Str(text) = value else { return Ok(()) };
        let ahead = |local| today.map_or_else(|| self.zone.at_local(local), |now| self.zone.at(now));
        let moved =
            moved(text, ahead, today.is_none()).ok_or(Problem::Unreadable("a time with an offset"))?;
        *value = Value::Str(moved.into());
        Ok(())
    }

    /// Converts the times of the `source` block, if a rule names one of them.
    fn convert_source(&self, schema: &Schema, source: &mut [Value<'_>], named: &[&str]) {
        let mut names = named.iter().filter_map(|name| name.strip_prefix("source.")).peekable();
        if names.peek().is_none() {
            return;
        }
        let names: Vec<&str> = names.collect();
        for (field, value) in structs::fields(schema).iter().zip(source) {
            let Some((_, per_second)) = EPOCHS.iter().find(|(name, _)| *name == field.name) else { continue };
            if names.contains(&field.name.as_str()) != (self.kind == ListKind::Include) {
                continue;
            }
            if let Value::Int64(time) = value {
                let ahead = self.zone.at(time.div_euclid(*per_second));
                *time = time.saturating_add(ahead.saturating_mul(*per_second));
            }
        }
    }
}

impl Transform for TimezoneConverter {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        if !is_change_event(&record.value) {
            return Ok(Some(record));
        }
        let (Some(schema), Value::Struct(event)) = (&record.value.schema, &mut record.value.value) else {
            return Ok(Some(record));
        };
        let named = self.named(table(schema, event), &record.topic);
        let now = made_at(schema, event);
        for part in ["before", "after"] {
            let Ok((position, field)) = structs::required(schema, part) else { continue };
            let Some(Value::Struct(row)) = event.get_mut(position) else { continue };
            self.convert_all(&field.schema, row, now, |name| self.converts(named.as_deref(), part, name))?;
        }
        if let Ok((position, field)) = structs::required(schema, "source")
            && let Some(Value::Struct(source)) = event.get_mut(position)
        {
            self.convert_source(&field.schema, source, named.as_deref().unwrap_or_default());
        }
        Ok(Some(record))
    }

    fn shares_headers(&self, _record: &SourceRecord<'_>) -> bool {
        true
    }
}

/// Reports whether the field's values depend on the time zone. All others stay unchanged, nulls too.
fn is_time(field: &Field) -> bool {
    let name = field.schema.name().unwrap_or_default();
    let of_debezium = ["Timestamp", "MicroTimestamp", "NanoTimestamp", "ZonedTimestamp", "ZonedTime"];
    name == "org.apache.kafka.connect.data.Timestamp"
        || name.strip_prefix("io.debezium.time.").is_some_and(|name| of_debezium.contains(&name))
}

/// Returns the time at which the event was made, in seconds since 1970.
fn made_at(schema: &Schema, event: &[Value<'_>]) -> i64 {
    let position = structs::position(schema, "ts_ms");
    match position.and_then(|position| event.get(position)) {
        Some(Value::Int64(millis)) => millis.div_euclid(1_000),
        _ => 0,
    }
}

/// Returns the table's name, from the event's `source`.
fn table<'e>(schema: &Schema, event: &'e [Value<'_>]) -> Option<&'e str> {
    let (position, source) = structs::required(schema, "source").ok()?;
    let Value::Struct(values) = event.get(position)? else { return None };
    match values.get(structs::position(&source.schema, "table")?)? {
        Value::Str(table) => Some(table),
        _ => None,
    }
}

/// Parses the entries of a list. An entry without a scope has that of the entry before it. As in Debezium, the first entry
/// has at least two parts, and no other one more than two.
fn rules(texts: &[String]) -> Option<Vec<Rule>> {
    let parts = |text: &String| text.split(':').count();
    let first_has_few = texts.first().is_some_and(|text| parts(text) < 2);
    if first_has_few
        || texts.iter().skip(1).any(|text| parts(text) > 2)
        || !texts.iter().all(|text| is_plain(text))
    {
        return None;
    }
    let mut scope = Scope::Either;
    let rule = |text: &String| {
        let mut parts: Vec<&str> = text.split(':').collect();
        let first = parts.first()?.to_ascii_lowercase();
        if parts.len() > 1 && matches!(first.as_str(), "source" | "topic") {
            scope = if first == "source" { Scope::Table } else { Scope::Topic };
            parts.remove(0);
        }
        let (name, field) = (*parts.first()?, parts.get(1));
        let is_rule = !name.is_empty() && parts.len() <= 2;
        is_rule.then(|| Rule { scope, name: name.to_owned(), field: field.map(|field| (*field).to_owned()) })
    };
    texts.iter().map(rule).collect()
}

/// Reports whether a rule has only characters that Debezium accepts, and no empty part.
fn is_plain(text: &str) -> bool {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b"_.\" :\t".contains(&byte);
    text.bytes().all(is_taken) && text.split(':').all(|part| !part.is_empty())
}

/// Converts an ISO time with an offset to another zone; `ahead` returns the offset of that zone at a local time, in seconds.
fn moved(text: &str, ahead: impl Fn(i64) -> i64, has_date: bool) -> Option<String> {
    let (date, clock) = if has_date { text.split_once('T')? } else { ("1970-01-01", text) };
    let at = clock.find(['Z', '+', '-'])?;
    let (clock, zone) = clock.split_at_checked(at)?;
    let (seconds, nanos) = seconds_of_day(clock)?;
    let days = days_of(date)?;
    let shown = days.checked_mul(SECONDS_PER_DAY)?.checked_add(seconds)?;
    let utc = shown.checked_sub(offset(zone)?)?;
    // Debezium uses the offset that the zone has at this local time.
    let to = ahead(shown);
    let local = utc.checked_add(to)?;
    let of_day = local.rem_euclid(SECONDS_PER_DAY);
    let mut out = String::new();
    if has_date {
        let (year, month, day) = civil_date(local.div_euclid(SECONDS_PER_DAY));
        let _infallible = match year {
            10_000.. => write!(out, "+{year}-{month:02}-{day:02}T"),
            0.. => write!(out, "{year:04}-{month:02}-{day:02}T"),
            _ => write!(out, "-{:04}-{month:02}-{day:02}T", year.unsigned_abs()),
        };
    }
    let _infallible = write!(out, "{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
    if nanos > 0 {
        let _infallible = write!(out, ".{}", format!("{nanos:09}").trim_end_matches('0'));
    }
    write_offset(&mut out, to);
    Some(out)
}

fn write_offset(out: &mut String, seconds: i64) {
    if seconds == 0 {
        out.push('Z');
        return;
    }
    let (sign, ahead) = if seconds < 0 { ('-', -seconds) } else { ('+', seconds) };
    let _infallible = write!(out, "{sign}{:02}:{:02}", ahead / 3600, ahead / 60 % 60);
    if ahead % 60 != 0 {
        let _infallible = write!(out, ":{:02}", ahead % 60);
    }
}

fn seconds_of_day(clock: &str) -> Option<(i64, i128)> {
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let numbers: Option<Vec<i64>> = clock.split(':').map(|part| part.parse().ok()).collect();
    let seconds = match *numbers?.as_slice() {
        [hours, minutes] => hours * 3600 + minutes * 60,
        [hours, minutes, seconds] => hours * 3600 + minutes * 60 + seconds,
        _ => return None,
    };
    let nanos: i128 = format!("{fraction:0<9}").parse().ok()?;
    (nanos < NANOS_PER_SECOND && (0..SECONDS_PER_DAY).contains(&seconds)).then_some((seconds, nanos))
}

fn days_of(date: &str) -> Option<i64> {
    let (is_before_christ, date) = date.strip_prefix('-').map_or((false, date), |rest| (true, rest));
    let mut parts = date.trim_start_matches('+').splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let in_range = year <= 9_999_999 && (1..=12).contains(&month) && (1..=31).contains(&day);
    in_range.then(|| civil_days(if is_before_christ { -year } else { year }, month, day))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_shown_as_they_are_elsewhere() {
        let cases = [
            ("2024-01-02T03:04:05.678901Z", "+05:30", true, "2024-01-02T08:34:05.678901+05:30"),
            ("2024-01-01T01:00:00+03:00", "-02:00", true, "2023-12-31T20:00:00-02:00"),
            ("2024-01-01T01:00:00.100Z", "UTC", true, "2024-01-01T01:00:00.1Z"),
            ("23:30:00Z", "+01:00", false, "00:30:00+01:00"),
            ("2024-07-01T12:00:00Z", "Europe/Berlin", true, "2024-07-01T14:00:00+02:00"),
            ("2024-01-01T12:00:00Z", "America/Los_Angeles", true, "2024-01-01T04:00:00-08:00"),
        ];
        for (text, zone, has_date, expected) in cases {
            let zone = Zone::parse(zone).unwrap();
            assert_eq!(
                moved(text, |local| zone.at_local(local), has_date).as_deref(),
                Some(expected),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_moved_or_refused(text in "[-+0-9T:.Z]{0,30}", has_date: bool) {
            let _moved = moved(&text, |_| 3600, has_date);
        }
    }
}
