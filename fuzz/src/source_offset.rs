use change_events::source_offset::{SentBefore, SourceOffset};

pub fn source_offset(bytes: &[u8]) {
    if let Ok(offset) = SourceOffset::parse(bytes) {
        let again = SourceOffset::parse(offset.to_string().as_bytes()).expect("what is printed is read");
        assert_eq!((again.furthest(), again.snapshot), (offset.furthest(), offset.snapshot));
        drop(SentBefore::new(&offset));
    }
}
