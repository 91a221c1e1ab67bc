//! Structured logs on standard error.
//!
//! Lines go through a bounded queue to a thread that writes them: a log whose reader stalls never delays the
//! relay.

use std::io::{self, IsTerminal};
use std::str::FromStr;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{FmtSpan, Writer, debug_fn};

use super::escape::Escaping;
use super::log_queue::{self, LogThread};
use super::status_line::StatusLine;
use crate::error::{Diagnose, Diagnosis, Exit};

/// Environment variable with the filter of the log: `info` (the default), `debug`, or a list such as
/// `warn,outboxd::relay=debug`.
pub(crate) const FILTER_VARIABLE: &str = "OUTBOXD_LOG";

/// `--log`: how a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Text for people. The default on a terminal.
    Text,
    /// One JSON object a line. The default in a pipe.
    Json,
}

/// A text that is no log format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a log format: json or text")]
pub(crate) struct UnknownLogFormat(String);

/// Reasons why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// `OUTBOXD_LOG` is no filter.
    #[error("{FILTER_VARIABLE}={filter:?} is not a log filter")]
    Filter {
        /// The variable's value.
        filter: String,
        /// Fault of the filter.
        source: ParseError,
    },
    /// The process logs already.
    #[error("logging was started twice")]
    Started(#[from] tracing::subscriber::SetGlobalDefaultError),
    /// The system gives no thread.
    #[error("the thread that writes the log cannot be started")]
    Thread(#[from] io::Error),
}

/// Filter and format of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogOptions {
    /// Format of a line.
    pub format: LogFormat,
    /// Filter directives.
    pub filter: String,
    /// True if text has colours.
    pub colour: bool,
}

/// Logging while this is held. Dropping it writes what is still queued, waiting a second at most.
#[derive(Debug)]
#[must_use = "logging ends when this is dropped"]
pub(crate) struct Logs {
    _thread: LogThread,
}

impl FromStr for LogFormat {
    type Err = UnknownLogFormat;

    fn from_str(name: &str) -> Result<Self, UnknownLogFormat> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(UnknownLogFormat(name.to_owned())),
        }
    }
}

impl LogOptions {
    /// Returns the options from `--log`, `OUTBOXD_LOG`, `NO_COLOR` and the kind of standard error.
    #[must_use]
    pub(crate) fn from_env(format: Option<LogFormat>) -> Self {
        Self::resolve(format, io::stderr().is_terminal(), |name| std::env::var(name).ok())
    }

    fn resolve(format: Option<LogFormat>, terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        let said = |name| variable(name).filter(|value| !value.is_empty());
        Self {
            format: format.unwrap_or(if terminal { LogFormat::Text } else { LogFormat::Json }),
            filter: said(FILTER_VARIABLE).unwrap_or_else(|| "info".to_owned()),
            colour: terminal && said("NO_COLOR").is_none(),
        }
    }
}

impl Logs {
    /// Starts logging for the whole process; lines appear above the status line.
    ///
    /// # Errors
    /// When the filter cannot be read, when the thread cannot be started, or when logging was started before.
    pub(crate) fn start(options: &LogOptions, line: &StatusLine) -> Result<Self, LogError> {
        let (queue, thread) = log_queue::start(line.log_writer())?;
        tracing::subscriber::set_global_default(subscriber(options, queue)?)?;
        Ok(Self { _thread: thread })
    }
}

fn subscriber<W>(options: &LogOptions, writer: W) -> Result<Box<dyn Subscriber + Send + Sync>, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(&options.filter)
        .map_err(|source| LogError::Filter { filter: options.filter.clone(), source })?;
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_span_events(FmtSpan::NONE);
    Ok(match options.format {
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
        LogFormat::Text => {
            let fields = debug_fn(write_field);
            Box::new(builder.with_ansi(options.colour).with_target(false).fmt_fields(fields).finish())
        }
    })
}

/// Writes ` key=value`; the message is first and alone.
fn write_field(
    writer: &mut Writer<'_>,
    field: &tracing::field::Field,
    value: &dyn std::fmt::Debug,
) -> std::fmt::Result {
    use std::fmt::Write as _;

    match field.name() {
        "message" => write!(Escaping(writer), "{value:?}"),
        name => write!(Escaping(writer), " {name}={value:?}"),
    }
}

impl Diagnose for LogError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Filter { .. } => {
                Diagnosis::config().with_fix(format!("{FILTER_VARIABLE}=info, or warn,outboxd::relay=debug"))
            }
            Self::Started(_) | Self::Thread(_) => Diagnosis::definite(Exit::Failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::error::Class;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns what is written when `log` runs.
    fn written(format: LogFormat, colour: bool, log: impl FnOnce()) -> String {
        let page = Page::default();
        let options = LogOptions { format, filter: "info".into(), colour };
        let writer = {
            let page = page.clone();
            move || page.clone()
        };
        tracing::subscriber::with_default(subscriber(&options, writer).unwrap(), log);
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn options_follow_the_terminal_and_the_environment() {
        let resolve = |format, terminal, variables: &[(&str, &str)]| {
            LogOptions::resolve(format, terminal, |name| {
                variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let options = |format, filter: &str, colour| LogOptions { format, filter: filter.into(), colour };
        let cases = [
            (resolve(None, true, &[]), options(LogFormat::Text, "info", true)),
            (resolve(None, false, &[]), options(LogFormat::Json, "info", false)),
            (resolve(Some(LogFormat::Text), false, &[]), options(LogFormat::Text, "info", false)),
            (resolve(None, true, &[("NO_COLOR", "1")]), options(LogFormat::Text, "info", false)),
            (resolve(None, true, &[("NO_COLOR", "")]), options(LogFormat::Text, "info", true)),
            (resolve(None, false, &[("OUTBOXD_LOG", "debug")]), options(LogFormat::Json, "debug", false)),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn text_is_one_line_with_control_characters_escaped() {
        let text = written(LogFormat::Text, false, || {
            tracing::debug!("not logged");
            tracing::warn!(topic = "a\nb", error = %"\u{1b}[31mred\r\n", "component is down\u{7}");
        });
        let (_, rest) = text.split_once("WARN ").unwrap();
        assert_eq!(rest, "component is down\\u{7} topic=\"a\\nb\" error=\\u{1b}[31mred\\r\\n\n");
    }

    #[test]
    fn colours_are_ours_alone() {
        let text = written(LogFormat::Text, true, || tracing::info!("\u{1b}[2J"));
        assert!(text.contains("\u{1b}[") && !text.contains("\u{1b}[2J"));
    }

    #[test]
    fn json_is_one_flat_object_a_line() {
        let text = written(LogFormat::Json, false, || tracing::info!(lsn = %"0/10", "phase\nchanged"));
        assert_eq!(text.lines().count(), 1);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["message"], "phase\nchanged");
        assert_eq!(line["lsn"], "0/10");
        assert_eq!(line["level"], "INFO");
        assert!(line["timestamp"].is_string());
    }

    #[test]
    fn a_bad_filter_is_named() {
        let options = LogOptions { format: LogFormat::Text, filter: "info,=".into(), colour: false };
        let error = subscriber(&options, io::sink).err().unwrap();
        assert_eq!(error.to_string(), "OUTBOXD_LOG=\"info,=\" is not a log filter");
        assert_eq!(error.class(), Class::Config);
    }

    #[test]
    fn formats_are_read() {
        assert_eq!("json".parse(), Ok(LogFormat::Json));
        assert_eq!("text".parse(), Ok(LogFormat::Text));
        assert!("JSON ".parse::<LogFormat>().is_err());
    }
}
