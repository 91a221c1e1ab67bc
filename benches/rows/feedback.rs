//! What the server is told: deciding, and framing it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use criterion::Criterion;
use outboxd::internals::replication::Feedback;
use outboxd::internals::wal::{Lsn, PgTimestamp};

use crate::measured::step;

pub(crate) fn benches(criterion: &mut Criterion) {
    let now = Instant::now();
    let mut feedback = Feedback::new(Duration::from_secs(10), Lsn::ZERO, now);
    let (mut out, mut lsn) = (BytesMut::new(), 0);
    step(criterion, "feedback/update", 1, || {
        lsn += 1;
        feedback.received(Lsn::new(lsn));
        feedback.flushed(Lsn::new(lsn));
        let update = feedback.poll(now, PgTimestamp(0)).unwrap();
        out.clear();
        update.encode(black_box(&mut out));
    });
}
