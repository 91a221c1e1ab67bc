//! Files with certificates and keys: PEM, or the stores of Java's `keytool`. What is in a file is looked at, not its name, as Java does.

mod error;

use std::fs::File;
use std::io::Read as _;

use openssl::pkcs12::Pkcs12;
use openssl::x509::X509;

use crate::secret::Secret;

pub(crate) use error::{Error, Reason};

/// More than any store of authorities has.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Store of `ssl.truststore.*` or `ssl.keystore.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyStore {
    /// The option that names the file, as it was written.
    pub option: String,
    /// The file.
    pub path: String,
    /// Password with which its certificates are encrypted.
    pub password: Option<Secret>,
}

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text.
    Pem,
    /// Format that `keytool` writes since Java 9 (RFC 7292), whatever the file is called.
    Pkcs12,
}

impl KeyStore {
    /// Reads its certificates, as PEM.
    ///
    /// # Errors
    /// When the file cannot be read, or holds none.
    pub(crate) fn certificates(&self) -> Result<String, Error> {
        let bytes = self.read()?;
        let form = form(&bytes).map_err(|reason| self.unusable(reason))?;
        let certificates = match form {
            Form::Pem => X509::stack_from_pem(&bytes).map_err(Reason::Unreadable),
            Form::Pkcs12 => self.unlock(&bytes),
        };
        certificates.and_then(|found| as_pem(&found)).map_err(|reason| self.unusable(reason))
    }

    /// Reads its format.
    ///
    /// # Errors
    /// When the file cannot be read, or is something else.
    pub(crate) fn form(&self) -> Result<Form, Error> {
        form(&self.read()?).map_err(|reason| self.unusable(reason))
    }

    fn unlock(&self, bytes: &[u8]) -> Result<Vec<X509>, Reason> {
        let password = self.password.as_ref().map(Secret::expose).unwrap_or_default();
        let store = Pkcs12::from_der(bytes).map_err(Reason::Unreadable)?;
        let content = store.parse2(password).map_err(Reason::of_pkcs12)?;
        Ok(content.cert.into_iter().chain(content.ca.into_iter().flatten()).collect())
    }

    fn read(&self) -> Result<Vec<u8>, Error> {
        read_file(&self.path).map_err(|reason| self.unusable(reason))
    }

    fn unusable(&self, reason: Reason) -> Error {
        Error { option: self.option.clone(), path: self.path.clone(), reason }
    }
}

/// Reads a file. One that is cut would lack authorities without notice, so it is refused.
fn read_file(path: &str) -> Result<Vec<u8>, Reason> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Reason::File)?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(Reason::File)?;
    if read as u64 > FILE_BYTES_MAX { Err(Reason::TooLong) } else { Ok(bytes) }
}

/// Detects the format by the first bytes: a JKS or JCEKS store has a magic number, PKCS#12 is a sequence in
/// DER, and the rest is text.
fn form(bytes: &[u8]) -> Result<Form, Reason> {
    match bytes {
        [0xfe, 0xed, 0xfe, 0xed, ..] | [0xce, 0xce, 0xce, 0xce, ..] => Err(Reason::Jks),
        [0x30, ..] => Ok(Form::Pkcs12),
        _ => Ok(Form::Pem),
    }
}

fn as_pem(certificates: &[X509]) -> Result<String, Reason> {
    let mut text = Vec::new();
    for certificate in certificates {
        text.extend(certificate.to_pem().map_err(Reason::Unreadable)?);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    if text.is_empty() { Err(Reason::Empty) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use openssl::asn1::Asn1Time;
    use openssl::hash::MessageDigest;
    use openssl::pkey::PKey;
    use openssl::stack::Stack;

    use super::*;
    use crate::error::Diagnose as _;

    fn certificate() -> X509 {
        let key = PKey::generate_ed25519().unwrap();
        let mut builder = X509::builder().unwrap();
        builder.set_pubkey(&key).unwrap();
        builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
        builder.set_not_after(&Asn1Time::days_from_now(9).unwrap()).unwrap();
        builder.sign(&key, MessageDigest::null()).unwrap();
        builder.build()
    }

    fn pkcs12(certificates: &[X509], password: &str) -> Vec<u8> {
        let mut authorities = Stack::new().unwrap();
        certificates.iter().for_each(|one| authorities.push(one.clone()).unwrap());
        Pkcs12::builder().ca(authorities).build2(password).unwrap().to_der().unwrap()
    }

    fn key_only(password: &str) -> Vec<u8> {
        let key = PKey::generate_ed25519().unwrap();
        Pkcs12::builder().pkey(&key).build2(password).unwrap().to_der().unwrap()
    }

    fn read(content: &[u8], password: Option<&str>) -> Result<String, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.jks");
        fs::write(&path, content).unwrap();
        let path = path.display().to_string();
        KeyStore { option: "ssl.truststore.location".to_owned(), path, password: password.map(Secret::new) }
            .certificates()
    }

    #[test]
    fn certificates_are_found_whatever_the_file_is_called() {
        let two = [certificate(), certificate()];
        let pem = as_pem(&two).unwrap();
        assert_eq!(read(format!("# ours\n{pem}# the end\n").as_bytes(), None).unwrap(), pem);
        let found = read(&pkcs12(&two, "hunter2"), Some("hunter2")).unwrap();
        let mut found = X509::stack_from_pem(found.as_bytes()).unwrap();
        found.sort_by_key(|one| two.iter().position(|other| other == one));
        assert_eq!(found, two);
    }

    #[test]
    fn what_cannot_be_used_is_reported_with_what_to_type() {
        let locked = pkcs12(&[certificate()], "hunter2");
        let cut = locked.get(..locked.len() / 2).unwrap();
        let long = vec![b'#'; usize::try_from(FILE_BYTES_MAX).unwrap() + 1];
        let cases: [(&[u8], _, _, _); 8] = [
            (&long, None, "larger than 16 MiB", "authorities"),
            (&locked, None, "cannot be opened", "set ssl.truststore.password"),
            (&locked, Some("hunter3"), "cannot be opened", "set ssl.truststore.password"),
            (&key_only("p"), Some("p"), "no certificate", "authorities"),
            (cut, Some("hunter2"), "cannot be read", "PKCS#12"),
            (&[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2], None, "JKS", "keytool -importkeystore"),
            (b"", None, "no certificate", "authorities"),
            (b"certificates", None, "no certificate", "authorities"),
        ];
        for (content, password, said, fix) in cases {
            let error = read(content, password).unwrap_err();
            let told = crate::error::report(&error);
            assert!(told.contains(said) && error.fix().unwrap().contains(fix), "{told}");
            assert!(told.contains("ssl.truststore.location=") && !told.contains("hunter"), "{told}");
        }
    }
}
