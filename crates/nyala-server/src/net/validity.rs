//! The time in which the certificate of the doors is valid, for checks before a start and as metrics.

use std::time::SystemTime;

use ::metrics::{Unit, describe_gauge, gauge};
use nyala_model::config::TlsConfig;
use rustls::pki_types::CertificateDer;
use x509_certificate::{X509Certificate, X509CertificateError};

use super::certificate::certificates;
use super::tls::TlsError;

const NOT_BEFORE: &str = "nyala_tls_certificate_not_before_seconds";
const NOT_AFTER: &str = "nyala_tls_certificate_not_after_seconds";

/// The time in which a chain of certificates is valid: as long as each of them is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Clients refuse the server before this time.
    pub from: SystemTime,
    /// Clients refuse the server after this time.
    pub until: SystemTime,
}

impl Validity {
    /// The validity of the configured certificate and of those that its file has beside it.
    ///
    /// # Errors
    /// The file is missing, or holds something else.
    pub fn load(config: &TlsConfig) -> Result<Self, TlsError> {
        let path = &config.certificate;
        Self::of(&certificates(path)?).map_err(|error| TlsError::File {
            path: path.clone(),
            key: "certificate",
            reason: error.to_string(),
        })
    }

    /// The validity of a chain with one certificate at least.
    ///
    /// # Errors
    /// A certificate cannot be read.
    pub fn of(chain: &[CertificateDer<'_>]) -> Result<Self, X509CertificateError> {
        let mut all = Self { from: SystemTime::UNIX_EPOCH, until: SystemTime::UNIX_EPOCH };
        for (place, certificate) in chain.iter().enumerate() {
            let parsed = X509Certificate::from_der(certificate)?;
            let from = SystemTime::from(parsed.validity_not_before());
            let until = SystemTime::from(parsed.validity_not_after());
            all = match place {
                0 => Self { from, until },
                _ => Self { from: all.from.max(from), until: all.until.min(until) },
            };
        }
        Ok(all)
    }

    /// Sets the metrics.
    pub fn measure(self) {
        describe_gauge!(
            NOT_BEFORE,
            Unit::Seconds,
            "When the certificate begins to be valid, in seconds since 1970."
        );
        describe_gauge!(NOT_AFTER, Unit::Seconds, "When the certificate ends, in seconds since 1970.");
        gauge!(NOT_BEFORE).set(seconds(self.from));
        gauge!(NOT_AFTER).set(seconds(self.until));
    }
}

/// Seconds since 1970; 0 for times before.
fn seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
