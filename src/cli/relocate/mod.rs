//! `outboxd move plan | cut-over | verify`: to another cluster or a new major version, and after a lost slot.
//!
//! LSNs do not survive such a move, and a new slot knows nothing of what was sent. What does survive is the event's id, in the row and in the
//! record's header. So the rows of the table are compared with the records in the topics. The ids of rows that are in Kafka are kept in
//! a table, and the first start sends by its snapshot every row that is not in it, and then what its slot brings: whatever was written
//! in between is in one of the two.
//!
//! ```text
//! site (rows, topics) ─▶ records (ids in Kafka) ─▶ compare ─▶ plan │ cut-over (table, properties) │ verify
//! ```

mod args;
mod compare;
mod cut_over;
mod error;
mod records;
mod report;
mod site;

pub(super) use args::MoveArgs;

use std::time::{Duration, Instant};

use args::{MoveCommand, PlanArgs, TargetArgs, VerifyArgs};
use compare::Comparison;
use error::MoveError;
use site::Site;

use super::progress::Progress;
use super::waiting::Waiting;
use super::{asynchronously, print};
use crate::error::Exit;

/// How often it is looked again whether rows have come.
const INTERVAL: Duration = Duration::from_secs(1);

/// `outboxd move`.
pub(super) fn relocate(args: &MoveArgs) -> Exit {
    let work = async {
        match &args.command {
            MoveCommand::Plan(args) => plan(args).await,
            MoveCommand::CutOver(args) => cut_over::cut_over(args).await,
            MoveCommand::Verify(args) => verify(args).await,
        }
    };
    asynchronously(work).unwrap_or_else(|exit| exit)
}

/// What cut-over would refuse is told with what it would do.
async fn plan(args: &PlanArgs) -> Result<Exit, MoveError> {
    let progress = Progress::new();
    let site = Site::look(&args.target, &progress).await?;
    let found = compare(&site, &args.target, &progress).await?;
    site.check_arrived(&args.target, &found).await?;
    progress.end();
    print(&if args.target.json {
        report::plan_object(&site, &found)
    } else {
        report::plan(&site, &args.target, &found)
    });
    Ok(if site.obstacle().is_some() { Exit::Failed } else { Exit::Ok })
}

async fn verify(args: &VerifyArgs) -> Result<Exit, MoveError> {
    let (deadline, target) = (Instant::now() + Duration::from_secs(args.wait), &args.target);
    let progress = Progress::new();
    let site = Site::look(target, &progress).await?;
    let mut found = compare(&site, target, &progress).await?;
    let mut waiting = Waiting::on(&progress);
    while !found.unsent.is_empty() && Instant::now() < deadline {
        let now = format!(", {} left", found.unsent.len());
        waiting.goes_on("outboxd to send what is there", &now);
        tokio::time::sleep(INTERVAL).await;
        found = compare(&site, target, &progress).await?;
    }
    drop(waiting);
    site.check_arrived(target, &found).await?;
    print(&if target.json { report::object(&site, &found) } else { report::verified(&site, &found) });
    Ok(if found.is_whole() { Exit::Ok } else { Exit::Failed })
}

/// First the rows, then the records: a row that is sent meanwhile does not look as if it were not.
async fn compare(site: &Site, args: &TargetArgs, progress: &Progress) -> Result<Comparison, MoveError> {
    progress.waiting("reading the ids of the rows");
    let ids = site.ids(args.sent.as_deref()).await?;
    let sent = records::read(site, args.since, progress).await;
    progress.end();
    let sent = sent?;
    if sent.is_cut && args.sent.is_none() && args.since.is_none() {
        // Said only when it matters: all rows may have their records.
        let found = Comparison::new(ids, sent);
        return if found.unsent.is_empty() {
            Ok(found)
        } else {
            Err(MoveError::Forgotten(found.unsent.len()))
        };
    }
    Ok(Comparison::new(ids, sent))
}
