//! `outboxd dlq show`.

use outboxd_inbox::dead_letter::DeadLetter;

use super::Context;
use super::args::ShowArgs;
use super::error::DlqError;
use super::ls::{CONTEXT_HEADERS, outcome};
use super::object::{Whole, contents, view};
use crate::cli::shell::notice::open_scan;
use crate::cli::shell::progress::Progress;
use crate::cli::shell::text::{clean, shown};
use crate::cli::shell::time;
use crate::error::Exit;
use crate::kafka::RecordReader;

/// Runs `outboxd dlq show`.
pub(super) fn show(args: &ShowArgs, context: &Context) -> Result<Exit, DlqError> {
    let Context { source, stop, .. } = context;
    let scan = open_scan(&source.options, std::slice::from_ref(&source.topic), None, &Progress::hidden())?;
    let partitions = scan.partitions();
    if partitions.is_empty() {
        return Err(DlqError::NoTopic(source.topic.clone()));
    }
    source.check_places(&args.places, partitions.len())?;
    let states = source.states(stop)?;
    let mut reader = RecordReader::new(&source.options)?;
    for place in &args.places {
        let missing = || DlqError::NoLetter { place: place.to_string(), topic: source.topic.clone() };
        let (partition, offset) = (place.partition.unwrap_or_default(), place.offset);
        let there = partitions.iter().find(|found| found.id == partition).ok_or_else(missing)?;
        if !(there.low..there.end).contains(&offset) {
            return Err(missing());
        }
        let record = source.record(&mut reader, partition, offset, stop)?.ok_or_else(missing)?;
        let outcome = states.of(partition, offset, view(&record).digest());
        let whole = Whole { topic: &source.topic, partition, offset, record: &record, outcome };
        context.print(&if args.json {
            whole.object(args.value).to_string() + "\n"
        } else {
            page(&whole, args.value)
        });
    }
    Ok(Exit::Ok)
}

fn page(whole: &Whole<'_>, with_value: bool) -> String {
    let Whole { topic, partition, offset, record, .. } = whole;
    let mut page = format!("{topic} {partition}:{offset}  {}\n", outcome(whole.outcome.as_ref()));
    let read = whole.read();
    match &read {
        Some(letter) => add_letter(&mut page, letter),
        None => page.push_str(&format!(
            "  no header has its origin or its reason. With {CONTEXT_HEADERS} later dead letters of outboxd have both\n"
        )),
    }
    let mut line = |name: &str, text: String| page.push_str(&format!("  {name:<10} {text}\n"));
    line("replays", view(record).replays().to_string());
    line("timestamp", record.timestamp_ms.map_or_else(|| "-".to_owned(), time::show));
    line("key", shown(record.key.as_deref()));
    for (name, value) in &record.headers {
        let is_said = read.as_ref().is_some_and(|letter| letter.dialect.owns(name));
        if !is_said {
            line("header", format!("{}: {}", clean(name), shown(value.as_deref())));
        }
    }
    match (&record.value, with_value) {
        (Some(value), false) => line("value", format!("{} bytes (--value shows them)", value.len())),
        (value, _) => line("value", shown(value.as_deref())),
    }
    if let Some(details) = read.and_then(|letter| letter.details) {
        page.push_str("  details\n");
        details
            .lines()
            .for_each(|text| page.push_str(&format!("    {}\n", clean(&text.replace('\t', "  ")))));
    }
    page
}

fn add_letter(page: &mut String, letter: &DeadLetter) {
    let origin = letter.origin.as_ref().map(|origin| {
        let partition = origin.partition.map(|number| format!("[{number}]")).unwrap_or_default();
        let offset = origin.offset.map(|number| format!("@{number}")).unwrap_or_default();
        let at = origin.timestamp_ms.map(|millis| format!("  {}", time::show(millis))).unwrap_or_default();
        format!("{}{partition}{offset}{at}", origin.topic)
    });
    let lines = [
        ("dialect", Some(letter.dialect.name().to_owned())),
        ("contents", Some(contents(letter.contents).to_owned())),
        ("from", origin),
        ("consumer", letter.consumer.clone()),
        ("reason", letter.reason.clone()),
        ("exception", letter.exception.clone()),
        ("message", letter.message.clone()),
        ("attempts", letter.attempts.map(|attempts| attempts.to_string())),
        ("failed", letter.failed_at_ms.map(time::show)),
    ];
    for (name, text) in lines {
        if let Some(text) = text {
            page.push_str(&format!("  {name:<10} {}\n", clean(&text)));
        }
    }
}
