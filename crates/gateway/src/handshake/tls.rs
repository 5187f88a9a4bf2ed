//! TLS set up for two sites that know each other's Ed25519 keys.
//!
//! TLS 1.3 only, raw public keys (RFC 7250) both ways, so that there are no certificates, names or clocks to
//! get wrong; the hybrid key exchange X25519MLKEM768 first; no tickets, resumption or early data, so that
//! every connection proves both keys anew.

use std::fmt;
use std::sync::Arc;

use ::aws_lc_rs::hmac;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    PeerIncompatible, ServerConfig, SignatureScheme, SupportedCipherSuite,
};
use trunkline_trunk::Delivery;
use zeroize::Zeroize as _;

use super::{Admit, Identity};
use crate::keys::{KEY_BYTES, KEY_CHARS, PublicKey, SecretKey};
use crate::record::Cipher;

/// The name of this protocol over QUIC, by how the lane delivers: version 2 of the greetings and frames.
pub(super) const fn quic_protocol(delivery: Delivery) -> &'static [u8] {
    match delivery {
        Delivery::Datagram => b"trunkline-quic/2",
        Delivery::Reliable => b"trunkline-quic-streams/2",
    }
}

/// How a lane delivers whose dialer has chosen the protocol of this name.
pub(crate) fn quic_delivery(protocol: &[u8]) -> Option<Delivery> {
    [Delivery::Datagram, Delivery::Reliable].into_iter().find(|it| quic_protocol(*it) == protocol)
}

/// The names of this protocol inside TLS (RFC 7301): one for each version up to this one, the highest first.
pub(super) fn protocols(version: u16) -> Vec<Vec<u8>> {
    (1..=version).rev().map(|version| format!("trunkline/{version}").into_bytes()).collect()
}

/// The version that a protocol's name stands for.
pub(super) fn version(protocol: &[u8]) -> Option<u16> {
    std::str::from_utf8(protocol).ok()?.strip_prefix("trunkline/")?.parse().ok()
}

/// The bytes before an Ed25519 key in a `SubjectPublicKeyInfo` (RFC 8410 §4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// The bytes before an Ed25519 seed in a PKCS #8 document (RFC 8410 §7).
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// The cipher suite of a cipher.
pub(super) fn suite(cipher: Cipher) -> SupportedCipherSuite {
    match cipher {
        Cipher::Aes128Gcm => cipher_suite::TLS13_AES_128_GCM_SHA256,
        Cipher::Aes256Gcm => cipher_suite::TLS13_AES_256_GCM_SHA384,
        Cipher::ChaCha20Poly1305 => cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    }
}

/// The algorithms, in the order of preference for this processor.
pub(super) fn provider() -> CryptoProvider {
    let mut cipher_suites =
        [Cipher::Aes256Gcm, Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305].map(suite).to_vec();
    if !has_aes_instructions() {
        cipher_suites.rotate_right(1);
    }
    CryptoProvider {
        cipher_suites,
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519],
        ..aws_lc_rs::default_provider()
    }
}

fn has_aes_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// The key with which TLS signs, and which it presents to the peer.
pub(super) fn certified_key(secret: &SecretKey) -> Result<CertifiedKey, Error> {
    let mut document = [&PKCS8_PREFIX[..], secret.seed()].concat();
    let signer = aws_lc_rs::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(document.as_slice()));
    document.zeroize();
    let shown = [&SPKI_PREFIX[..], secret.public().as_bytes()].concat();
    Ok(CertifiedKey::new(vec![CertificateDer::from(shown)], signer?))
}

/// A key that only the holder of this one can make, and that tells nothing of it.
pub(super) fn reset_key(secret: &SecretKey) -> hmac::Key {
    let seed = hmac::Key::new(hmac::HMAC_SHA256, secret.seed());
    hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&seed, b"trunkline stateless reset").as_ref())
}

/// The Ed25519 key that a peer presents in place of a certificate.
pub(crate) fn presented_key(certificate: &CertificateDer<'_>) -> Option<PublicKey> {
    let key: [u8; KEY_BYTES] = certificate.as_ref().strip_prefix(&SPKI_PREFIX)?.try_into().ok()?;
    Some(PublicKey::from_bytes(key))
}

/// The TLS configuration of an acceptor.
pub(super) fn server_config(identity: &Identity, admit: Admit) -> Result<ServerConfig, Error> {
    let Identity { provider, key, version, .. } = identity;
    let verifier = CallerVerifier { admit, algorithms: provider.signature_verification_algorithms };
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(key))));
    config.alpn_protocols = protocols(*version);
    // The dialer's order of ciphers counts, unless this processor is slow at AES.
    config.ignore_client_order = !has_aes_instructions();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    config.enable_secret_extraction = true;
    Ok(config)
}

/// The TLS configuration of a dialer.
pub(super) fn client_config(identity: &Identity, peer: PublicKey) -> Result<ClientConfig, Error> {
    let Identity { provider, key, version, .. } = identity;
    let verifier = PeerVerifier { peer, algorithms: provider.signature_verification_algorithms };
    let mut config = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(key))));
    config.alpn_protocols = protocols(*version);
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    config.enable_secret_extraction = true;
    Ok(config)
}

/// The server name that the library requires. It is not sent.
pub(super) fn server_name() -> ServerName<'static> {
    ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into())
}

/// Why a verifier rejected a key; it travels inside a TLS error.
#[derive(Clone, Copy, thiserror::Error)]
pub(super) enum KeyRejection {
    /// The site does not admit the caller's key.
    #[error("no peer has the key {0}")]
    Unknown(PublicKey),
    /// The dialled host has another key than the peer.
    #[error("expected the peer with key {expected}, found {found}")]
    Wrong { expected: PublicKey, found: PublicKey },
}

/// The library shows errors of ours so, and over QUIC that text is all that it hands on.
impl fmt::Debug for KeyRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl KeyRejection {
    /// The rejection in the text of a TLS error, if there is one.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let key = |before: &str| text.split_once(before)?.1.get(..KEY_CHARS)?.parse::<PublicKey>().ok();
        let wrong =
            || Some(Self::Wrong { expected: key("expected the peer with key ")?, found: key(", found ")? });
        key("no peer has the key ").map(Self::Unknown).or_else(wrong)
    }

    /// The rejection inside a TLS error, if there is one.
    pub(super) fn from_tls(error: &Error) -> Option<Self> {
        match error {
            Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) => {
                inner.downcast_ref::<Self>().copied()
            }
            _ => None,
        }
    }
}

impl From<KeyRejection> for Error {
    fn from(rejection: KeyRejection) -> Self {
        CertificateError::Other(OtherError(Arc::new(rejection))).into()
    }
}

/// Accepts callers whose key the site admits.
struct CallerVerifier {
    admit: Admit,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for CallerVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerVerifier").finish_non_exhaustive()
    }
}

impl ClientCertVerifier for CallerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let key = presented_key(end_entity).ok_or(CertificateError::BadEncoding)?;
        if (self.admit)(&key) {
            Ok(ClientCertVerified::assertion())
        } else {
            Err(KeyRejection::Unknown(key).into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Verifies that the other end has the private key of the key that it presents, for both roles.
fn verify_signature(
    message: &[u8],
    shown: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
    verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
}

/// Accepts only the key of the dialled peer.
#[derive(Debug)]
struct PeerVerifier {
    peer: PublicKey,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = presented_key(end_entity).ok_or(CertificateError::BadEncoding)?;
        if found == self.peer {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(KeyRejection::Wrong { expected: self.peer, found }.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
