//! Ed25519 keys. A public key identifies a site, as in `WireGuard`. The text form of a key is 44 characters of base64
//! (RFC 4648 §4), which fit on one line of a configuration file.
//!
//! A [`SecretKey`] is the 32-byte seed of RFC 8032 §5.1.5. Dropping it wipes it, and no function prints it. Buffers of its
//! text form are wiped too.

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
use trunkline_schema::read_file;
use zeroize::{Zeroize as _, Zeroizing};

/// The length of a key, public or secret.
pub const KEY_BYTES: usize = 32;
/// The length of a key's text form, in characters.
pub const KEY_CHARS: usize = 44;
/// The maximum size of a key file. A longer file is no key file.
pub const KEY_FILE_LIMIT_BYTES: u64 = 4096;

/// An error in a key. It never contains the key's text, which may be secret.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text does not have the length of a key.
    #[error("{}a key is {KEY_CHARS} characters of base64, this has {have}", if *have == 0 { "is empty: " } else { "" })]
    Length {
        /// Characters found, without surrounding white space.
        have: usize,
    },
    /// The text has the right length and is not base64.
    #[error("a key is {KEY_CHARS} characters of base64 (A-Z a-z 0-9 + / and one = at the end), this is not")]
    Base64,
    /// The cryptographic library does not accept the bytes as an Ed25519 seed.
    #[error("the cryptographic library refuses the key")]
    Refused,
    /// The system has no random bytes.
    #[error("the system has no random bytes")]
    NoRandomness,
    /// The key file cannot be read as text.
    #[error("key file {}: {problem}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// The key file does not contain a key.
    #[error("key file {}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error in its content.
        problem: Box<KeyError>,
    },
    /// The public key of a peer is this site's private key.
    #[error(
        "peer {peer} has this site's private key in place of a public key; allowed: the 44 characters `trunkline \
         pubkey` prints at the peer. If anybody else has seen the file, generate a new key"
    )]
    PrivateKeyAsPeer {
        /// The peer's name.
        peer: String,
    },
    /// The public key of a peer is this site's own.
    #[error("peer {peer} has this site's own public key {key}")]
    OwnKeyAsPeer {
        /// The peer's name.
        peer: String,
        /// The key.
        key: PublicKey,
    },
}

/// A site's public key, which identifies it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_BYTES]);

impl PublicKey {
    /// The key with this encoding (RFC 8032 §5.1.2).
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The key's encoding.
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

/// A site's private key.
pub struct SecretKey {
    seed: Zeroizing<[u8; KEY_BYTES]>,
    public: PublicKey,
}

impl SecretKey {
    /// Generates a key from the system's random bytes.
    ///
    /// # Errors
    /// [`KeyError::NoRandomness`] if the system has none.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = Zeroizing::new([0; KEY_BYTES]);
        rand::fill(seed.as_mut_slice()).map_err(|_| KeyError::NoRandomness)?;
        Self::from_seed(seed)
    }

    /// The key with this seed.
    ///
    /// # Errors
    /// [`KeyError::Refused`] if the cryptographic library does not accept it.
    pub fn from_seed(seed: Zeroizing<[u8; KEY_BYTES]>) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_slice()).map_err(|_| KeyError::Refused)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| KeyError::Refused)?;
        Ok(Self { seed, public: PublicKey(public) })
    }

    /// Reads a key from a file that contains its base64 form and white space.
    ///
    /// It accepts a file that users other than its owner can read: an orchestrator may mount secrets like that, and an error
    /// would come too late to protect the key. [`exposed`] finds such files, for a warning.
    ///
    /// # Errors
    /// [`KeyError::Read`] or [`KeyError::File`], naming the file.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let unreadable = |problem| KeyError::Read { path: path.to_owned(), problem };
        let text = Zeroizing::new(read_file(path, KEY_FILE_LIMIT_BYTES).map_err(unreadable)?);
        text.parse().map_err(|problem| KeyError::File { path: path.to_owned(), problem: Box::new(problem) })
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The key's text form for `genkey`; dropping it wipes it.
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.seed.as_slice()))
    }

    /// Whether `key`, given as a public key, is in truth this private key.
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

/// The mode of a key file, if users other than its owner can read, write or execute it.
pub fn exposed(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    is_exposed(mode).then_some(mode)
}

/// Whether users other than the owner can read, write or execute a file with this mode.
fn is_exposed(mode: u32) -> bool {
    mode & 0o077 != 0
}

/// Decodes a key's text form, without surrounding white space.
fn decode(text: &str) -> Result<Zeroizing<[u8; KEY_BYTES]>, KeyError> {
    let text = text.trim_ascii();
    if text.len() != KEY_CHARS {
        return Err(KeyError::Length { have: text.chars().count() });
    }
    // `decode_slice` requires room for the padding too, although it does not write it.
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
    fn base64_of_33_or_31_bytes_is_refused() {
        // 44 characters without padding are 33 bytes; with two padding characters, 31.
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
        assert!(
            SecretKey::load(&path)
                .unwrap_err()
                .to_string()
                .contains("is too long; allowed: up to 4096 bytes")
        );
        let marked = [b"\xef\xbb\xbf", key.to_base64().as_bytes(), b"\r\n"].concat();
        fs::write(&path, marked).unwrap();
        assert_eq!(SecretKey::load(&path).unwrap().public(), key.public(), "a byte order mark, and CRLF");
        let utf16: Vec<u8> = key.to_base64().encode_utf16().flat_map(u16::to_le_bytes).collect();
        fs::write(&path, utf16).unwrap();
        let error = SecretKey::load(&path).unwrap_err().to_string();
        assert!(error.contains("a.key: is in UTF-16"), "{error}");
        let missing = SecretKey::load(&directory.join("none.key")).unwrap_err();
        assert!(matches!(missing, KeyError::Read { .. }), "{missing}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
