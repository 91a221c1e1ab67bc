#![no_main]
use libfuzzer_sys::fuzz_target;
use outboxd::internals::wal::Lsn;

fuzz_target!(|text: &str| {
    if let Ok(lsn) = text.parse::<Lsn>() {
        assert_eq!(lsn.to_string().parse(), Ok(lsn));
    }
});
