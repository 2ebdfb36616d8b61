//! HTTPS: certificate and key from files, HTTP/2 by ALPN.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::TlsConfig;

/// Why HTTPS cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read, or has something else in it.
    #[error("{path}: {problem}; {remedy}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The certificate and the key do not go together.
    #[error("tls.cert and tls.key do not go together: {0}")]
    Mismatch(#[from] rustls::Error),
}

/// Accepts TLS with these files.
pub fn acceptor(files: &TlsConfig) -> Result<TlsAcceptor, TlsError> {
    let fail = |path: &Path, problem: String, remedy| TlsError::File { path: path.to_owned(), problem, remedy };
    let cert_remedy = "tls.cert names a PEM file with the certificate and its chain";
    let certificates = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| fail(&files.cert, error.to_string(), cert_remedy))?;
    if certificates.is_empty() {
        return Err(fail(&files.cert, "no certificate in it".to_owned(), cert_remedy));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| fail(&files.key, error.to_string(), "tls.key names a PEM file with the private key"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
