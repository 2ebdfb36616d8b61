//! TLS to the database, with libpq's meaning of its modes: `prefer` and `require` encrypt, `verify-ca` and `verify-full` also
//! check who is on the other end.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// How far the server's certificate is trusted, if it is checked.
pub(super) struct Trust {
    /// Whether the name in it must be the host's.
    pub(super) names: bool,
    /// The file with the authorities; the system's if there is none.
    pub(super) roots: Option<String>,
}

pub(super) fn client(trust: Option<Trust>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        None => Arc::new(Lenient { provider: Arc::clone(&provider), chain: None }),
        Some(Trust { names: true, roots }) => chain(roots, &provider)?,
        Some(Trust { names: false, roots }) => {
            Arc::new(Lenient { provider: Arc::clone(&provider), chain: Some(chain(roots, &provider)?) })
        }
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(config)
}

fn chain(roots: Option<String>, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let Some(path) = roots else {
        let verifier = rustls_platform_verifier::Verifier::new(Arc::clone(provider));
        return verifier
            .map(|verifier| Arc::new(verifier) as _)
            .map_err(|error| format!("the system's authorities: {error}"));
    };
    let wrong = |error: &dyn std::fmt::Display| format!("sslrootcert: the file `{path}` cannot be used: {error}");
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&path).map_err(|error| wrong(&error))? {
        store.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build();
    verifier.map(|verifier| verifier as _).map_err(|error| wrong(&error))
}

/// Accepts any certificate, or any from the given authorities regardless of its name.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    chain: Option<Arc<dyn ServerCertVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The chain is checked before the name, so only the name was wrong.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
