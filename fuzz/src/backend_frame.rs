use pg_replication::wire::{BackendMessage, ReceiveBuffer};

pub fn backend_frame(bytes: &[u8]) {
    let mut buffer = ReceiveBuffer::new(1 << 20);
    buffer.space().extend_from_slice(bytes);
    while let Ok(Some(frame)) = buffer.next_frame() {
        drop(BackendMessage::decode(frame));
    }
}
