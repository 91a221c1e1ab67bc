use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509Name, X509NameRef};
use outboxd::internals::secret::Secret;
use outboxd::internals::throwaway::Certificate;

/// A certificate authority of the test's own.
#[derive(Debug)]
pub(crate) struct Authority {
    certificate: X509,
    key: PKey<Private>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = key().unwrap();
        let certificate = authority(name, &key).unwrap();
        Self { certificate, key }
    }

    /// Returns the value of `database.sslrootcert`.
    pub(crate) fn pem(&self) -> String {
        text(self.certificate.to_pem())
    }

    /// Issues a certificate for 127.0.0.1 and for `name`: a host name, or the role of a client certificate.
    pub(crate) fn issue(&self, name: &str) -> Certificate {
        let key = key().unwrap();
        let certificate = self.sign(name, &key).unwrap();
        Certificate {
            chain_pem: text(certificate.to_pem()),
            key_pem: Secret::new(text(key.private_key_to_pem_pkcs8())),
            client_ca_pem: Some(self.pem()),
        }
    }

    fn sign(&self, name: &str, key: &PKey<Private>) -> Result<X509, ErrorStack> {
        let mut builder = builder(name, key, self.certificate.subject_name())?;
        let context = builder.x509v3_context(Some(&self.certificate), None);
        let names = SubjectAlternativeName::new().ip("127.0.0.1").dns(name).build(&context)?;
        builder.append_extension(names)?;
        builder.sign(&self.key, MessageDigest::sha256())?;
        Ok(builder.build())
    }
}

fn authority(name: &str, key: &PKey<Private>) -> Result<X509, ErrorStack> {
    let mut builder = builder(name, key, subject(name)?.as_ref())?;
    builder.append_extension(BasicConstraints::new().critical().ca().build()?)?;
    builder.sign(key, MessageDigest::sha256())?;
    Ok(builder.build())
}

fn builder(name: &str, key: &PKey<Private>, issuer: &X509NameRef) -> Result<X509Builder, ErrorStack> {
    let mut serial = BigNum::new()?;
    serial.rand(64, MsbOption::MAYBE_ZERO, false)?;
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    builder.set_serial_number(serial.to_asn1_integer()?.as_ref())?;
    builder.set_subject_name(subject(name)?.as_ref())?;
    builder.set_issuer_name(issuer)?;
    builder.set_not_before(Asn1Time::days_from_now(0)?.as_ref())?;
    builder.set_not_after(Asn1Time::days_from_now(2)?.as_ref())?;
    builder.set_pubkey(key)?;
    Ok(builder)
}

fn subject(name: &str) -> Result<X509Name, ErrorStack> {
    let mut builder = X509Name::builder()?;
    builder.append_entry_by_nid(Nid::COMMONNAME, name)?;
    Ok(builder.build())
}

fn key() -> Result<PKey<Private>, ErrorStack> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    PKey::from_ec_key(EcKey::generate(&group)?)
}

fn text(pem: Result<Vec<u8>, ErrorStack>) -> String {
    String::from_utf8(pem.unwrap()).unwrap()
}
