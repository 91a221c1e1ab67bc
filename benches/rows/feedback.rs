//! Status updates to the server: the decision, and the framing.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use criterion::Criterion;
use pg_replication::replication::Feedback;
use pg_replication::wal::{Lsn, PgTimestamp};

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
