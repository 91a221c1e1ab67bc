//! Archives of PostgreSQL.

use std::fs;
use std::io::{self, Read as _, Take};
use std::path::Path;

use lzma_rust2::XzReader;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use rawzip::{CompressionMethod, ZipArchive};
use tar::{Archive, EntryType};

/// The only file in the jar that counts.
const TARBALL_SUFFIX: &[u8] = b".txz";
/// Most bytes of a tarball. Those of 2026 are 15 to 25 megabytes.
const TARBALL_BYTES_MAX: usize = 256 << 20;
/// Most unpacked bytes. Those of 2026 are 60 megabytes.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;
/// Most memory of xz for its dictionary; `xz -9` needs 64 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 128 << 10;

/// Unpacks the files in the tarball in the jar into a folder that it makes.
pub(super) fn unpack(jar: &[u8], folder: &Path) -> io::Result<()> {
    let tarball = tarball(jar)?;
    fs::create_dir_all(folder)?;
    let xz = XzReader::new_mem_limit(tarball.as_slice(), false, XZ_MEMORY_KIB_MAX);
    let mut archive = Archive::new(xz.take(UNPACKED_BYTES_MAX));
    archive.set_preserve_mtime(false);
    for entry in archive.entries()? {
        let mut entry = entry?;
        // Others have no place there; a sparse one is small to read and of any size to write.
        let expected = [EntryType::Regular, EntryType::Directory, EntryType::Symlink, EntryType::Link];
        if !expected.contains(&entry.header().entry_type()) || !entry.unpack_in(folder)? {
            let path = entry.path()?.display().to_string();
            return Err(io::Error::other(format!("the tarball holds {path:?}, which has no place there")));
        }
    }
    read_to_end(archive.into_inner())
}

/// Reads to the end of the stream, which is not that of the tar and shows whether it was complete.
fn read_to_end(mut stream: Take<impl io::Read>) -> io::Result<()> {
    io::copy(&mut stream, &mut io::sink())?;
    if stream.limit() == 0 {
        return Err(io::Error::other(format!("the tarball is longer than {UNPACKED_BYTES_MAX} bytes")));
    }
    Ok(())
}

fn tarball(jar: &[u8]) -> io::Result<Vec<u8>> {
    let archive = ZipArchive::from_slice(jar).map_err(io::Error::other)?;
    let mut entries = archive.entries();
    while let Some(entry) = entries.next_entry().map_err(io::Error::other)? {
        if !entry.file_path().as_ref().ends_with(TARBALL_SUFFIX) {
            continue;
        }
        let data = archive.get_entry(entry.wayfinder()).map_err(io::Error::other)?.data();
        return match entry.compression_method() {
            CompressionMethod::STORE => Ok(data.to_vec()),
            CompressionMethod::DEFLATE => decompress_to_vec_with_limit(data, TARBALL_BYTES_MAX)
                .map_err(|error| io::Error::other(error.to_string())),
            other => Err(io::Error::other(format!("the jar is compressed in an unknown way: {other:?}"))),
        };
    }
    Err(io::Error::other("the jar holds no .txz"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lzma_rust2::{XzOptions, XzWriter};
    use miniz_oxide::deflate::compress_to_vec;
    use rawzip::{CompressionMethod, ZipArchiveWriter};
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;
    use tar::{Builder, Header};

    fn header(kind: EntryType, path: &str, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_size(size);
        // As it stands, also what `set_path` refuses.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header
    }

    /// Makes a tar of folders, files with the text of their path, and links to it.
    fn tar(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (kind, path, content) in entries {
            let is_file = *kind == EntryType::Regular;
            let mut header = header(*kind, path, if is_file { content.len() as u64 } else { 0 });
            if !is_file && !content.is_empty() {
                header.set_link_name(content).unwrap();
            }
            header.set_cksum();
            tar.append(&header, if is_file { content.as_bytes() } else { b"" }).unwrap();
        }
        tar.into_inner().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut xz = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).unwrap();
        xz.write_all(bytes).unwrap();
        xz.finish().unwrap()
    }

    fn jar(method: CompressionMethod, name: &str, content: &[u8]) -> Vec<u8> {
        let mut zip = ZipArchiveWriter::new(Vec::new());
        for (name, content) in
            [("META-INF/MANIFEST.MF", b"Manifest-Version: 1.0\r\n".as_slice()), (name, content)]
        {
            let (mut entry, config) = zip.new_file(name).compression_method(method).start().unwrap();
            let packed = if method == CompressionMethod::DEFLATE {
                compress_to_vec(content, 6)
            } else {
                content.to_vec()
            };
            let mut sizes = config.wrap(io::sink());
            sizes.write_all(content).unwrap();
            let (_, descriptor) = sizes.finish().unwrap();
            entry.write_all(&packed).unwrap();
            entry.finish(descriptor).unwrap();
        }
        zip.finish().unwrap()
    }

    fn postgres() -> Vec<u8> {
        xz(&tar(&[
            (EntryType::Directory, "bin/", ""),
            (EntryType::Regular, "bin/postgres", "ELF"),
            (EntryType::Symlink, "lib/libpq.so", "libpq.so.5"),
            (EntryType::Regular, "lib/libpq.so.5", "pq"),
        ]))
    }

    fn unpacked(jar: &[u8]) -> (tempfile::TempDir, io::Result<()>) {
        let parent = tempfile::tempdir().unwrap();
        let outcome = unpack(jar, &parent.path().join("postgresql"));
        (parent, outcome)
    }

    #[test]
    fn files_links_and_permissions_arrive() {
        for method in [CompressionMethod::DEFLATE, CompressionMethod::STORE] {
            let (parent, outcome) = unpacked(&jar(method, "postgres-linux-x86_64.txz", &postgres()));
            outcome.unwrap();
            let file = |path: &str| parent.path().join("postgresql").join(path);
            assert_eq!(fs::read(file("bin/postgres")).unwrap(), b"ELF");
            assert_eq!(fs::metadata(file("bin/postgres")).unwrap().permissions().mode() & 0o777, 0o755);
            assert_eq!(fs::read_link(file("lib/libpq.so")).unwrap(), PathBuf::from("libpq.so.5"));
            assert_eq!(fs::read(file("lib/libpq.so")).unwrap(), b"pq");
        }
    }

    #[test]
    fn an_archive_that_is_cut_anywhere_is_refused() {
        let whole = postgres();
        for length in 0..whole.len() {
            let (_parent, outcome) = unpacked(&jar(CompressionMethod::STORE, "a.txz", &whole[..length]));
            assert!(outcome.is_err(), "{length} of {}", whole.len());
        }
        let whole = jar(CompressionMethod::DEFLATE, "a.txz", &whole);
        for length in 0..whole.len() {
            let (_parent, outcome) = unpacked(&whole[..length]);
            assert!(outcome.is_err(), "{length} of {}", whole.len());
        }
    }

    #[test]
    fn nothing_is_written_outside_the_folder() {
        let cases: [&[(EntryType, &str, &str)]; 5] = [
            &[(EntryType::Regular, "../evil", "x")],
            &[(EntryType::Symlink, "out", ".."), (EntryType::Regular, "out/evil", "x")],
            &[(EntryType::Symlink, "out", "../evil"), (EntryType::Link, "in", "out")],
            &[(EntryType::Fifo, "pipe", "")],
            &[(EntryType::GNUSparse, "holes", "")],
        ];
        for entries in cases {
            let (parent, outcome) = unpacked(&jar(CompressionMethod::DEFLATE, "a.txz", &xz(&tar(entries))));
            assert!(outcome.is_err(), "{entries:?}");
            assert!(!parent.path().join("evil").exists(), "{entries:?}");
        }
    }

    #[test]
    fn an_absolute_path_is_one_in_the_folder() {
        let entries = [(EntryType::Regular, "/evil/of/outboxd", "x")];
        let (parent, outcome) = unpacked(&jar(CompressionMethod::DEFLATE, "a.txz", &xz(&tar(&entries))));
        outcome.unwrap();
        assert!(parent.path().join("postgresql/evil/of/outboxd").exists());
        assert!(!Path::new("/evil/of/outboxd").exists());
    }

    #[test]
    fn a_jar_without_a_tarball_is_reported() {
        let (_parent, outcome) = unpacked(&jar(CompressionMethod::DEFLATE, "postgres.zip", b"PK"));
        assert_eq!(outcome.unwrap_err().to_string(), "the jar holds no .txz");
    }

    #[test]
    fn a_stream_that_reaches_its_limit_is_refused() {
        assert!(read_to_end(io::repeat(0).take(1000)).is_err());
        assert!(read_to_end([0; 999].as_slice().take(1000)).is_ok());
    }
}
