//! `outboxd top`: what `status` says of one instance or several, drawn anew each second.

mod draw;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use super::status::instance;
use super::time::parse_pause;
use super::{asynchronously, fail};
use crate::error::{Class, Diagnose, Exit, chain};
use crate::http::Instance;
use crate::telemetry::Overview;

/// How long an instance may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How much longer than it was asked to a terminal may take to say that no key was typed.
const HUNG_UP: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(super) struct TopArgs {
    /// The status port of a running outboxd: PORT, HOST:PORT or a URL. May be given several times
    #[arg(long, value_name = "ADDR", env = "OUTBOXD_HTTP", value_parser = instance, required = true, num_args = 1..)]
    http: Vec<Instance>,
    /// How long to wait between two looks: 500ms, 1s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_pause)]
    every: Duration,
}

/// Why nothing is drawn.
#[derive(Debug, thiserror::Error)]
enum TopError {
    #[error("outboxd top draws on a terminal, and standard output is not one")]
    NoTerminal,
    #[error("the terminal cannot be drawn on")]
    Terminal(#[from] io::Error),
}

impl Diagnose for TopError {
    fn class(&self) -> Class {
        match self {
            Self::NoTerminal => Class::Config,
            Self::Terminal(_) => Class::Definite,
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::NoTerminal => Some("outboxd status --http ADDR --json is for scripts".to_owned()),
            Self::Terminal(_) => None,
        }
    }
}

/// An instance, and what it said last.
struct Seen {
    instance: Instance,
    said: Result<Box<Overview>, String>,
}

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Nothing,
    Up,
    Down,
    Leave,
}

/// `outboxd top`.
pub(super) fn top(args: &TopArgs) -> Exit {
    if !io::stdout().is_terminal() {
        return fail(&TopError::NoTerminal);
    }
    let mut terminal = match ratatui::try_init() {
        Ok(terminal) => terminal,
        Err(error) => return fail(&TopError::Terminal(error)),
    };
    // What went wrong is told once the screen is the shell's again.
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

/// All at once: one that is away does not hold up the others.
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

/// The next key, or none within this time. Crossterm reads without end from a terminal that has hung up, where SIGHUP is ignored.
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

/// A terminal that is drawn on gives Ctrl-C as a key.
fn command(key: KeyEvent) -> Command {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Command::Leave,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Command::Leave,
        KeyCode::Up | KeyCode::Char('k') => Command::Up,
        KeyCode::Down | KeyCode::Char('j') => Command::Down,
        _ => Command::Nothing,
    }
}
