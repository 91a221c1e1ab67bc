//! A model of a database beside the stream, for the tests of incremental snapshots.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::signal::ReadRow;
use crate::signal::{PgSnapshot, Signal};

pub(super) const TABLE: &str = "public.a";
pub(super) const OID: Oid = Oid(7);

pub(super) type Rows = BTreeMap<u8, u32>;

/// An entry of the stream.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    Change { xid: u32, key: u8, value: Option<u32> },
    Watermark(String),
}

/// A transaction that is committed in the log and not visible to others yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unseen {
    pub(super) xid: u32,
    pub(super) key: u8,
    pub(super) value: Option<u32>,
}

pub(super) struct World {
    pub(super) snapshot: Incremental,
    pub(super) visible: Rows,
    pub(super) unseen: Option<Unseen>,
    pub(super) log: VecDeque<Entry>,
    pub(super) consumer: Rows,
    pub(super) sent: Recent,
    pub(super) asked: Option<Ask>,
    pub(super) answer: Option<Answer>,
    pub(super) next_xid: u32,
    pub(super) lsn: u64,
    /// True if the table has its other key.
    pub(super) is_rekeyed: bool,
}

pub(super) fn id() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("chunk{:08}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(super) fn signal(kind: &str, data: &str) -> Signal {
    Signal::parse("s", kind, Some(data)).unwrap()
}

impl World {
    pub(super) fn new(rows: Rows, state: StoredCheckpoint) -> Self {
        Self {
            snapshot: Incremental::new(2, true, id, state),
            visible: rows,
            unseen: None,
            log: VecDeque::new(),
            consumer: Rows::new(),
            sent: Recent::default(),
            asked: None,
            answer: None,
            next_xid: 3,
            lsn: 0,
            is_rekeyed: false,
        }
    }

    pub(super) fn write(&mut self, key: u8, value: Option<u32>, slowly: bool) {
        // Two transactions cannot change the same row at the same time, and only one is slow here.
        self.show();
        let xid = self.next_xid;
        self.next_xid += 1;
        self.log.push_back(Entry::Change { xid, key, value });
        self.unseen = Some(Unseen { xid, key, value });
        if !slowly {
            self.show();
        }
    }

    pub(super) fn show(&mut self) {
        let Some(Unseen { key, value, .. }) = self.unseen.take() else { return };
        match value {
            Some(value) => drop(self.visible.insert(key, value)),
            None => drop(self.visible.remove(&key)),
        }
    }

    /// Executes the requested action; its answer is pending after that.
    pub(super) fn act(&mut self) {
        if self.asked.is_none() && self.answer.is_none() {
            self.asked = self.snapshot.next_ask();
        }
        let Some(ask) = self.asked.take() else { return };
        self.answer = Some(match ask {
            Ask::Open { id, .. } => self.mark(format!("{id}-open")),
            Ask::Close { id } => self.mark(format!("{id}-close")),
            Ask::Read { request, .. } => Answer::Read(self.read(&request)),
        });
    }

    pub(super) fn mark(&mut self, watermark: String) -> Answer {
        self.log.push_back(Entry::Watermark(watermark));
        Answer::Written
    }

    /// Returns the value by which chunks are cut.
    pub(super) const fn rank(&self, key: u8) -> u8 {
        if self.is_rekeyed { 200 - key } else { key }
    }

    pub(super) fn read(&self, request: &ChunkRequest) -> Result<Chunk, NoChunk> {
        let number = |key: &ChunkKey| key[0].as_ref().unwrap().parse::<u8>().unwrap();
        let columns = vec![self.is_rekeyed.to_string()];
        let fits = request.columns.as_ref().is_none_or(|before| *before == columns);
        let mut all: Vec<(u8, u8, u32)> =
            self.visible.iter().map(|(key, value)| (self.rank(*key), *key, *value)).collect();
        all.sort_unstable();
        let end = match request.end.as_ref().filter(|_| fits) {
            Some(end) => number(end),
            None => all.last().ok_or(NoChunk::Empty)?.0,
        };
        let after = request.after.as_ref().filter(|_| fits).map(number);
        let wanted = |rank: u8| after.is_none_or(|after| rank > after) && rank <= end;
        let rows: Vec<_> =
            all.into_iter().filter(|(rank, ..)| wanted(*rank)).take(request.rows_max).collect();
        let text = |rank: u8| vec![Some(rank.to_string())];
        let unseen = self.unseen.map_or(String::new(), |unseen| unseen.xid.to_string());
        Ok(Chunk {
            table: OID,
            last: rows.last().map(|(rank, ..)| text(*rank)),
            rows: rows
                .into_iter()
                .map(|(rank, key, value)| ReadRow {
                    place: Some(text(rank)),
                    key: vec![Some(key.to_string().into_bytes())],
                    values: vec![Some(value.to_string().into_bytes())],
                })
                .collect(),
            end: text(end),
            columns,
            total: Some(1),
            visible: PgSnapshot::parse(&format!("1:{}:{unseen}", self.next_xid)).unwrap(),
        })
    }

    pub(super) fn receive(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.snapshot.answer(answer, &self.sent);
        }
    }

    /// Loses the connection: the action is done, but its answer is lost.
    pub(super) fn lose(&mut self) {
        if self.asked.take().is_some() | self.answer.take().is_some() {
            self.snapshot.answer(Answer::Lost, &self.sent);
        }
    }

    /// Reads the next entry of the stream, unless it must wait.
    pub(super) fn stream(&mut self) {
        let Some(entry) = self.log.front() else { return };
        if matches!(entry, Entry::Watermark(id) if id.ends_with("-open") && self.snapshot.awaits_rows_at(id))
        {
            return;
        }
        self.lsn += 10;
        match self.log.pop_front().unwrap() {
            Entry::Change { xid, key, value } => {
                self.snapshot.changed(TABLE, &vec![Some(key.to_string().into_bytes())]);
                match value {
                    Some(value) => drop(self.consumer.insert(key, value)),
                    None => drop(self.consumer.remove(&key)),
                }
                self.sent.add(xid);
            }
            Entry::Watermark(id) if id.ends_with("-close") => {
                for row in self.snapshot.close(&id).into_iter().flat_map(|sendable| sendable.rows) {
                    let text = |bytes: &Option<Vec<u8>>| String::from_utf8(bytes.clone().unwrap()).unwrap();
                    self.consumer
                        .insert(text(&row.key[0]).parse().unwrap(), text(&row.values[0]).parse().unwrap());
                }
            }
            Entry::Watermark(_) => {}
        }
        self.snapshot.commit(Lsn::new(self.lsn));
    }

    pub(super) fn finish(&mut self) {
        self.show();
        for _ in 0..10_000 {
            self.act();
            self.receive();
            self.stream();
        }
        assert!(!self.snapshot.state.is_running(), "{:?}", self.snapshot);
        assert!(self.log.is_empty());
    }

    pub(super) fn statuses(&mut self) -> Vec<SnapshotStatus> {
        std::iter::from_fn(|| self.snapshot.next_notification())
            .map(|notification| notification.status)
            .collect()
    }
}
