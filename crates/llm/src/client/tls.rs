//! TLS by rustls, with ring, and the roots that the machine trusts.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

use super::config::configuration;
use crate::error::LlmError;

/// What a client needs to be sure whom it talks to.
///
/// The cryptography is handed over, not installed for the process, which belongs to whoever embeds us.
pub(super) fn tls(scheme: &str) -> Result<ClientConfig, LlmError> {
    let cryptography = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&cryptography))
        .with_safe_default_protocol_versions()
        .expect("ring serves the default versions of TLS");
    let mut config = match scheme {
        "https" => {
            let verifier = Arc::new(verifier(cryptography)?);
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
        // A client of a plain HTTP server must work on a machine that has no certificates.
        _ => builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
    };
    config.alpn_protocols = vec!["h2".into(), "http/1.1".into()];
    Ok(config)
}

fn verifier(cryptography: Arc<CryptoProvider>) -> Result<Verifier, LlmError> {
    Verifier::new(cryptography).map_err(|error| {
        configuration(format!(
            "the machine's root certificates cannot be loaded ({error}); install them (the package is mostly called \
             ca-certificates), or name them in SSL_CERT_FILE"
        ))
    })
}
