//! What a controller is known by: its network's name, its URL, the key that signs configurations, and the certificate of its HTTPS.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::Uri;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use trunkline_sites::{ControllerInvitation, Signer, WireError, secret};

use crate::store::{Store, StoreError};

/// Settings of the store.
const NETWORK: &str = "network";
const URL: &str = "url";
const SIGNING_KEY: &str = "signing_key";
const CERTIFICATE: &str = "certificate";
const CERTIFICATE_KEY: &str = "certificate_key";

/// Why an identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nobody has said where the controller is reached.
    #[error("no URL is known; allowed: --url https://HOST[:PORT], by which gateways reach this controller")]
    NoUrl,
    /// The URL is none.
    #[error("{0:?} is no URL of a controller; allowed: https://HOST[:PORT]")]
    Url(String),
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A certificate or its key is none.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    /// The key of the store is none, or there is no randomness.
    #[error("the signing key cannot be used: {0}")]
    Key(String),
}

impl From<WireError> for IdentityError {
    fn from(error: WireError) -> Self {
        IdentityError::Key(error.to_string())
    }
}

/// What is said on the command line; what is not is as it was before.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewIdentity<'a> {
    /// By what URL gateways reach the controller.
    pub url: Option<&'a str>,
    /// The files of a certificate chain and its key, in PEM; the last certificate is the one that gateways trust.
    pub certificate: Option<(&'a Path, &'a Path)>,
}

/// What a controller is known by.
pub struct Identity {
    /// A random name.
    pub network: String,
    /// Where it is reached.
    pub url: String,
    signing_key: String,
    certificate: String,
    certificate_key: String,
}

impl Identity {
    /// The identity that a store has, with what is new of it; the first time, one is made.
    pub fn load(store: &mut Store, given: &NewIdentity<'_>) -> Result<Self, IdentityError> {
        let known_url = store.setting(URL)?;
        let url = match given.url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => known_url.clone().ok_or(IdentityError::NoUrl)?,
        };
        let host = host(&url)?;
        // Gateways trust the certificate that they know: it changes with the host alone.
        let is_same_host = known_url.is_some_and(|known| self::host(&known).is_ok_and(|known| known == host));
        let network = store.setting(NETWORK)?.map_or_else(secret, Ok)?;
        let signing_key = store.setting(SIGNING_KEY)?.map_or_else(secret, Ok)?;
        let known_pair = store.setting(CERTIFICATE)?.zip(store.setting(CERTIFICATE_KEY)?);
        let pair = match (given.certificate, known_pair) {
            (Some((certificate, key)), _) => (read(certificate)?, read(key)?),
            (None, Some(pair)) if is_same_host => pair,
            (None, _) => make(&host)?,
        };
        let (certificate, certificate_key) = pair;
        let identity = Identity { network, url, signing_key, certificate, certificate_key };
        // What cannot be used is not kept.
        let _ = (identity.tls()?, identity.signer()?);
        let settings = [
            (NETWORK, identity.network.as_str()),
            (URL, identity.url.as_str()),
            (SIGNING_KEY, identity.signing_key.as_str()),
            (CERTIFICATE, identity.certificate.as_str()),
            (CERTIFICATE_KEY, identity.certificate_key.as_str()),
        ];
        let mut new = Vec::new();
        for (name, value) in settings {
            if store.setting(name)?.as_deref() != Some(value) {
                new.push((name, value));
            }
        }
        // Who only asks writes nothing.
        if !new.is_empty() {
            store.set(&new)?;
        }
        Ok(identity)
    }

    /// The identity that a store has.
    pub fn known(store: &mut Store) -> Result<Self, IdentityError> {
        Identity::load(store, &NewIdentity::default())
    }

    /// The chain of certificates that it shows, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// What signs configurations.
    pub fn signer(&self) -> Result<Signer, IdentityError> {
        Signer::new(&self.signing_key).ok_or_else(|| IdentityError::Key("it has another length".to_owned()))
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect();
        match chain {
            Ok(chain) if chain.is_empty() => {
                Err(IdentityError::Certificate("the file has no certificate".to_owned()))
            }
            Ok(chain) => Ok(chain),
            Err(error) => Err(IdentityError::Certificate(error.to_string())),
        }
    }

    /// What TLS needs.
    pub(super) fn tls(&self) -> Result<Arc<ServerConfig>, IdentityError> {
        let failed = |error: rustls::Error| IdentityError::Certificate(error.to_string());
        let key = PrivateKeyDer::from_pem_slice(self.certificate_key.as_bytes())
            .map_err(|error| IdentityError::Certificate(format!("its key: {error}")))?;
        trunkline_pages::tls(self.chain()?, key).map_err(failed)
    }

    /// An invitation of a site, with a new secret.
    pub fn invitation(&self, site: &str, expires_at: u64) -> Result<ControllerInvitation, IdentityError> {
        let chain = self.chain()?;
        let trusted = chain.last().map_or(&[][..], |certificate| certificate.as_ref());
        Ok(ControllerInvitation {
            url: self.url.clone(),
            certificate: STANDARD.encode(trusted),
            key: self.signer()?.public(),
            site: site.to_owned(),
            secret: secret()?,
            expires_at,
        })
    }
}

fn read(path: &Path) -> Result<String, IdentityError> {
    fs::read_to_string(path).map_err(|error| IdentityError::File { path: path.to_owned(), error })
}

/// The host of a URL.
fn host(url: &str) -> Result<String, IdentityError> {
    let uri = url.parse::<Uri>().ok().filter(|uri| uri.scheme_str() == Some("https") && uri.path() == "/");
    let host = uri.as_ref().and_then(Uri::host).map(|host| host.trim_matches(['[', ']']).to_owned());
    host.filter(|host| !host.is_empty()).ok_or_else(|| IdentityError::Url(url.to_owned()))
}

/// A certificate that a controller makes for itself, and its key. Gateways trust this one alone, so it need not end soon.
fn make(host: &str) -> Result<(String, String), IdentityError> {
    let failed = |error: rcgen::Error| IdentityError::Certificate(error.to_string());
    let key = KeyPair::generate().map_err(failed)?;
    let params = CertificateParams::new(vec![host.to_owned()]).map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok((certificate.pem(), key.serialize_pem()))
}
