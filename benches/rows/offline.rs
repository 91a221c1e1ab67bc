//! Everything that is not I/O, in the order in which the loop does it: bytes of the socket to records and a status update.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use change_events::outbox::{Encoder, OutboxTable};
use criterion::Criterion;
use outboxd::internals::ack::{Ledger, Ticket};
use pg_replication::pgoutput::Message;
use pg_replication::replication::{Feedback, ReplicationMessage};
use pg_replication::transaction::Assembler;
use pg_replication::wal::{Lsn, PgTimestamp};
use pg_replication::wire::{BackendMessage, ReceiveBuffer};
use pg_replication::{pgoutput, replication};

use crate::input;
use crate::measured::step;
use crate::route::NOW;

const MESSAGE_BYTES_MAX: usize = 1 << 20;

pub(crate) fn benches(criterion: &mut Criterion) {
    let frames = input::frames();
    let mut pipeline = Pipeline::new();
    step(criterion, "offline/transaction", input::ROWS, || pipeline.take(black_box(&frames)));
}

struct Pipeline {
    socket: ReceiveBuffer,
    assembler: Assembler,
    table: OutboxTable,
    encoder: Encoder,
    ledger: Ledger,
    feedback: Feedback,
    out: BytesMut,
    now: Instant,
}

impl Pipeline {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            socket: ReceiveBuffer::new(MESSAGE_BYTES_MAX),
            assembler: Assembler::default(),
            table: input::table(&[]),
            encoder: Encoder::default(),
            ledger: Ledger::new(Lsn::ZERO),
            feedback: Feedback::new(Duration::from_secs(10), Lsn::ZERO, now),
            out: BytesMut::new(),
            now,
        }
    }

    /// Takes a transaction. The same one over and over is in commit order still.
    fn take(&mut self, frames: &[u8]) {
        self.socket.space().extend_from_slice(frames);
        let mut ticket = None;
        while let Some(frame) = self.socket.next_frame().unwrap() {
            let Ok(BackendMessage::CopyData(body)) = BackendMessage::decode(frame) else {
                panic!("CopyData")
            };
            let Ok(ReplicationMessage::XLogData(data)) = replication::decode(body) else {
                panic!("XLogData")
            };
            self.feedback.received(data.wal_end);
            match pgoutput::decode(data.data).unwrap() {
                Message::Begin(begin) => {
                    self.assembler.begin(begin).unwrap();
                    self.ledger.begin(begin.final_lsn, begin.commit_time, begin.xid).unwrap();
                }
                Message::Insert { new, .. } => {
                    black_box(self.assembler.next_position(data.wal_start).unwrap());
                    let routed = self.table.route(&new, NOW, &mut self.encoder).unwrap();
                    black_box(routed.as_record());
                    ticket = Some(self.ledger.issue().unwrap());
                }
                Message::Commit(commit) => {
                    self.assembler.commit(&commit).unwrap();
                    self.ledger.commit(commit.commit_lsn, commit.end_lsn).unwrap();
                    self.feedback.received(commit.end_lsn);
                }
                other => panic!("{other:?}"),
            }
        }
        self.acknowledge(ticket.unwrap());
    }

    fn acknowledge(&mut self, ticket: Ticket) {
        self.ledger.acknowledge(ticket, u64::from(input::ROWS)).unwrap();
        self.feedback.flushed(self.ledger.frontier());
        if let Some(update) = self.feedback.poll(self.now, PgTimestamp(0)) {
            self.out.clear();
            update.encode(black_box(&mut self.out));
        }
    }
}
