//! `outboxd status` and `outboxd lag`: the state of a running outboxd, or without one, the state of its slot
//! in PostgreSQL.
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

pub(in crate::cli) use args::{InstanceArgs, LagArgs, StatusArgs, instance};
pub(in crate::cli) use direct::Direct;
pub(in crate::cli) use error::StatusError;
pub(in crate::cli) use lag::lag;
pub(in crate::cli) use text::{age, of_process};

use look::{Seen, StateQuery};

use crate::error::Exit;
use crate::telemetry::{Level, Runway};

use crate::cli::{asynchronously, print};

/// Time for which PostgreSQL's writing is measured.
const MEASURING: Duration = Duration::from_secs(1);

/// Runs `outboxd status`.
pub(in crate::cli) fn status(args: &StatusArgs) -> Exit {
    let outcome = asynchronously(async {
        let mut look = StateQuery::new(&args.whom)?;
        let mut seen = match look.once().await {
            Err(StatusError::NoSlot { slot, .. }) => {
                return Err(stop::without_slot(slot, &args.whom.config).await);
            }
            seen => seen?,
        };
        // The rate of WAL is known from the second query on.
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
        if let Seen::Database(direct) = &mut seen {
            direct.fix = direct.fix.take().map(|fix| args.whom.config.in_commands(&fix));
        }
        Ok::<_, StatusError>(seen)
    });
    match outcome {
        Ok(seen) => {
            print(&if args.json {
                seen.json() + "\n"
            } else {
                args.whom.config.in_commands(&text::lines(&seen))
            });
            exit(&seen)
        }
        Err(exit) => exit,
    }
}

/// Requests the state once, and returns it as one JSON object.
pub(in crate::cli) async fn report(whom: &InstanceArgs) -> Result<String, StatusError> {
    Ok(StateQuery::new(whom)?.once().await?.json())
}

/// Returns 0 as long as events flow, or will: a script need not parse the text.
fn exit(seen: &Seen) -> Exit {
    match seen {
        Seen::Process(_, overview) if overview.state.level < Level::Wrong => Exit::Ok,
        Seen::Process(..) => Exit::Failed,
        Seen::Database(direct) if direct.lost.is_some() => Exit::SlotLost,
        Seen::Database(direct) if direct.holder.is_none() => Exit::Failed,
        Seen::Database(_) => Exit::Ok,
    }
}
