//! Appearance of a record: one plain line in a pipe, colours and columns on a terminal.

use std::time::Duration;

use console::{Alignment, Style, measure_text_width, pad_str, truncate_str};

/// Width from which on a record with its value fits on one line.
const ONE_LINE_COLUMNS_MIN: usize = 130;
/// The columns left of the value, when it has a line of its own.
const VALUE_INDENT: usize = 2;
/// A narrower terminal wraps.
const COLUMNS_MIN: usize = 40;
/// `OrderCancelled`
const TYPE_COLUMNS: usize = 14;
/// `1:1234`
const PLACE_COLUMNS: usize = 6;
const KEY_COLUMNS: usize = 5;
/// `1234.5 ms`
const LATENCY_COLUMNS: usize = 9;
/// Columns of a header's value on a terminal: enough to distinguish two UUIDs.
const HEADER_COLUMNS_MAX: usize = 9;
/// Latency from which a record is highlighted.
const SLOW: Duration = Duration::from_millis(250);
/// Colours of orders: all records of one order have the same (256-colour palette).
const KEY_COLOURS: [u8; 8] = [39, 208, 78, 170, 220, 44, 204, 149];
/// The header that the demo's configuration puts `event_type` into.
pub(super) const TYPE_HEADER: &str = "eventType";

/// A record as the consumer has read it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) topic: &'a str,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) key: &'a str,
    pub(super) headers: &'a [(String, String)],
    pub(super) value: &'a str,
    /// Time from COMMIT to here; `None` when another program wrote the row.
    pub(super) latency: Option<Duration>,
}

/// Target of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// A pipe or a file: the same line for every reader.
    Pipe,
    /// A terminal of this width.
    Terminal { columns: usize, colour: bool },
}

/// Returns one record, with its line break.
pub(super) fn record(record: &Record<'_>, page: Page) -> String {
    match page {
        Page::Pipe => plain(record),
        Page::Terminal { columns, colour } => drawn(record, columns.max(COLUMNS_MIN), colour),
    }
}

/// Formats milliseconds to one decimal.
pub(super) fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

/// Returns a style that colours or does not, whatever the library derives from the environment.
pub(super) fn style(colour: bool) -> Style {
    Style::new().force_styling(colour)
}

/// Escapes control characters, so that a value cannot move the cursor or begin a line of its own.
pub(super) fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        shown
    })
}

fn plain(record: &Record<'_>) -> String {
    let latency = record.latency.map_or_else(|| "-".to_owned(), |time| milliseconds(time).replace(' ', ""));
    let headers: Vec<_> = record.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let line = format!(
        "{} partition={} offset={} key={} headers={} latency={latency} value={}",
        record.topic,
        record.partition,
        record.offset,
        record.key,
        headers.join(","),
        record.value
    );
    escaped(&line) + "\n"
}

fn drawn(record: &Record<'_>, columns: usize, colour: bool) -> String {
    let dim = style(colour).dim();
    let mut line = head(record, colour);
    let mut left = columns.saturating_sub(measure_text_width(&line));
    for (name, value) in record.headers.iter().filter(|(name, _)| name != TYPE_HEADER) {
        let text = truncate_str(&escaped(value), HEADER_COLUMNS_MAX, "…").into_owned();
        let header = format!("  {}={text}", escaped(name));
        let needed = measure_text_width(&header);
        if needed <= left {
            left -= needed;
            line.push_str(&dim.apply_to(header).to_string());
        }
    }
    let value = escaped(record.value);
    let (gap, room) = if columns >= ONE_LINE_COLUMNS_MIN {
        ("  ".to_owned(), left.saturating_sub(VALUE_INDENT))
    } else {
        (format!("\n{}", " ".repeat(VALUE_INDENT)), columns.saturating_sub(VALUE_INDENT))
    };
    let value = truncate_str(&value, room, "…");
    let value = if columns >= ONE_LINE_COLUMNS_MIN { style(colour) } else { dim }.apply_to(value);
    format!("{line}{gap}{value}\n")
}

/// Returns `OrderCreated    1003  outbox.event.order 2:17    3.1 ms`.
fn head(record: &Record<'_>, colour: bool) -> String {
    let event_type = record.headers.iter().find(|(name, _)| name == TYPE_HEADER);
    let event_type = event_type.map_or_else(String::new, |(_, value)| escaped(value));
    let place = format!("{}:{}", record.partition, record.offset);
    let latency = record.latency.map_or_else(|| "–".to_owned(), milliseconds);
    let slow = record.latency.is_some_and(|time| time > SLOW);
    let latency_style = if slow { style(colour).yellow() } else { style(colour) };
    let cells = [
        type_style(&event_type, colour).apply_to(pad(&event_type, TYPE_COLUMNS, Alignment::Left)).to_string(),
        key_style(record.key, colour)
            .apply_to(pad(&escaped(record.key), KEY_COLUMNS, Alignment::Right))
            .to_string(),
        style(colour).dim().apply_to(escaped(record.topic)).to_string(),
        pad(&place, PLACE_COLUMNS, Alignment::Left),
        latency_style.apply_to(pad(&latency, LATENCY_COLUMNS, Alignment::Right)).to_string(),
    ];
    cells.join("  ")
}

fn pad(text: &str, columns: usize, alignment: Alignment) -> String {
    pad_str(text, columns, alignment, None).into_owned()
}

fn type_style(event_type: &str, colour: bool) -> Style {
    let style = style(colour).bold();
    match event_type {
        "OrderCreated" => style.green(),
        "OrderPaid" => style.cyan(),
        "OrderShipped" => style.blue(),
        "OrderCancelled" => style.red(),
        _ => style,
    }
}

fn key_style(key: &str, colour: bool) -> Style {
    let sum = key.bytes().fold(0_usize, |sum, byte| sum.wrapping_add(usize::from(byte)));
    let index = sum.checked_rem(KEY_COLOURS.len()).unwrap_or_default();
    KEY_COLOURS.get(index).map_or_else(|| style(colour), |&number| style(colour).color256(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers() -> Vec<(String, String)> {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![header("id", "5a4f21c7-0000-4000-8000-000000000000"), header(TYPE_HEADER, "OrderCreated")]
    }

    fn sample<'a>(headers: &'a [(String, String)], value: &'a str) -> Record<'a> {
        let latency = Some(Duration::from_micros(3140));
        Record { topic: "outbox.event.order", partition: 2, offset: 17, key: "1003", headers, value, latency }
    }

    #[test]
    fn a_pipe_gets_everything_on_one_line() {
        let headers = headers();
        assert_eq!(
            record(&sample(&headers, "{\"total\": 1}\n"), Page::Pipe),
            "outbox.event.order partition=2 offset=17 key=1003 \
             headers=id=5a4f21c7-0000-4000-8000-000000000000,eventType=OrderCreated latency=3.1ms \
             value={\"total\": 1}\\n\n"
        );
    }

    #[test]
    fn a_terminal_gets_columns() {
        let headers = headers();
        let value = "{\"total\": 1}";
        let head = "OrderCreated     1003  outbox.event.order  2:17       3.1 ms  id=5a4f21c7…";
        let cases = [
            (80, format!("{head}\n  {value}\n")),
            (130, format!("{head}  {value}\n")),
            (
                60,
                "OrderCreated     1003  outbox.event.order  2:17       3.1 ms\n  {\"total\": 1}\n".to_owned(),
            ),
        ];
        for (columns, expected) in cases {
            let page = Page::Terminal { columns, colour: false };
            assert_eq!(record(&sample(&headers, value), page), expected, "{columns}");
        }
    }

    #[test]
    fn a_row_of_another_program_has_no_time() {
        let foreign = Record { latency: None, ..sample(&[], "{}") };
        assert!(record(&foreign, Page::Pipe).contains(" latency=- "));
        assert!(record(&foreign, Page::Terminal { columns: 80, colour: false }).contains(" –\n"));
    }

    #[test]
    fn colours_are_there_only_when_asked_for() {
        let headers = headers();
        let draw = |colour| record(&sample(&headers, "{}"), Page::Terminal { columns: 80, colour });
        assert!(draw(true).contains("\u{1b}[") && !draw(false).contains('\u{1b}'));
        assert_eq!(console::strip_ansi_codes(&draw(true)), draw(false));
    }

    proptest! {
        #[test]
        fn no_value_breaks_out_of_its_lines(key: String, value: String, columns in 0_usize..200) {
            let headers = [("id".to_owned(), value.clone())];
            for page in [Page::Pipe, Page::Terminal { columns, colour: false }] {
                let shown = record(&Record { key: &key, ..sample(&headers, &value) }, page);
                prop_assert!(shown.lines().count() <= 2 && shown.ends_with('\n'));
                prop_assert!(!shown.replace('\n', "").contains(char::is_control));
            }
        }

        #[test]
        fn a_value_is_cut_at_the_edge(value in "[ -~é→]{0,300}", columns in 80_usize..200) {
            let headers = headers();
            let shown = record(&sample(&headers, &value), Page::Terminal { columns, colour: false });
            prop_assert!(shown.lines().all(|line| measure_text_width(line) <= columns), "{shown}");
        }
    }
}
