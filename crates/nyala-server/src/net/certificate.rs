//! Certificate and key of the doors. Programs such as certbot and cert-manager replace the files without a signal, so the server looks at
//! them every few seconds.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use nyala_model::config::TlsConfig;
use ring::digest::{Context, SHA256};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::tls::TlsError;
use super::validity::Validity;

/// How often the files are compared with those that were loaded. Changed files are loaded when two comparisons in a row find the same:
/// certificate and key are not replaced at the same moment, and a file that is being replaced may be missing for one.
const LOOK: Duration = Duration::from_secs(3);

/// SHA-256 of the contents of both files.
type Digest = Vec<u8>;

/// The certificate that new connections are shown.
pub struct Certificate {
    files: TlsConfig,
    /// Digest of the loaded files; none if they could not be read just before.
    loaded: Option<Digest>,
    current: RwLock<Arc<CertifiedKey>>,
}

impl Certificate {
    /// Reads the files.
    pub fn load(files: &TlsConfig) -> Result<Self, TlsError> {
        let loaded = digest(files);
        let current = RwLock::new(Arc::new(read(files)?));
        Ok(Self { files: files.clone(), loaded, current })
    }

    /// Sets the metrics of the present certificate.
    pub fn measure(&self) {
        match Validity::of(&self.current().cert) {
            Ok(validity) => validity.measure(),
            Err(error) => {
                tracing::warn!(%error, "no metrics tell how long the certificate is valid: it cannot be read");
            }
        }
    }

    fn current(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again whenever they have changed, for as long as it is polled.
    pub async fn follow(&self) {
        let (mut taken, mut seen) = (self.loaded.clone(), self.loaded.clone());
        loop {
            sleep(LOOK).await;
            let files = self.files.clone();
            let Ok(found) = spawn_blocking(move || digest(&files)).await else { continue };
            // A missing file counts as a change, too: files that cannot be read are reported like others that cannot be used.
            if found == seen && found != taken {
                taken.clone_from(&found);
                self.renew().await;
            }
            seen = found;
        }
    }

    /// Loads the files. If they cannot be used, logs the reason and keeps the present certificate.
    async fn renew(&self) {
        let files = self.files.clone();
        match spawn_blocking(move || read(&files)).await {
            Ok(Ok(renewed)) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(renewed);
                self.measure();
                tracing::info!("took the renewed certificate for new connections");
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "the renewed certificate is not taken; new connections get the one of before");
            }
            // The runtime is stopping, and has not run the task.
            Err(_) => {}
        }
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

fn read(files: &TlsConfig) -> Result<CertifiedKey, TlsError> {
    let (chain, key) = (certificates(&files.certificate)?, private_key(&files.key)?);
    Ok(CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())?)
}

fn digest(files: &TlsConfig) -> Option<Digest> {
    let mut context = Context::new(&SHA256);
    for file in [&files.certificate, &files.key] {
        context.update(&std::fs::read(file).ok()?);
    }
    Some(context.finish().as_ref().to_vec())
}

/// The certificates in a PEM file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unusable = |reason: String| TlsError::File { path: path.to_owned(), key: "certificate", reason };
    let chain = CertificateDer::pem_file_iter(path).map_err(|error| unusable(error.to_string()))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|error| unusable(error.to_string()))?;
    if chain.is_empty() {
        return Err(unusable("it holds no certificate in PEM form".to_owned()));
    }
    Ok(chain)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| TlsError::File {
        path: path.to_owned(),
        key: "key",
        reason: error.to_string(),
    })
}
