//! Verification of server certificates.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::policy::{Authorities, Mode, Policy};
use crate::report::Hinted;

/// The TLS settings of a client under this policy.
pub(super) fn client_config(policy: &Policy, protocol: &[u8]) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let mut config = match policy.mode {
        Mode::VerifyFull => builder.with_root_certificates(roots(&policy.authorities)?),
        Mode::VerifyCa => {
            let roots = Arc::new(roots(&policy.authorities)?);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build()?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyName(verifier)))
        }
        Mode::Disable | Mode::Prefer | Mode::Require => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        }
    }
    .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

fn roots(authorities: &Authorities) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    match authorities {
        Authorities::System => {
            let found = rustls_native_certs::load_native_certs();
            // Skips unreadable old certificates of some systems; the others suffice.
            store.add_parsable_certificates(found.certs);
            if store.is_empty() {
                return Err(Hinted::error(
                    "the operating system names no authority to trust",
                    "install its certificates (Debian: ca-certificates), or name a file by `--ca`",
                ));
            }
        }
        Authorities::File(path) => {
            for certificate in certificates(path)? {
                let refused = || format!("`{}` holds a certificate that cannot be used", path.display());
                store.add(certificate).with_context(refused)?;
            }
        }
    }
    Ok(store)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let unreadable = || format!("cannot read certificates from `{}`", path.display());
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .with_context(unreadable)?
        .collect::<Result<_, _>>()
        .with_context(unreadable)?;
    if found.is_empty() {
        return Err(anyhow!("it holds no certificate in PEM form")).with_context(unreadable);
    }
    Ok(found)
}

/// Accepts a server with a certificate by a trusted authority, under any name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is checked last: everything else was valid.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Accepts every server, as `sslmode=require` does: encrypted, but to a server of unknown identity.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
