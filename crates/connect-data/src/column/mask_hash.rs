//! Masks that replace a text by its hash.

use std::fmt;

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

/// `column.mask.hash.ALGORITHM.with.salt.SALT` and `column.mask.hash.v2.…`: a text is replaced by the digits of its
/// hash.
#[derive(Clone, PartialEq, Eq)]
pub struct MaskHash {
    algorithm: Algorithm,
    salt: Vec<u8>,
    form: HashForm,
}

/// Form of a text that is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashForm {
    /// The text as Java serializes it (`ObjectOutputStream`).
    V1,
    /// The text's UTF-8 bytes.
    V2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl MaskHash {
    /// Returns a hash by Java's name of its algorithm, in any case, or `None` for an unknown algorithm.
    #[must_use]
    pub fn new(algorithm: &str, salt: &str, form: HashForm) -> Option<Self> {
        let algorithm = match algorithm.to_ascii_uppercase().as_str() {
            "MD5" => Algorithm::Md5,
            "SHA" | "SHA1" | "SHA-1" => Algorithm::Sha1,
            "SHA224" | "SHA-224" => Algorithm::Sha224,
            "SHA256" | "SHA-256" => Algorithm::Sha256,
            "SHA384" | "SHA-384" => Algorithm::Sha384,
            "SHA512" | "SHA-512" => Algorithm::Sha512,
            _ => return None,
        };
        Some(Self { algorithm, salt: salt.as_bytes().to_vec(), form })
    }

    /// Returns the hash of the salt and the text, in lower-case hexadecimal digits.
    pub(super) fn digits(&self, text: &str) -> String {
        let mut salted = self.salt.clone();
        match self.form {
            HashForm::V1 => write_java_string(&mut salted, text),
            HashForm::V2 => salted.extend_from_slice(text.as_bytes()),
        }
        let hex = |hash: &[u8]| hash.iter().map(|byte| format!("{byte:02x}")).collect();
        match self.algorithm {
            Algorithm::Md5 => hex(&Md5::digest(&salted)),
            Algorithm::Sha1 => hex(&Sha1::digest(&salted)),
            Algorithm::Sha224 => hex(&Sha224::digest(&salted)),
            Algorithm::Sha256 => hex(&Sha256::digest(&salted)),
            Algorithm::Sha384 => hex(&Sha384::digest(&salted)),
            Algorithm::Sha512 => hex(&Sha512::digest(&salted)),
        }
    }
}

/// The salt is a secret, and is not printed.
impl fmt::Debug for MaskHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaskHash")
            .field("algorithm", &self.algorithm)
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

/// Writes a stream of Java's serialization with one string: magic, version, and the string in modified UTF-8.
fn write_java_string(out: &mut Vec<u8>, text: &str) {
    const STREAM: [u8; 4] = [0xAC, 0xED, 0x00, 0x05];
    const STRING: u8 = 0x74;
    const LONG_STRING: u8 = 0x7C;
    let mut encoded = Vec::with_capacity(text.len());
    for unit in text.encode_utf16() {
        write_modified_utf8(&mut encoded, unit);
    }
    out.extend(STREAM);
    match u16::try_from(encoded.len()) {
        Ok(length) => {
            out.push(STRING);
            out.extend(length.to_be_bytes());
        }
        Err(_) => {
            out.push(LONG_STRING);
            out.extend(u64::try_from(encoded.len()).unwrap_or(u64::MAX).to_be_bytes());
        }
    }
    out.extend(encoded);
}

/// Writes one UTF-16 unit: zero as two bytes, a surrogate as three.
fn write_modified_utf8(out: &mut Vec<u8>, unit: u16) {
    let [high, low] = unit.to_be_bytes();
    let middle = (high & 0x0F) << 2 | low >> 6;
    match unit {
        1..=0x7F => out.push(low),
        0 | 0x80..=0x7FF => out.extend([0xC0 | middle, 0x80 | low & 0x3F]),
        _ => out.extend([0xE0 | high >> 4, 0x80 | middle, 0x80 | low & 0x3F]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_hashed_as_debezium_hashes_it() {
        let cases = [
            (
                "SHA-256",
                HashForm::V1,
                "text \"q\" \\\\ / 😀",
                "a0cb547ba06d0208dfdfc62f63118051fe96832b2918716077dc2594efcf0a2a",
            ),
            ("SHA-256", HashForm::V1, "", "7b061bc77caec9afdc6b986ab6c4de894d58006b32ac0f7ea728404a5cf3a9e5"),
            (
                "SHA-256",
                HashForm::V1,
                " ",
                "e06522cca0a6cf37dc4cfaeee89392489eed47d90247ef5aa58ae3ba7febb9e7",
            ),
            (
                "SHA-256",
                HashForm::V1,
                "ok",
                "1d39b3fbe86c930109e4a0cb614fd683261685f48fb914e528e74b89d6b3e8bf",
            ),
            ("md5", HashForm::V2, "text \"q\" \\\\ / 😀", "ff3583c772c04b8bfb354eac4193b7b1"),
            ("md5", HashForm::V2, "", "ca2879352539ff0de523d59fc3b840cf"),
            ("md5", HashForm::V2, " ", "7bf16d83ec85bf4e8f675fc1d7542449"),
            ("md5", HashForm::V2, "ok", "cddacb0f23272df646b285ff1e93ef04"),
        ];
        for (algorithm, form, text, digits) in cases {
            let hash = MaskHash::new(algorithm, "CzQMA0cB5K", form).unwrap();
            assert_eq!(hash.digits(text), digits, "{algorithm} {form:?} {text}");
            assert!(!format!("{hash:?}").contains("CzQMA0cB5K"));
        }
        assert_eq!(MaskHash::new("MD2", "salt", HashForm::V1), None);
    }

    #[test]
    fn strings_are_serialized_as_java_does() {
        let serialized = |text: &str| {
            let mut out = Vec::new();
            write_java_string(&mut out, text);
            out
        };
        assert_eq!(serialized("a\0é"), b"\xAC\xED\0\x05\x74\0\x05a\xC0\x80\xC3\xA9");
        assert_eq!(serialized("😀€"), b"\xAC\xED\0\x05\x74\0\x09\xED\xA0\xBD\xED\xB8\x80\xE2\x82\xAC");
        let long = serialized(&"x".repeat(65_536));
        assert_eq!(long.get(..13), Some(b"\xAC\xED\0\x05\x7C\0\0\0\0\0\x01\0\0".as_slice()));
    }
}
