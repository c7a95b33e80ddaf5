//! State that all HTTP handlers share, and the phase of the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use nyala_engine::Engine;

use crate::auth::Authenticator;
use crate::door::Common;
use crate::metrics::Metrics;

/// Where a server is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Listening, but not all doors are open.
    Starting,
    /// Taking queries.
    Ready,
    /// Finishing running queries.
    Stopping,
}

/// The phase, shared by the supervisor that sets it and the handlers that read it.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<AtomicU8>);

impl Default for Readiness {
    fn default() -> Self {
        Self(Arc::new(AtomicU8::new(Phase::Starting as u8)))
    }
}

impl Readiness {
    /// Enters a phase.
    pub fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Release);
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            phase if phase == Phase::Ready as u8 => Phase::Ready,
            phase if phase == Phase::Starting as u8 => Phase::Starting,
            _ => Phase::Stopping,
        }
    }
}

/// State that all handlers share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Answers the queries.
    pub engine: Arc<Engine>,
    /// Authenticates clients.
    pub authenticator: Arc<Authenticator>,
    /// Renders `/metrics`.
    pub metrics: Metrics,
    /// Drives `/readyz`.
    pub readiness: Readiness,
    /// Largest request body, in bytes.
    pub max_body_bytes: usize,
    /// Whether the door listens on a loopback address.
    pub loopback_only: bool,
}

impl Shared {
    /// State of a door at this address.
    pub fn new(common: &Common, address: SocketAddr) -> Self {
        Self {
            engine: Arc::clone(&common.engine),
            authenticator: Arc::clone(&common.authenticator),
            metrics: common.metrics.clone(),
            readiness: common.readiness.clone(),
            max_body_bytes: common.config.max_body_bytes,
            loopback_only: address.ip().is_loopback(),
        }
    }
}
