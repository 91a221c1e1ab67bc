#![no_main]
use libfuzzer_sys::fuzz_target;
use outboxd::internals::source_offset::OffsetMap;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(map) = OffsetMap::parse(bytes) {
        assert_eq!(OffsetMap::parse(&map.to_bytes()), Ok(map));
    }
});
