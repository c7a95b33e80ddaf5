//! Identity of a node: a connection is accepted if it proves that it knows the secret of the cluster.
//!
//! The secret makes a key, with which each node signs a certificate for itself. So both ends of a connection prove that they
//! know the secret without telling it, and a node knows that it talks to the node that it wanted to reach.

use std::fmt;
use std::sync::Arc;

use argon2::Argon2;
use nyala_model::NodeId;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    PKCS_ED25519,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The protocol of nodes, with its version: a node of another version is refused at the handshake. The version is raised when a node
/// of the version before would misread a message, and not for each release; CONTRIBUTING.md tells which changes need that.
const PROTOCOL: &[u8] = b"nyala/1";
/// Length of the shortest secret: a shorter one might be guessed.
pub const MIN_SECRET_BYTES: usize = 32;
const SALT: &[u8] = b"nyala node authority 1";
/// What precedes the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410).
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The secret is too short: make a longer one.
    #[error(
        "`node.secret` has {bytes} bytes, and needs at least {MIN_SECRET_BYTES}; `openssl rand -hex 32` makes one"
    )]
    ShortSecret {
        /// Its length.
        bytes: usize,
    },
    /// A library failed.
    #[error("no certificate can be made for node `{node}`: {reason}")]
    Certificate {
        /// The node.
        node: NodeId,
        /// The cause.
        reason: String,
    },
}

/// The two ends of connections of one node.
#[derive(Clone)]
pub struct Identity {
    /// This node.
    pub node: NodeId,
    /// Accepts connections of nodes that know the secret.
    pub server: Arc<ServerConfig>,
    /// Connects to such nodes.
    pub client: Arc<ClientConfig>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Identity {
    /// The identity of a node in the cluster with this secret.
    ///
    /// # Errors
    /// The secret is too short.
    pub fn new(secret: &str, node: &NodeId) -> Result<Self, IdentityError> {
        if secret.len() < MIN_SECRET_BYTES {
            return Err(IdentityError::ShortSecret { bytes: secret.len() });
        }
        let failed = |reason: String| IdentityError::Certificate { node: node.clone(), reason };
        let authority = authority(secret).map_err(failed)?;
        let (chain, key) = leaf(node, &authority).map_err(|error| failed(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).map_err(|error| failed(error.to_string()))?;
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (server, client) =
            configs(&provider, &roots, (chain, key)).map_err(|error| failed(error.to_string()))?;
        Ok(Self { node: node.clone(), server: Arc::new(server), client: Arc::new(client) })
    }
}

/// The name of a node in its certificate.
pub fn name_of(node: &NodeId) -> String {
    format!("{}.nyala.internal", node.0)
}

/// The name of a node in its certificate, as the name that TLS connects to. None if a certificate cannot have it.
pub fn server_name(node: &NodeId) -> Option<ServerName<'static>> {
    ServerName::try_from(name_of(node)).ok()
}

/// Whether both ends of a handshake agreed on the protocol of nodes.
pub fn speaks(protocol: Option<&[u8]>) -> bool {
    protocol == Some(PROTOCOL)
}

fn authority(secret: &str) -> Result<CertifiedIssuer<'static, KeyPair>, String> {
    let mut seed = [0; 32];
    Argon2::default()
        .hash_password_into(secret.as_bytes(), SALT, &mut seed)
        .map_err(|error| error.to_string())?;
    let key = PrivatePkcs8KeyDer::from([PKCS8_PREFIX.as_slice(), &seed].concat());
    let key =
        KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ED25519).map_err(|error| error.to_string())?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.distinguished_name.push(DnType::CommonName, "nyala node authority");
    CertifiedIssuer::self_signed(params, key).map_err(|error| error.to_string())
}

type Certified = (Vec<rustls::pki_types::CertificateDer<'static>>, PrivateKeyDer<'static>);

/// A certificate for this process. Its key is new at each start.
fn leaf(node: &NodeId, authority: &CertifiedIssuer<'static, KeyPair>) -> Result<Certified, rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ED25519)?;
    let mut params = CertificateParams::new([name_of(node)])?;
    params.distinguished_name.push(DnType::CommonName, node.0.as_str());
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, authority)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok((vec![certificate.der().clone()], key))
}

fn configs(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    (chain, key): Certified,
) -> Result<(ServerConfig, ClientConfig), Box<dyn std::error::Error>> {
    let versions = &[&rustls::version::TLS13];
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider)).build()?;
    let mut server = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.clone(), key.clone_key())?;
    server.alpn_protocols = vec![PROTOCOL.to_vec()];
    let mut client = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)?
        .with_root_certificates(Arc::clone(roots))
        .with_client_auth_cert(chain, key)?;
    client.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok((server, client))
}
