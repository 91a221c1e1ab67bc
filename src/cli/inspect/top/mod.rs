//! `outboxd top`: live dashboard of one instance or several, drawn again each second.

mod draw;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use super::status::instance;
use crate::cli::shell::time::parse_pause;
use crate::cli::{asynchronously, fail};
use crate::error::{Diagnose, Diagnosis, Exit, chain};
use crate::http::Instance;
use crate::telemetry::Overview;

/// Timeout of an instance.
const PATIENCE: Duration = Duration::from_secs(2);

/// Additional time that a terminal may take to report that no key was typed.
const HUNG_UP: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(in crate::cli) struct TopArgs {
    /// Status port of a running outboxd: PORT, HOST:PORT or a URL. Repeatable
    #[arg(long, value_name = "ADDR", env = "OUTBOXD_HTTP", value_parser = instance, required = true, num_args = 1..)]
    http: Vec<Instance>,
    /// Refresh interval: 500ms, 1s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_pause)]
    every: Duration,
}

/// Reasons why nothing is drawn.
#[derive(Debug, thiserror::Error)]
enum TopError {
    #[error("outboxd top draws on a terminal, and standard output is not one")]
    NoTerminal,
    #[error("the terminal cannot be drawn on")]
    Terminal(#[from] io::Error),
}

impl Diagnose for TopError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoTerminal => {
                Diagnosis::config().with_fix("outboxd status --http ADDR --json is for scripts")
            }
            Self::Terminal(_) => Diagnosis::definite(Exit::Failed),
        }
    }
}

/// An instance, and its last answer.
struct Seen {
    instance: Instance,
    said: Result<Box<Overview>, String>,
}

/// Command of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Nothing,
    Up,
    Down,
    Leave,
}

/// Runs `outboxd top`.
pub(in crate::cli) fn top(args: &TopArgs) -> Exit {
    if !io::stdout().is_terminal() {
        return fail(&TopError::NoTerminal);
    }
    let mut terminal = match ratatui::try_init() {
        Ok(terminal) => terminal,
        Err(error) => return fail(&TopError::Terminal(error)),
    };
    // Errors are printed once the screen is the shell's again.
    let outcome = asynchronously(async { Ok::<_, TopError>(show(&mut terminal, args).await) });
    ratatui::restore();
    match outcome {
        Ok(Ok(())) => Exit::Ok,
        Ok(Err(error)) => fail(&error),
        Err(exit) => exit,
    }
}

async fn show(terminal: &mut DefaultTerminal, args: &TopArgs) -> Result<(), TopError> {
    let mut selected = 0_usize;
    loop {
        let seen = ask(&args.http).await;
        terminal.draw(|frame| draw::draw(frame, &seen, selected))?;
        match key(args.every).await? {
            Command::Nothing => {}
            Command::Up => selected = selected.saturating_sub(1),
            Command::Down => selected = selected.saturating_add(1).min(seen.len().saturating_sub(1)),
            Command::Leave => return Ok(()),
        }
    }
}

/// Requests all instances in parallel: one that is down does not delay the others.
async fn ask(instances: &[Instance]) -> Vec<Seen> {
    let mut asking = JoinSet::new();
    for (number, instance) in instances.iter().cloned().enumerate() {
        asking.spawn(async move {
            let said = instance.overview(PATIENCE).await.map(Box::new).map_err(|error| chain(&error));
            (number, Seen { instance, said })
        });
    }
    let mut seen: Vec<_> = asking.join_all().await;
    seen.sort_by_key(|(number, _)| *number);
    seen.into_iter().map(|(_, seen)| seen).collect()
}

/// Returns the command of the next key, or none within this time. Crossterm reads without end from a terminal
/// that has hung up, where SIGHUP is ignored.
async fn key(within: Duration) -> Result<Command, io::Error> {
    let reading =
        spawn_blocking(move || if event::poll(within)? { event::read().map(Some) } else { Ok(None) });
    let gone = |_| io::Error::new(io::ErrorKind::TimedOut, "the terminal is gone");
    let read = timeout(within.saturating_add(HUNG_UP), reading).await.map_err(gone)?;
    Ok(match read.map_err(io::Error::other)?? {
        Some(Event::Key(key)) => command(key),
        _ => Command::Nothing,
    })
}

/// Returns the command of a key. A terminal that is drawn on gives Ctrl-C as a key.
fn command(key: KeyEvent) -> Command {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Command::Leave,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Command::Leave,
        KeyCode::Up | KeyCode::Char('k') => Command::Up,
        KeyCode::Down | KeyCode::Char('j') => Command::Down,
        _ => Command::Nothing,
    }
}
