#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| outboxd_fuzz::pgoutput_message(bytes));
