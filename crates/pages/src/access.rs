//! Who may see what is served.

use std::fs;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::tls::tls;

/// Lengths of a token.
const TOKEN: std::ops::RangeInclusive<usize> = 16..=256;
/// The longest file that is read, bytes.
const FILE: u64 = 1 << 20;

/// Where pages are served, and to whom.
#[derive(Debug, Clone)]
pub struct Access {
    /// Where.
    pub listen: SocketAddr,
    /// Files in PEM: the chain of certificates, and the private key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// A file with the token.
    pub token: Option<PathBuf>,
}

/// Why pages are not served.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Others could see them.
    #[error(
        "{listen} can be reached from other machines: that needs {missing}; \
         or listen at 127.0.0.1, and come by `ssh -L {port}:127.0.0.1:{port} HOST`",
        port = .listen.port()
    )]
    Open {
        /// Where they would be served.
        listen: SocketAddr,
        /// What is missing.
        missing: &'static str,
    },
    /// A file cannot be used.
    #[error("{}: {problem}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// It cannot listen there.
    #[error("cannot listen at {listen}: {error}")]
    Listen {
        /// Where.
        listen: SocketAddr,
        /// Why.
        error: io::Error,
    },
}

impl AccessError {
    fn file(path: &Path, problem: &impl ToString) -> Self {
        AccessError::File { path: path.to_owned(), problem: problem.to_string() }
    }
}

impl Access {
    /// TLS and the token, if there are any.
    pub(crate) fn read(&self) -> Result<(Option<Arc<ServerConfig>>, Option<Token>), AccessError> {
        if !self.listen.ip().is_loopback() {
            let missing = match (&self.certificate, &self.token) {
                (Some(_), Some(_)) => None,
                (None, Some(_)) => Some("TLS: --certificate and --key"),
                (Some(_), None) => Some("a token: --token-file"),
                (None, None) => Some("TLS and a token: --certificate, --key and --token-file"),
            };
            if let Some(missing) = missing {
                return Err(AccessError::Open { listen: self.listen, missing });
            }
        }
        let tls = match &self.certificate {
            Some((certificate, key)) => Some(read_certificate(certificate, key)?),
            None => None,
        };
        Ok((tls, self.token.as_deref().map(Token::read).transpose()?))
    }
}

/// The contents of a file, which ends.
fn read(path: &Path) -> Result<Vec<u8>, AccessError> {
    let mut contents = Vec::new();
    let whole = fs::File::open(path).and_then(|file| file.take(FILE + 1).read_to_end(&mut contents));
    match whole.map_err(|error| AccessError::file(path, &error))? as u64 {
        0..=FILE => Ok(contents),
        _ => Err(AccessError::file(path, &format!("longer than {FILE} bytes"))),
    }
}

fn read_certificate(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, AccessError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(certificate)?).collect();
    let chain = chain.map_err(|error| AccessError::file(certificate, &error))?;
    if chain.is_empty() {
        return Err(AccessError::file(certificate, &"it has no certificate in PEM"));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|error| AccessError::file(key, &format!("no private key in PEM: {error}")))?;
    tls(chain, private).map_err(|error| AccessError::file(certificate, &error))
}

/// What a viewer has to know.
#[derive(Clone)]
pub(crate) struct Token(Vec<u8>);

impl Token {
    fn read(path: &Path) -> Result<Self, AccessError> {
        let contents = read(path)?;
        let mode = fs::metadata(path).map_err(|error| AccessError::file(path, &error))?.permissions().mode();
        if mode & 0o077 != 0 {
            let problem = format!("others may read it (mode {:o}); allowed: 600", mode & 0o777);
            return Err(AccessError::file(path, &problem));
        }
        let token = contents.trim_ascii_end();
        if TOKEN.contains(&token.len()) && token.iter().all(u8::is_ascii_graphic) {
            return Ok(Token(token.to_vec()));
        }
        let problem = format!(
            "no token; allowed: one line of {} to {} visible ASCII characters, as `trunkline genkey` prints",
            TOKEN.start(),
            TOKEN.end()
        );
        Err(AccessError::file(path, &problem))
    }

    /// Whether who asks knows it.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        Secret::of(headers).is_some_and(|secret| verify_slices_are_equal(&secret.bytes, &self.0).is_ok())
    }
}

/// What somebody who asks shows: a password of any user (RFC 7617), for which a browser asks, or a bearer's token (RFC 6750).
pub struct Secret {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether it is a password, which a browser adds by itself.
    pub is_password: bool,
}

impl Secret {
    /// That of a request.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let (scheme, credentials) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return Some(Secret { bytes: credentials.as_bytes().to_vec(), is_password: false });
        }
        let pair = STANDARD.decode(credentials).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
        let colon = pair.iter().position(|byte| *byte == b':')?;
        Some(Secret { bytes: pair[colon + 1..].to_vec(), is_password: true })
    }
}

/// Whether a request names its host by an address, or as this machine. Where there is no token, a name may be one that somebody's page has
/// led here (DNS rebinding), and that page would read the answer.
pub(crate) fn is_at_home(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|value| value.to_str().ok()) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).expect("a value"))])
    }

    #[test]
    fn a_password_or_a_bearers_token_is_known() {
        let token = Token(b"0123456789abcdef".to_vec());
        let known = |value: &str| token.is_known(&headers(header::AUTHORIZATION, value));
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        for good in [
            "Bearer 0123456789abcdef",
            "bearer 0123456789abcdef",
            &basic("anybody:0123456789abcdef"),
            &basic(":0123456789abcdef"),
        ] {
            assert!(known(good), "{good}");
        }
        for bad in [
            "",
            "Bearer",
            "Bearer 0123456789abcde",
            "Basic !",
            "Digest 0123456789abcdef",
            &basic("0123456789abcdef"),
            &basic("a:"),
            "0123456789abcdef",
        ] {
            assert!(!known(bad), "{bad}");
        }
        assert!(!token.is_known(&HeaderMap::new()));
    }

    #[test]
    fn a_name_that_somebody_has_led_here_is_not_at_home() {
        let home = |host: &str| is_at_home(&headers(header::HOST, host));
        for good in ["127.0.0.1:8080", "127.0.0.1", "localhost:8080", "LOCALHOST", "[::1]:8080", "[::1]"] {
            assert!(home(good), "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example:8080",
            "",
            "[evil]",
            "localhost.evil",
        ] {
            assert!(!home(bad), "{bad}");
        }
        assert!(!is_at_home(&HeaderMap::new()));
    }
}
