//! `outboxd status` and `outboxd lag`: how a running outboxd is, or without one, what PostgreSQL says of its slot.
//!
//! ```text
//! --http ADDR ─▶ /status ─▶ Overview ─┐
//! -c FILE ─────▶ PostgreSQL ─▶ Direct ┴─▶ Seen ─▶ lines or JSON
//! ```

mod args;
mod direct;
mod error;
mod lag;
mod look;
mod stop;
mod text;

use std::time::Duration;

use tokio::time;

pub(super) use args::{LagArgs, StatusArgs, instance};
pub(super) use direct::Direct;
pub(super) use lag::lag;
pub(super) use text::{age, of_process};

use error::StatusError;
use look::{Look, Seen};

use crate::error::Exit;
use crate::telemetry::{Level, Runway};

use super::{asynchronously, print};

/// For how long PostgreSQL's writing is measured.
const MEASURING: Duration = Duration::from_secs(1);

/// `outboxd status`.
pub(super) fn status(args: &StatusArgs) -> Exit {
    let outcome = asynchronously(async {
        let mut look = Look::new(&args.whom)?;
        let mut seen = look.once().await?;
        // How fast PostgreSQL writes is known from the second look on.
        if matches!(&seen, Seen::Database(direct) if direct.runway == Runway::Measuring) {
            time::sleep(MEASURING).await;
            seen = look.once().await?;
        }
        if let Seen::Database(direct) = &mut seen
            && direct.holder.is_none()
            && direct.lost.is_none()
        {
            stop::add_remembered(direct, &args.whom.config).await;
        }
        Ok::<_, StatusError>(seen)
    });
    match outcome {
        Ok(seen) => {
            print(&if args.json { seen.json() + "\n" } else { text::lines(&seen) });
            exit(&seen)
        }
        Err(exit) => exit,
    }
}

/// 0 as long as events flow, or will: a script need not read the words.
fn exit(seen: &Seen) -> Exit {
    match seen {
        Seen::Process(_, overview) if overview.state.level < Level::Wrong => Exit::Ok,
        Seen::Process(..) => Exit::Failed,
        Seen::Database(direct) if direct.lost.is_some() => Exit::SlotLost,
        Seen::Database(direct) if direct.holder.is_none() => Exit::Failed,
        Seen::Database(_) => Exit::Ok,
    }
}
