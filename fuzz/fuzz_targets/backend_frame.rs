#![no_main]
use libfuzzer_sys::fuzz_target;
use outboxd::internals::wire::{BackendMessage, ReceiveBuffer};

fuzz_target!(|bytes: &[u8]| {
    let mut buffer = ReceiveBuffer::new(1 << 20);
    buffer.space().extend_from_slice(bytes);
    while let Ok(Some(frame)) = buffer.next_frame() {
        drop(BackendMessage::decode(frame));
    }
});
