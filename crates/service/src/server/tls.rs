//! HTTPS: certificate and key from files, HTTP/2 through ALPN. The certificate can be replaced while connections are accepted:
//! a handshake uses the current one. Sessions that clients resume are kept, because they need no certificate.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use domain::Time;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use super::certificate::{self, CertificateFacts};
use crate::config::TlsConfig;

const V1_REMEDY: &str = "request a version 3 certificate with the service's name as a subject alternative name";
const DECRYPT: &str = "save it without one, where only the service's user can read it: `openssl pkey -in OLD -out NEW`";

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read, or has the wrong contents.
    #[error("{path}: {problem}; {remedy}")]
    File { path: PathBuf, problem: String, remedy: &'static str },
    /// The certificate and the key do not match.
    #[error("tls.cert and tls.key do not match: {0}")]
    Mismatch(#[from] rustls::Error),
}

/// Accepts TLS with a certificate that can be replaced.
pub struct CertifiedAcceptor {
    acceptor: TlsAcceptor,
    current: Arc<CurrentCertificate>,
}

/// Accepts TLS with these files.
pub fn acceptor(files: &TlsConfig) -> Result<Arc<CertifiedAcceptor>, TlsError> {
    let current = Arc::new(CurrentCertificate(ArcSwap::from_pointee(LoadedCertificate::load(files)?)));
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // The order is the provider's: AES-256-GCM, AES-128-GCM, then ChaCha20, because server CPUs have instructions for AES.
    config.ignore_client_order = true;
    Ok(Arc::new(CertifiedAcceptor { acceptor: TlsAcceptor::from(Arc::new(config)), current }))
}

impl CertifiedAcceptor {
    pub(super) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }

    /// New handshakes use this certificate; existing connections keep theirs.
    pub fn replace(&self, loaded: LoadedCertificate) {
        self.current.0.store(Arc::new(loaded));
    }

    pub fn certificate(&self) -> Arc<LoadedCertificate> {
        self.current.0.load_full()
    }

    /// When the certificate in use expires, if that can be read.
    pub fn expires(&self) -> Option<Time> {
        self.validity().map(|(_, expires)| expires)
    }

    /// When the certificate in use becomes valid, and when it expires, if that can be read.
    pub(super) fn validity(&self) -> Option<(Time, Time)> {
        self.current.0.load().validity
    }
}

/// Gives each handshake the current certificate.
struct CurrentCertificate(ArcSwap<LoadedCertificate>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.load().key))
    }
}

impl fmt::Debug for CurrentCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentCertificate").finish_non_exhaustive()
    }
}

/// A certificate with its key, read from files and ready for use.
pub struct LoadedCertificate {
    key: Arc<CertifiedKey>,
    /// When it becomes valid and when it expires, if that can be read.
    validity: Option<(Time, Time)>,
    pub(super) files: TlsConfig,
    /// The state of the files just before they were read.
    pub(super) stamp: FilesStamp,
}

impl LoadedCertificate {
    /// Reads the files and checks that they match.
    pub fn load(files: &TlsConfig) -> Result<Self, TlsError> {
        let fail = |path: &Path, problem: String, remedy| TlsError::File { path: path.to_owned(), problem, remedy };
        let cert_remedy = "tls.cert must name a PEM file with the certificate and its chain";
        // Before they are read, so that a change in between counts as one.
        let stamp = FilesStamp::of(files);
        let chain = CertificateDer::pem_file_iter(&files.cert)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| fail(&files.cert, error.to_string(), cert_remedy))?;
        let Some(first) = chain.first() else {
            return Err(fail(&files.cert, "no certificate in it".to_owned(), cert_remedy));
        };
        if certificate::is_version_1(first) {
            let problem = "an X.509 version 1 certificate, which browsers and this service refuse".to_owned();
            return Err(fail(&files.cert, problem, V1_REMEDY));
        }
        let facts = CertificateFacts::of(first);
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| {
            if is_encrypted(&files.key) {
                fail(
                    &files.key,
                    "the key is encrypted, and the service cannot ask for its passphrase".to_owned(),
                    DECRYPT,
                )
            } else {
                fail(&files.key, error.to_string(), "tls.key must name a PEM file with the private key")
            }
        })?;
        let key = Arc::new(CertifiedKey::from_der(chain, key, &default_provider())?);
        let validity = facts.map(|facts| (facts.valid_from, facts.expires));
        Ok(Self { key, validity, files: files.clone(), stamp })
    }

    pub fn facts(&self) -> Option<CertificateFacts> {
        self.key.cert.first().and_then(CertificateFacts::of)
    }

    pub fn is_same(&self, other: &Self) -> bool {
        self.key.cert == other.key.cert
    }
}

/// Whether a key cannot be read because it is encrypted: PKCS #8, or OpenSSL's older format.
fn is_encrypted(path: &Path) -> bool {
    const LONGEST: u64 = 64 * 1024;
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut text));
    let has = |mark: &[u8]| text.windows(mark.len()).any(|part| part == mark);
    read.is_ok() && (has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || has(b"Proc-Type: 4,ENCRYPTED"))
}

/// The state of both files from the outside: changes if either is written, renamed over, or reached through another symbolic
/// link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilesStamp([Result<FileStamp, io::ErrorKind>; 2]);

type FileStamp = (u64, u64, u64, i64, i64);

impl FilesStamp {
    pub(super) fn of(files: &TlsConfig) -> Self {
        Self([&files.cert, &files.key].map(|path| {
            let found = std::fs::metadata(path).map_err(|error| error.kind())?;
            Ok((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
        }))
    }
}
