#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| outboxd_fuzz::replication_message(bytes));
