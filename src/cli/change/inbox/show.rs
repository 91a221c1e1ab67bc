//! `outboxd inbox show`.

use super::args::ShowArgs;
use super::error::InboxError;
use super::page::{KeySequence, Page, Remembered, Shown};
use super::parked::{Parked, select};
use super::place::Selection;
use super::tables::{Tables, get};
use crate::cli::print;
use crate::error::Exit;

const VALUE: &str = "SELECT value FROM inbox_parked WHERE partition_id = $1 AND \"offset\" = $2";
const REMEMBERED: &str = "SELECT source, (extract(epoch FROM processed_at) * 1000)::bigint FROM inbox_message \
     WHERE consumer = $1 AND message_id = $2 \
     UNION ALL SELECT held.topic, (extract(epoch FROM done.done_at) * 1000)::bigint FROM inbox_done AS done \
     JOIN inbox_partition AS held ON held.id = done.partition_id \
     WHERE held.consumer = $1 AND done.message_ids @> ARRAY[$2::text] ORDER BY 1, 2";
const SEQUENCE: &str = "SELECT topic, next, first, (SELECT count(*) FROM inbox_sequence_dead AS dead \
         WHERE dead.consumer = known.consumer AND dead.topic = known.topic AND dead.key = known.key) \
     FROM inbox_sequence AS known WHERE consumer = $1 AND key = $2 ORDER BY topic";

/// Runs `outboxd inbox show`.
pub(super) async fn show(args: &ShowArgs) -> Result<Exit, InboxError> {
    let tables = Tables::open(&args.tables).await?;
    let (consumer, selection) = (&args.consumer, args.event.selection());
    let parked = select(&tables, consumer, &selection, None).await?;
    let mut page = Page {
        consumer: consumer.clone(),
        remembered: Vec::new(),
        sequences: Vec::new(),
        events: Vec::new(),
    };
    match &selection {
        Selection::Key(key) => page.sequences = sequences(&tables, consumer, key).await?,
        Selection::Id(id) => page.remembered = remembered(&tables, consumer, id).await?,
        Selection::Place(_) | Selection::All => {}
    }
    if parked.is_empty() && page.remembered.is_empty() && page.sequences.is_empty() {
        tables.check_consumer(consumer).await?;
        return Err(InboxError::NotParked { consumer: consumer.clone(), what: selection.to_string() });
    }
    for event in &parked {
        let value = if args.value { Some(value(&tables, event).await?) } else { None };
        page.events.push(Shown::new(event, value.as_ref()));
    }
    if args.tables.json {
        print(&format!("{}\n", serde_json::to_value(&page).unwrap_or_default()));
    } else {
        print(&page.text());
    }
    Ok(Exit::Ok)
}

async fn value(tables: &Tables, event: &Parked) -> Result<Option<Vec<u8>>, InboxError> {
    let rows = tables.query(VALUE, &[&event.partition_id, &event.place.offset]).await?;
    Ok(rows.first().map(|row| get::<Option<Vec<u8>>>(row, 0)).transpose()?.flatten())
}

async fn remembered(tables: &Tables, consumer: &str, id: &str) -> Result<Vec<Remembered>, InboxError> {
    let rows = tables.query(REMEMBERED, &[&consumer, &id]).await?;
    let rows = rows.iter().map(|row| Ok(Remembered { source: get(row, 0)?, applied_at: get(row, 1)? }));
    rows.collect()
}

async fn sequences(tables: &Tables, consumer: &str, key: &[u8]) -> Result<Vec<KeySequence>, InboxError> {
    let rows = tables.query(SEQUENCE, &[&consumer, &key]).await?;
    let sequence = |row| {
        let (topic, next) = (get(row, 0)?, get(row, 1)?);
        Ok(KeySequence { topic, next, first: get(row, 2)?, dead_letters: get(row, 3)? })
    };
    rows.iter().map(sequence).collect()
}
