//! `outboxd move plan | cut-over | verify`: to another cluster or a new major version, and after a lost slot.
//!
//! LSNs do not survive such a move, and a new slot has no information about sent rows. The contents of a row's record do survive.
//! So the rows of the table are compared with the records in their topics, as `outboxd verify` does. The ids of rows that are in Kafka
//! are kept in a table, and the first start sends by its snapshot every row that is not in it, and then what its slot brings: whatever
//! was written in between is in one of the two.
//!
//! ```text
//! site (table, slot) ─▶ compare (verify: rows beside records) ─▶ plan │ cut-over (table, properties) │ verify
//! ```

mod args;
mod compare;
mod cut_over;
mod error;
mod report;
mod rights;
mod site;

pub(in crate::cli) use args::MoveArgs;

use std::time::{Duration, Instant};

use args::{MoveCommand, PlanArgs, VerifyArgs};
use compare::compare;
use error::MoveError;
use site::Site;

use crate::cli::shell::progress::Progress;
use crate::cli::shell::waiting::Waiting;
use crate::cli::{asynchronously, print};
use crate::error::Exit;

/// Interval in which it is checked whether rows have arrived.
const INTERVAL: Duration = Duration::from_secs(1);

/// Runs `outboxd move`.
pub(in crate::cli) fn relocate(args: &MoveArgs) -> Exit {
    let work = async {
        match &args.command {
            MoveCommand::Plan(args) => plan(args).await,
            MoveCommand::CutOver(args) => cut_over::cut_over(args).await,
            MoveCommand::Verify(args) => verify(args).await,
        }
    };
    asynchronously(work).unwrap_or_else(|exit| exit)
}

/// Plans the move, and reports what cut-over would refuse.
async fn plan(args: &PlanArgs) -> Result<Exit, MoveError> {
    let progress = Progress::new();
    let site = Site::look(&args.target, &progress).await?;
    let found = compare(&site, &args.target, &progress).await?;
    site.check_arrived(&args.target, &found, &progress).await?;
    let order = cut_over::order(&site, None).await?;
    progress.end();
    print(&if args.target.json {
        report::plan_object(&site, &found, &order)
    } else {
        report::plan(&site, &args.target, &found, &order)
    });
    Ok(if site.obstacles().is_empty() { Exit::Ok } else { Exit::Failed })
}

async fn verify(args: &VerifyArgs) -> Result<Exit, MoveError> {
    let (deadline, target) = (Instant::now() + Duration::from_secs(args.wait), &args.target);
    let progress = Progress::new();
    let site = Site::look(target, &progress).await?;
    let mut found = compare(&site, target, &progress).await?;
    let mut waiting = Waiting::on(&progress);
    while found.unsent_count() > 0 && Instant::now() < deadline {
        let now = format!(", {} left", found.unsent_count());
        waiting.report_waiting("outboxd to send what is there", &now);
        tokio::time::sleep(INTERVAL).await;
        found = compare(&site, target, &progress).await?;
    }
    drop(waiting);
    site.check_arrived(target, &found, &progress).await?;
    print(&if target.json { report::object(&site, &found) } else { report::verified(&site, &found) });
    Ok(if found.is_whole() { Exit::Ok } else { Exit::Failed })
}
