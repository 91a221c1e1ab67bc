//! `outboxd dlq export`.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use indicatif::HumanCount;

use super::Context;
use super::args::ExportArgs;
use super::error::DlqError;
use super::index::{Index, Keep};
use super::object::{Whole, view};
use crate::cli::print;
use crate::error::Exit;
use crate::kafka::RecordReader;

/// Runs `outboxd dlq export`.
pub(super) fn export(args: &ExportArgs, context: &Context) -> Result<Exit, DlqError> {
    let mut out: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(BufWriter::new(create(path)?)),
        None => Box::new(BufWriter::new(io::stdout())),
    };
    match write_all(args, context, &mut out) {
        // A closed pipe is no failure.
        Err(DlqError::Stdout(error)) if args.output.is_none() && error.kind() == ErrorKind::BrokenPipe => {
            Ok(Exit::Ok)
        }
        Ok(Written { count, interrupted }) => {
            if let Some(path) = &args.output {
                let letters = if count == 1 { "dead letter" } else { "dead letters" };
                print(&format!("{}: wrote {} {letters}\n", path.display(), HumanCount(count)));
            }
            Ok(if interrupted { Exit::Interrupted } else { Exit::Ok })
        }
        Err(DlqError::Stdout(source)) => match &args.output {
            Some(path) => Err(DlqError::Output { path: path.clone(), source }),
            None => Err(DlqError::Stdout(source)),
        },
        Err(error) => Err(error),
    }
}

/// Result of the export.
struct Written {
    count: u64,
    interrupted: bool,
}

fn write_all(args: &ExportArgs, context: &Context, out: &mut dyn Write) -> Result<Written, DlqError> {
    let Context { source, stop, progress } = context;
    let states = source.states(stop)?;
    let index = Index::read(source, &args.filter, &states, Keep::Selected, stop, progress)?;
    let mut reader = RecordReader::new(&source.options)?;
    let wanted = index.letters.iter().filter(|letter| args.all || letter.outcome.is_none());
    progress.begin("writing dead letters", u64::try_from(index.letters.len()).ok());
    let mut count = 0_u64;
    for letter in wanted {
        if context.is_interrupted() {
            break;
        }
        progress.step();
        let (partition, offset) = (letter.partition, letter.offset);
        // Its topic forgets it meanwhile.
        let Some(record) = source.record(&mut reader, partition, offset, stop)? else { continue };
        let outcome = states.of(partition, offset, view(&record).digest());
        let whole = Whole { topic: &source.topic, partition, offset, record: &record, outcome };
        writeln!(out, "{}", whole.object(true)).map_err(DlqError::Stdout)?;
        count = count.saturating_add(1);
    }
    out.flush().map_err(DlqError::Stdout)?;
    progress.end();
    Ok(Written { count, interrupted: context.is_interrupted() })
}

fn create(path: &Path) -> Result<File, DlqError> {
    File::create_new(path).map_err(|source| DlqError::Output { path: path.to_owned(), source })
}
