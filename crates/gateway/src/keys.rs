//! Ed25519 keys that name sites: a site *is* its public key, as in `WireGuard`, and keys travel as the
//! 44 characters of base64 (RFC 4648 §4) that fit one line of a configuration file.
//!
//! A [`SecretKey`] is the 32-byte seed of RFC 8032 §5.1.5. It is wiped when dropped and never printed; text
//! that held one on its way in or out is wiped as well.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use aws_lc_rs::rand;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::{Zeroize as _, Zeroizing};

/// Octets of a key of either kind.
pub const KEY_BYTES: usize = 32;
/// Characters of a key of either kind as text.
pub const KEY_CHARS: usize = 44;
/// More than any key file holds; what is longer is some other file.
const KEY_FILE_LIMIT_BYTES: u64 = 4096;

/// What is wrong with a key. Never carries the key's text, which may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text has another length than a key has.
    #[error("a key is {KEY_CHARS} characters of base64, this has {have}")]
    Length {
        /// Characters found, without surrounding white space.
        have: usize,
    },
    /// The text has the right length but is no base64.
    #[error("a key is {KEY_CHARS} characters of base64 (A-Z a-z 0-9 + / and one = at the end), this is not")]
    Base64,
    /// The octets are no Ed25519 seed the cryptographic library accepts.
    #[error("the cryptographic library refuses the key")]
    Refused,
    /// The system gave no random octets.
    #[error("the system gave no random octets")]
    NoRandomness,
    /// The key file cannot be read.
    #[error("key file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The key file holds something else than a key.
    #[error("key file {}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with its content.
        problem: Box<KeyError>,
    },
    /// The key file is far longer than a key.
    #[error("it is too long to hold a key")]
    TooLong,
    /// A peer has been given this site's private key as its public key.
    #[error(
        "peer {peer} has this site's private key in place of a public key; allowed: the 44 characters `trunkline \
         pubkey` prints at the peer. If the file was shown to anybody, make a new key"
    )]
    PrivateKeyAsPeer {
        /// The peer's name.
        peer: String,
    },
    /// A peer has been given this site's own key.
    #[error("peer {peer} has this site's own public key {key}")]
    OwnKeyAsPeer {
        /// The peer's name.
        peer: String,
        /// The key both have.
        key: PublicKey,
    },
}

/// The public half of a site's key: its identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_BYTES]);

impl PublicKey {
    /// The key of these octets (RFC 8032 §5.1.2 encoding).
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The key's octets.
    pub const fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        decode(text).map(|bytes| Self(*bytes))
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The secret half of a site's key.
pub struct SecretKey {
    seed: Zeroizing<[u8; KEY_BYTES]>,
    public: PublicKey,
}

impl SecretKey {
    /// A new key from the system's randomness.
    ///
    /// # Errors
    /// [`KeyError::NoRandomness`] when the system has none to give.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = Zeroizing::new([0; KEY_BYTES]);
        rand::fill(seed.as_mut_slice()).map_err(|_| KeyError::NoRandomness)?;
        Self::from_seed(seed)
    }

    /// The key of this seed.
    ///
    /// # Errors
    /// [`KeyError::Refused`] when the cryptographic library does not take it.
    pub fn from_seed(seed: Zeroizing<[u8; KEY_BYTES]>) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_slice()).map_err(|_| KeyError::Refused)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| KeyError::Refused)?;
        Ok(Self { seed, public: PublicKey(public) })
    }

    /// Reads a key from a file that holds its base64 and nothing else but white space.
    ///
    /// A file that others than its owner can read is used all the same: the operator may have reasons (a secret
    /// mounted by an orchestrator), and refusing would not unread it. [`exposed`] finds what to warn of.
    ///
    /// # Errors
    /// [`KeyError::Read`] or [`KeyError::File`], naming the file.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let read = |source| KeyError::Read { path: path.to_owned(), source };
        let wrong = |problem| KeyError::File { path: path.to_owned(), problem: Box::new(problem) };
        let metadata = fs::metadata(path).map_err(read)?;
        if metadata.len() > KEY_FILE_LIMIT_BYTES {
            return Err(wrong(KeyError::TooLong));
        }
        let content = Zeroizing::new(fs::read(path).map_err(read)?);
        let text = std::str::from_utf8(&content).map_err(|_| wrong(KeyError::Base64))?;
        text.parse().map_err(wrong)
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The key's text for `genkey`; wiped when dropped.
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.seed.as_slice()))
    }

    /// Whether what was given as somebody's public key is this key's secret.
    pub(crate) fn is_secret_half(&self, key: &PublicKey) -> bool {
        key.0 == *self.seed
    }

    /// The seed, for [`crate::handshake`].
    pub(crate) fn seed(&self) -> &[u8; KEY_BYTES] {
        &self.seed
    }
}

impl FromStr for SecretKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::from_seed(decode(text)?)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// The mode of a key file that others than its owner can read, write or run.
pub fn exposed(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    is_exposed(mode).then_some(mode)
}

/// Whether a file of this mode can be read, written or run by others than its owner.
fn is_exposed(mode: u32) -> bool {
    mode & 0o077 != 0
}

/// The octets of a key's text, surrounding white space aside.
fn decode(text: &str) -> Result<Zeroizing<[u8; KEY_BYTES]>, KeyError> {
    let text = text.trim_ascii();
    if text.len() != KEY_CHARS {
        return Err(KeyError::Length { have: text.chars().count() });
    }
    // `decode_slice` wants room for the padding it then does not write.
    let mut room = Zeroizing::new([0; KEY_BYTES + 1]);
    let written = STANDARD.decode_slice(text, room.as_mut_slice()).map_err(|_| KeyError::Base64)?;
    if written != KEY_BYTES {
        return Err(KeyError::Base64);
    }
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    key.copy_from_slice(&room[..KEY_BYTES]);
    room.zeroize();
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8032 §7.1, test 1.
    const SEED: [u8; 32] = [
        0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44,
        0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
    ];
    const PUBLIC: [u8; 32] = [
        0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a, 0x0e,
        0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a,
    ];

    #[test]
    fn the_public_half_is_that_of_rfc_8032() {
        let key = SecretKey::from_seed(Zeroizing::new(SEED)).unwrap();
        assert_eq!(key.public().as_bytes(), &PUBLIC);
    }

    #[test]
    fn text_returns_to_the_same_keys() {
        let key = SecretKey::generate().unwrap();
        let text = key.to_base64();
        assert_eq!(text.len(), KEY_CHARS);
        let again: SecretKey = format!("  {}\n", *text).parse().unwrap();
        assert_eq!(again.seed(), key.seed());
        let public: PublicKey = key.public().to_string().parse().unwrap();
        assert_eq!(public, key.public());
    }

    #[test]
    fn serde_uses_base64() {
        let public = PublicKey::from_bytes(PUBLIC);
        let json = serde_json::to_string(&public).unwrap();
        assert_eq!(json, format!("\"{public}\""));
        assert_eq!(serde_json::from_str::<PublicKey>(&json).unwrap(), public);
        assert!(serde_json::from_str::<PublicKey>("\"short\"").is_err());
    }

    #[test]
    fn two_generated_keys_differ() {
        assert_ne!(SecretKey::generate().unwrap().public(), SecretKey::generate().unwrap().public());
    }

    #[test]
    fn errors_say_what_is_wrong_and_not_the_secret() {
        let wrong_length = "hunter2".parse::<SecretKey>().unwrap_err();
        assert!(matches!(wrong_length, KeyError::Length { have: 7 }), "{wrong_length}");
        let secret = "!!!!secret!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!";
        assert_eq!(secret.len(), KEY_CHARS);
        let no_base64 = secret.parse::<SecretKey>().unwrap_err();
        assert!(matches!(no_base64, KeyError::Base64), "{no_base64}");
        for error in [wrong_length, no_base64] {
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("secret") && !shown.contains("hunter"), "{shown}");
        }
    }

    #[test]
    fn base64_of_33_or_31_octets_is_refused() {
        // 44 characters without padding are 33 octets; with two padding characters, 31.
        assert!(matches!("A".repeat(44).parse::<PublicKey>(), Err(KeyError::Base64)));
        assert!(matches!(format!("{}==", "A".repeat(42)).parse::<PublicKey>(), Err(KeyError::Base64)));
    }

    #[test]
    fn debug_hides_the_seed() {
        let key = SecretKey::from_seed(Zeroizing::new(SEED)).unwrap();
        let shown = format!("{key:?}");
        assert!(shown.contains(&key.public().to_string()));
        assert!(!shown.contains(key.to_base64().as_str()) && !shown.contains("157, 97"), "{shown}");
    }

    #[test]
    fn only_owner_bits_are_private() {
        assert!(!is_exposed(0o600) && !is_exposed(0o400));
        assert!(is_exposed(0o640) && is_exposed(0o604) && is_exposed(0o644));
    }

    #[test]
    fn loading_names_the_file() {
        let directory = std::env::temp_dir().join(format!("trunkline-keys-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("a.key");
        let key = SecretKey::generate().unwrap();
        fs::write(&path, format!("{}\n", *key.to_base64())).unwrap();
        assert_eq!(SecretKey::load(&path).unwrap().public(), key.public());
        fs::write(&path, "not a key").unwrap();
        let error = SecretKey::load(&path).unwrap_err().to_string();
        assert!(error.contains("a.key") && error.contains('9'), "{error}");
        fs::write(&path, [b'x'; 5000]).unwrap();
        assert!(SecretKey::load(&path).unwrap_err().to_string().contains("too long"));
        let missing = SecretKey::load(&directory.join("none.key")).unwrap_err();
        assert!(matches!(missing, KeyError::Read { .. }), "{missing}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
