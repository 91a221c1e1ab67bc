//! `outboxd lag`.

use indicatif::HumanBytes;
use tokio::time;

use super::args::LagArgs;
use super::error::StatusError;
use super::look::{Seen, StateQuery};
use super::text::age;
use crate::cli::{asynchronously, print, print_message};
use crate::error::{Diagnose as _, Exit, chain};

const HEAD: &str = "LAG         POSTGRES    OUTBOXD     KAFKA       OLDEST    KEPT        RUNWAY\n";

/// Runs `outboxd lag`.
pub(in crate::cli) fn lag(args: &LagArgs) -> Exit {
    asynchronously(watch(args)).err().unwrap_or(Exit::Ok)
}

/// Prints the lag, repeatedly if it is watched. A server that goes away meanwhile is reported, and queried
/// again.
async fn watch(args: &LagArgs) -> Result<(), StatusError> {
    let mut look = StateQuery::new(&args.whom)?;
    let mut seen = Some(look.once().await?);
    if !args.json {
        print(HEAD);
    }
    loop {
        if let Some(seen) = &seen {
            print(&if args.json { seen.json() + "\n" } else { line(seen) });
        }
        if !args.watch {
            return Ok(());
        }
        time::sleep(args.every).await;
        seen = match look.once().await {
            Ok(seen) => Some(seen),
            Err(error) if matches!(error, StatusError::Config(_)) => return Err(error),
            Err(error) => {
                print_message(&format!("{} (exit code would be {})", chain(&error), error.exit().code()));
                None
            }
        };
    }
}

fn line(seen: &Seen) -> String {
    let bytes =
        |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), |bytes| HumanBytes(bytes).to_string());
    let [all, postgres, outboxd, kafka, oldest, kept, runway] = match seen {
        Seen::Process(_, overview) => {
            let lag = &overview.lag;
            let [outboxd, kafka] = [lag.outboxd, lag.kafka].map(|part| bytes(Some(part.bytes)));
            let kept = bytes(overview.slot.retained_bytes);
            [
                bytes(lag.bytes),
                bytes(lag.postgres_bytes()),
                outboxd,
                kafka,
                age(lag.seconds),
                kept,
                overview.slot.runway.words().0,
            ]
        }
        Seen::Database(direct) => {
            let dash = || "-".to_owned();
            let kept = bytes(Some(direct.retained_bytes));
            [bytes(direct.lag_bytes), dash(), dash(), dash(), dash(), kept, direct.runway.words().0]
        }
    };
    format!("{all:<11} {postgres:<11} {outboxd:<11} {kafka:<11} {oldest:<9} {kept:<11} {runway}\n")
}
