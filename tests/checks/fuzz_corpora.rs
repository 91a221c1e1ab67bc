//! Replay of the fuzzing corpora: each input that fuzzing has kept passes its target.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

#[path = "../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "the crate of the fuzz targets exports them")]
mod targets;

#[test]
fn each_input_of_the_corpora_passes_its_target() {
    for (name, target) in targets::TARGETS {
        let inputs = corpus(name);
        assert!(!inputs.is_empty(), "the corpus of {name} is empty");
        for input in inputs {
            let passed = catch_unwind(|| target(&input));
            assert!(passed.is_ok(), "{name} fails for {}", hexadecimal(&input));
        }
    }
}

#[test]
fn each_corpus_and_each_fuzz_target_is_replayed() {
    let replayed: Vec<String> = targets::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(stems("fuzz/corpora"), replayed);
    assert_eq!(stems("fuzz/fuzz_targets"), replayed);
}

/// Returns the inputs of a corpus, which are lines of hexadecimal digits.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(root().join(format!("fuzz/corpora/{name}.hex"))).unwrap();
    text.lines().map(bytes).collect()
}

fn bytes(line: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        line.chars().map(|digit| u8::try_from(digit.to_digit(16).unwrap()).unwrap()).collect();
    digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the names of a folder's files without their endings, sorted.
fn stems(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut stems: Vec<String> =
        entries.map(|path| path.file_stem().unwrap().display().to_string()).collect();
    stems.sort();
    stems
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
