//! pgoutput: bytes to messages.

use std::hint::black_box;

use criterion::Criterion;
use pg_replication::pgoutput;

use crate::input;
use crate::measured::step;

pub(crate) fn benches(criterion: &mut Criterion) {
    let messages = input::messages();
    step(criterion, "decode/transaction", input::ROWS, || {
        for message in &messages {
            black_box(pgoutput::decode(black_box(message)).unwrap());
        }
    });
}
