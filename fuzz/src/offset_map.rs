use change_events::source_offset::OffsetMap;

pub fn offset_map(bytes: &[u8]) {
    if let Ok(map) = OffsetMap::parse(bytes) {
        assert_eq!(OffsetMap::parse(&map.to_bytes()), Ok(map));
    }
}
