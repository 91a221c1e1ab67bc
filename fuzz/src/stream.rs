use std::collections::HashMap;

use super::{NOW, description, router};
use change_events::outbox::{Encoder, OutboxTable, check_topic_name};
use pg_replication::pgoutput::{self, Message, RelationCache};
use pg_replication::replication::{ReplicationMessage, decode};
use pg_replication::transaction::Assembler;
use pg_replication::wal::Oid;
use pg_replication::wire::{BackendMessage, ReceiveBuffer};

// What a session reads, from the socket's bytes to records: frames, messages, the tables that were described, transactions, rows.
pub fn stream(bytes: &[u8]) {
    let mut buffer = ReceiveBuffer::new(1 << 20);
    buffer.space().extend_from_slice(bytes);
    let mut stream = Stream::default();
    while let Ok(Some(frame)) = buffer.next_frame() {
        let Ok(BackendMessage::CopyData(data)) = BackendMessage::decode(frame) else { continue };
        let Ok(ReplicationMessage::XLogData(data)) = decode(data) else { continue };
        let Ok(message) = pgoutput::decode(data.data) else { return };
        if stream.take(message).is_none() {
            return;
        }
    }
}

#[derive(Default)]
struct Stream {
    relations: RelationCache,
    tables: HashMap<Oid, Option<OutboxTable>>,
    transaction: Assembler,
    encoder: Encoder,
}

impl Stream {
    /// Processes a message; returns `None` where a session would end.
    fn take(&mut self, message: Message<'_>) -> Option<()> {
        match message {
            Message::Begin(begin) => self.transaction.begin(begin).ok()?,
            Message::Commit(commit) => drop(self.transaction.commit(&commit).ok()?),
            Message::Relation(relation) => {
                let relation = self.relations.insert(relation);
                let columns: Vec<_> =
                    relation.columns.iter().map(|column| description(&column.name, "text")).collect();
                self.tables.insert(relation.oid, router(&[]).bind(&relation, &columns).ok());
            }
            Message::Insert { relation, new } => {
                self.transaction.current().ok()?;
                let described = self.relations.lookup(relation).ok()?.oid;
                let table = self.tables.get(&described).expect("what is described is bound").as_ref()?;
                if let Ok(record) = table.route(&new, NOW, &mut self.encoder) {
                    assert_eq!(check_topic_name(record.topic), Ok(()));
                }
            }
            _ => {}
        }
        Some(())
    }
}
