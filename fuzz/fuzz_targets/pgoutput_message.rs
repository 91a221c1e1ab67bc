#![no_main]
use libfuzzer_sys::fuzz_target;
use outboxd::internals::pgoutput::decode;

fuzz_target!(|bytes: &[u8]| {
    if decode(bytes).is_ok() {
        assert!(decode(&bytes[..bytes.len() - 1]).is_err(), "complete without its last byte");
    }
});
