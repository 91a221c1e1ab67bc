//! `docs/status.png` is a picture of the present status page.
//!
//! `tests/checks/picture.sha256` has the checksums of the picture and of the sources of the page that it was made of.
//! `UPDATE_DOCS=1` records them after a new picture was made: CONTRIBUTING.md has the command.

use std::path::Path;
use std::{env, fs};

use sha2::{Digest as _, Sha256};

use super::tidy::{File, product_lines, repository};

const PICTURE: &str = "docs/status.png";
const PAGE: &str = "src/http/page/";
const RECORD: &str = "tests/checks/picture.sha256";

#[test]
fn the_picture_of_the_status_page_is_of_these_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let picture = text([fs::read(root.join(PICTURE)).unwrap()]);
    let sources = of_page(&repository());
    let record = fs::read_to_string(root.join(RECORD)).unwrap_or_default();
    let recorded = |path: &str| record.lines().find_map(|line| line.strip_suffix(path).map(str::trim));
    let (of_picture, of_sources) = (recorded(PICTURE), recorded(PAGE));
    let is_new = of_picture != Some(&picture);
    if env::var_os("UPDATE_DOCS").is_some() && is_new {
        fs::write(root.join(RECORD), format!("{picture}  {PICTURE}\n{sources}  {PAGE}\n")).unwrap();
        return;
    }
    assert!(!is_new, "the picture is new: UPDATE_DOCS=1 cargo test --test checks picture");
    assert_eq!(
        of_sources,
        Some(sources.as_str()),
        "the page has changed: make {PICTURE} as CONTRIBUTING.md says"
    );
}

#[test]
fn a_change_of_the_page_changes_the_checksum_and_a_test_does_not() {
    let file = |path: &str, text: &str| File { path: format!("{PAGE}{path}"), text: text.to_owned() };
    let before = of_page(&[file("mod.rs", "fn a() {}"), file("style.css", "p {}")]);
    assert_ne!(before, of_page(&[file("mod.rs", "fn b() {}"), file("style.css", "p {}")]));
    assert_ne!(before, of_page(&[file("mod.rs", "fn a() {}"), file("style.css", "b {}")]));
    let tests = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}";
    assert_eq!(before, of_page(&[file("style.css", "p {}"), file("mod.rs", tests)]));
}

fn of_page(files: &[File]) -> String {
    let mut parts: Vec<_> = files.iter().filter(|file| file.path.starts_with(PAGE)).collect();
    parts.sort_by_key(|file| &file.path);
    text(parts.into_iter().map(|file| {
        let lines: String = product_lines(&file.text).iter().map(|(_, line)| format!("{line}\n")).collect();
        format!("{}\0{lines}\0", file.path)
    }))
}

fn text(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> String {
    let mut checksum = Sha256::new();
    parts.into_iter().for_each(|part| checksum.update(part));
    checksum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
