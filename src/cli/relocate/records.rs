use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::task::spawn_blocking;

use super::error::MoveError;
use super::site::Site;
use crate::cli::notice::open_scan;
use crate::cli::progress::Progress;

/// More ids than this are not kept in memory.
const IDS_MAX: usize = 20_000_000;

/// What the topics have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    /// Each id, and how often.
    pub(super) ids: HashMap<String, u32>,
    /// How many records were read.
    pub(super) records: u64,
    /// Whether a topic has forgotten its first records.
    pub(super) is_cut: bool,
}

/// Reads the topics to their present ends. A dead letter counts: its row was dealt with.
pub(super) async fn read(site: &Site, since_ms: Option<i64>, progress: &Progress) -> Result<Sent, MoveError> {
    let (parts, topics, bar) = (Arc::clone(&site.parts), site.topics.clone(), progress.clone());
    bar.waiting("asking where the topics end");
    let reading = spawn_blocking(move || {
        let scan = open_scan(&parts.kafka, &topics, since_ms, &bar)?;
        let each = scan.partitions().iter().map(|partition| partition.end.saturating_sub(partition.from));
        let total = each.map(|count| u64::try_from(count).unwrap_or_default()).sum();
        bar.begin("reading records", Some(total));
        let is_cut = scan.partitions().iter().any(|partition| partition.low > 0);
        let mut sent = Sent { ids: HashMap::new(), records: 0, is_cut };
        scan.read::<MoveError>(
            || true,
            |record| {
                bar.step();
                sent.records = sent.records.saturating_add(1);
                if let Some(id) = record.event_id().and_then(plain) {
                    let count = sent.ids.entry(id).or_default();
                    *count = count.saturating_add(1);
                }
                if sent.ids.len() > IDS_MAX { Err(MoveError::TooManyRecords(IDS_MAX)) } else { Ok(()) }
            },
        )?;
        Ok(sent)
    });
    reading.await.map_err(|_| MoveError::Aborted)?
}

/// The id as text: as it is, or as the JSON converter writes it, without and with a schema.
fn plain(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    if !text.starts_with(['"', '{']) {
        return Some(text.to_owned());
    }
    match serde_json::from_str(text) {
        Ok(Value::String(id)) => Some(id),
        Ok(Value::Object(mut members)) => match members.remove("payload") {
            Some(Value::String(id)) => Some(id),
            Some(Value::Number(id)) => Some(id.to_string()),
            _ => None,
        },
        _ => Some(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_is_read_however_it_was_converted() {
        let cases = [
            ("7f", Some("7f")),
            ("42", Some("42")),
            ("\"7f\"", Some("7f")),
            ("{\"schema\":{\"type\":\"string\"},\"payload\":\"7f\"}", Some("7f")),
            ("{\"schema\":{},\"payload\":42}", Some("42")),
            ("{\"a\":1}", None),
            ("{not JSON", Some("{not JSON")),
        ];
        for (text, id) in cases {
            assert_eq!(plain(text.as_bytes()).as_deref(), id, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_none(bytes: Vec<u8>) {
            drop(plain(&bytes));
        }
    }
}
