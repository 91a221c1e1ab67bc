//! `outboxd inbox forget`.

use std::collections::BTreeSet;

use super::changed::Changed;
use super::report::{Action, Report};
use super::sequence::{KeyOfTopic, Numbers, mark_dead};
use crate::cli::change::inbox::args::ForgetArgs;
use crate::cli::change::inbox::error::InboxError;
use crate::cli::change::inbox::tables::{Tables, get};
use crate::cli::shell::text::shown;
use crate::error::Exit;

/// The sources for which an id is remembered: rows of their own, and the topics of those that are remembered by position.
const SOURCES: &str = "SELECT source FROM inbox_message WHERE consumer = $1 AND message_id = $2 AND ($3::text IS NULL OR source = $3) \
     UNION SELECT held.topic FROM inbox_done AS done JOIN inbox_partition AS held ON held.id = done.partition_id \
     WHERE held.consumer = $1 AND done.message_ids @> ARRAY[$2::text] AND ($3::text IS NULL OR held.topic = $3)";
/// First: a consumer that goes from positions to ids moves these to the other table.
const FORGET_POSITIONS: &str = "UPDATE inbox_done AS done SET message_ids = array_remove(done.message_ids, $2::text) \
     FROM inbox_partition AS held WHERE held.id = done.partition_id AND held.consumer = $1 AND held.topic = $3 \
     AND done.message_ids @> ARRAY[$2::text]";
const FORGET_ID: &str = "DELETE FROM inbox_message WHERE consumer = $1 AND message_id = $2 AND source = $3";
/// The topics in which a number was applied.
const TOPICS: &str = "SELECT topic FROM inbox_sequence AS known WHERE consumer = $1 AND key = $2 AND next > $3::bigint \
     AND coalesce(first, $3) <= $3 AND ($4::text IS NULL OR topic = $4) \
     AND NOT EXISTS (SELECT FROM inbox_sequence_dead AS dead WHERE dead.consumer = known.consumer AND dead.topic = known.topic \
     AND dead.key = known.key AND dead.number = $3) ORDER BY topic";

/// Runs `outboxd inbox forget`.
pub(in crate::cli::change::inbox) async fn forget(args: &ForgetArgs) -> Result<Exit, InboxError> {
    let tables = Tables::open(&args.tables).await?;
    let mut report = Report::new(Action::Forget, &args.consumer, args.yes);
    if let Some(id) = &args.id {
        report.changed.push(forget_id(&tables, args, id).await?);
    }
    if let (Some(number), Some(key)) = (args.number, &args.key) {
        report.changed.push(forget_number(&tables, args, key.as_bytes(), number).await?);
    }
    Ok(report.print(args.tables.json))
}

async fn forget_id(tables: &Tables, args: &ForgetArgs, id: &str) -> Result<Changed, InboxError> {
    let consumer = &args.consumer;
    let rows = tables.query(SOURCES, &[consumer, &id, &args.source]).await?;
    let sources = rows.iter().map(|row| get(row, 0)).collect::<Result<BTreeSet<String>, _>>()?;
    let mut sources: Vec<String> = sources.into_iter().collect();
    let Some(source) = sources.pop() else {
        let what = format!("id {}", shown(Some(id.as_bytes())));
        return Err(InboxError::NotRemembered { consumer: consumer.clone(), what });
    };
    if !sources.is_empty() {
        sources.push(source);
        return Err(InboxError::SeveralSources { what: format!("id {id:?}"), sources });
    }
    if args.yes {
        tables.execute("BEGIN").await?;
        tables.change(FORGET_POSITIONS, &[consumer, &id, &source]).await?;
        tables.change(FORGET_ID, &[consumer, &id, &source]).await?;
        tables.execute("COMMIT").await?;
    }
    Ok(Changed { id: Some(id.to_owned()), source: Some(source), ..Changed::with_key(None) })
}

/// Forgets a number, which becomes a dead letter: it is handled when it is received again, and no event waits for it.
async fn forget_number(
    tables: &Tables,
    args: &ForgetArgs,
    key: &[u8],
    number: i64,
) -> Result<Changed, InboxError> {
    let consumer = &args.consumer;
    let rows = tables.query(TOPICS, &[consumer, &key, &number, &args.source]).await?;
    let mut topics = rows.iter().map(|row| get(row, 0)).collect::<Result<Vec<String>, _>>()?;
    let what = format!("number {number} of key {}", shown(Some(key)));
    let Some(topic) = topics.pop() else {
        return Err(InboxError::NotRemembered { consumer: consumer.clone(), what });
    };
    if !topics.is_empty() {
        topics.push(topic);
        return Err(InboxError::SeveralSources { what, sources: topics });
    }
    if args.yes {
        mark_dead(tables, KeyOfTopic { consumer, topic: &topic, key }, Numbers::one(number)).await?;
    }
    Ok(Changed { number: Some(number), ..Changed::with_key(Some(key)) })
}
