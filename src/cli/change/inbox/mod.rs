//! `outboxd inbox`: parked events of services with `outboxd-inbox`. `ls` and `show` read; `release`, `retry`, `skip` and `forget` change.
//!
//! ```text
//! selection ─▶ rows of inbox_parked ─▶ decision ─▶ report
//!                      ▲                  │ --yes
//!                      └── once more, under the partition's lock ─▶ changes
//! ```
//!
//! The lock is that of `inbox_take`, so no transaction of a consumer is open in the partition while its rows change.

mod args;
mod blocked;
mod change;
mod error;
mod ls;
mod page;
mod parked;
mod partition;
mod place;
mod reason;
mod show;
mod tables;

pub(in crate::cli) use args::InboxArgs;

use args::InboxCommand;

use crate::cli::asynchronously;
use crate::error::Exit;

/// Runs `outboxd inbox`.
pub(in crate::cli) fn inbox(args: &InboxArgs) -> Exit {
    let work = async {
        match &args.command {
            InboxCommand::Ls(args) => ls::ls(args).await,
            InboxCommand::Show(args) => show::show(args).await,
            InboxCommand::Release(args) => change::release(args).await,
            InboxCommand::Retry(args) => change::retry(args).await,
            InboxCommand::Skip(args) => change::skip(args).await,
            InboxCommand::Forget(args) => change::forget(args).await,
        }
    };
    asynchronously(work).unwrap_or_else(|exit| exit)
}
