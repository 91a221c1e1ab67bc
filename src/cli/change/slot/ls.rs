//! `outboxd slot ls`.

use indicatif::HumanBytes;
use serde_json::json;

use super::APPLICATION;
use super::args::LsArgs;
use super::error::SlotError;
use crate::cli::inspect::status::Direct;
use crate::cli::print;
use crate::cli::shell::sql::open;
use crate::cli::shell::text::{clean, columns};
use crate::error::Exit;

const HEAD: [&str; 8] = ["SLOT", "PLUGIN", "DATABASE", "WAL", "UNCONFIRMED", "KEPT", "SAFE", "READ BY"];

/// Runs `outboxd slot ls`.
pub(super) async fn ls(args: &LsArgs) -> Result<Exit, SlotError> {
    let options = super::options(&args.config.sources())?;
    let sql = open(&options.server, APPLICATION).await?;
    let mut slots = Vec::new();
    for name in sql.slot_names().await? {
        // It may have been dropped by now.
        slots.extend(sql.slot_named(&name).await?.map(|facts| Direct::of(name, &facts, None)));
    }
    if args.json {
        print(&format!("{}\n", json!({ "slots": slots })));
    } else {
        let rows = std::iter::once(HEAD.map(str::to_owned)).chain(slots.iter().map(row));
        print(&columns(&rows.collect::<Vec<_>>()));
    }
    Ok(Exit::Ok)
}

fn row(slot: &Direct) -> [String; 8] {
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), clean);
    let bytes =
        |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), |bytes| HumanBytes(bytes).to_string());
    let safe = slot.safe_wal_bytes.map(|bytes| u64::try_from(bytes).unwrap_or_default());
    [
        clean(&slot.slot),
        text(&slot.plugin),
        text(&slot.database),
        text(&slot.wal_status),
        bytes(slot.lag_bytes),
        bytes(Some(slot.retained_bytes)),
        safe.map_or_else(|| "no limit".to_owned(), |bytes| HumanBytes(bytes).to_string()),
        slot.holder.as_deref().map_or_else(|| "no client".to_owned(), clean),
    ]
}
