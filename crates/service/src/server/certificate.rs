//! The contents of a certificate.

use domain::Time;
use rustls::pki_types::CertificateDer;
use x509_cert::Version;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::time::Validity;

/// Who a certificate is for, and when it is valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The names and addresses it is valid for.
    pub names: Vec<String>,
    pub valid_from: Time,
    pub expires: Time,
}

impl CertificateFacts {
    /// `None` if the certificate has an unknown format.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = x509_cert::Certificate::from_der(certificate).ok()?.tbs_certificate;
        let Validity { not_before, not_after } = certificate.validity;
        let time = |time: x509_cert::time::Time| Time::from_seconds(time.to_unix_duration().as_secs());
        let alternatives = certificate.get::<SubjectAltName>().ok()?.map(|(_, names)| names.0).unwrap_or_default();
        let names = alternatives.iter().filter_map(name).collect();
        Some(Self { names, valid_from: time(not_before), expires: time(not_after) })
    }
}

/// Whether it has the oldest format, which cannot name what it is valid for.
pub(super) fn is_version_1(certificate: &CertificateDer<'_>) -> bool {
    let parsed = x509_cert::Certificate::from_der(certificate);
    parsed.is_ok_and(|certificate| certificate.tbs_certificate.version == Version::V1)
}

fn name(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let four = <[u8; 4]>::try_from(bytes).map(std::net::IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(bytes).map(std::net::IpAddr::from));
            address.ok().map(|address| address.to_string())
        }
        _ => None,
    }
}
