//! The text of an invitation.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::{digest, hkdf, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ipnet::IpNet;
use zeroize::Zeroizing;

use crate::config::is_site_name;
use crate::handshake::{Cursor, FieldError, put_network, put_prefixes, put_text};
use crate::keys::{KEY_BYTES, KeyError, PublicKey, SecretKey};

/// The maximum number of endpoints in an invitation.
pub const MAX_ENDPOINTS: usize = 8;
/// What an invitation begins with; the digit is the version of its fields.
const BEGIN: &str = "tl1_";
const SECRET_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 4;
const SALT: &[u8] = b"trunkline invitation";

/// What an invitation says of the site that invites, and of the tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// When the invitation expires, in seconds since 1970 (UTC).
    pub expires_s: u32,
    /// The inviting site's public key.
    pub site: PublicKey,
    /// The inviting site's name.
    pub name: String,
    /// The number of its shards (`tun.queues`), which both sites share.
    pub queues: u8,
    /// The word of its classes (`classes`), which both sites share; empty for the default.
    pub classes: String,
    /// The address of the new site in the tunnel, with the length of the tunnel's prefix.
    pub address: IpNet,
    /// Where the inviting site is dialled: hosts with ports, at most [`MAX_ENDPOINTS`].
    pub endpoints: Vec<String>,
    /// What lies behind the inviting site, its address in the tunnel included.
    pub prefixes: Vec<IpNet>,
}

/// What a site gives to another, so that it can join: one line of text.
#[derive(Clone, PartialEq, Eq)]
pub struct Invitation {
    /// What it says.
    pub terms: Terms,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
}

/// Why a text is no invitation. It never contains the text, which is secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvitationError {
    /// It does not begin like one.
    #[error(
        "no invitation; allowed: the line that `trunkline init` or `trunkline invite` prints, which begins with {BEGIN}"
    )]
    Other,
    /// It is not what was printed.
    #[error("the invitation is damaged: characters are missing or changed; copy the whole line")]
    Damaged,
    /// It is what was printed, with fields that no invitation of this version has.
    #[error("the invitation was made by another version of trunkline: {0}")]
    Fields(#[from] FieldError),
}

impl Invitation {
    /// An invitation of these terms with a new secret.
    ///
    /// # Errors
    /// [`KeyError::NoRandomness`].
    pub fn new(terms: Terms) -> Result<Self, KeyError> {
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        rand::fill(secret.as_mut_slice()).map_err(|_| KeyError::NoRandomness)?;
        Ok(Self { terms, secret })
    }

    /// The key by which the site that joins authenticates itself: a function of the secret and of all terms.
    ///
    /// # Errors
    /// [`KeyError::Refused`] if the cryptographic library fails.
    pub fn key(&self) -> Result<SecretKey, KeyError> {
        let terms = self.terms.encode();
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(self.secret.as_slice());
        let mut seed = Zeroizing::new([0; KEY_BYTES]);
        let info = [terms.as_slice()];
        let expanded = secret.expand(&info, hkdf::HKDF_SHA256).map_err(|_| KeyError::Refused)?;
        expanded.fill(seed.as_mut_slice()).map_err(|_| KeyError::Refused)?;
        SecretKey::from_seed(seed)
    }

    /// The line of text; dropping it wipes it.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(self.terms.encode());
        bytes.extend(self.secret.iter());
        let checksum = checksum(&bytes);
        bytes.extend(checksum);
        Zeroizing::new(format!("{BEGIN}{}", *Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice()))))
    }
}

impl FromStr for Invitation {
    type Err = InvitationError;

    fn from_str(text: &str) -> Result<Self, InvitationError> {
        // Terminals and mail break long lines.
        let text: Zeroizing<String> = Zeroizing::new(text.split_ascii_whitespace().collect());
        let encoded = text.strip_prefix(BEGIN).ok_or(InvitationError::Other)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| InvitationError::Damaged)?;
        let bytes = Zeroizing::new(bytes);
        let (rest, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(InvitationError::Damaged)?;
        if checksum(rest) != *sum {
            return Err(InvitationError::Damaged);
        }
        let mut cursor = Cursor::new(rest);
        let terms = Terms::decode(&mut cursor)?;
        let secret = Zeroizing::new(cursor.array()?);
        cursor.end()?;
        Ok(Self { terms, secret })
    }
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invitation").field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl Terms {
    fn encode(&self) -> Vec<u8> {
        debug_assert!(self.endpoints.len() <= MAX_ENDPOINTS);
        let mut bytes = self.expires_s.to_be_bytes().to_vec();
        bytes.extend(self.site.as_bytes());
        put_text(&mut bytes, &self.name);
        bytes.push(self.queues);
        put_text(&mut bytes, &self.classes);
        put_network(&mut bytes, &self.address);
        bytes.push(self.endpoints.len() as u8);
        for endpoint in &self.endpoints {
            put_text(&mut bytes, endpoint);
        }
        put_prefixes(&mut bytes, &self.prefixes);
        bytes
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, FieldError> {
        let terms = Self {
            expires_s: u32::from_be_bytes(cursor.array()?),
            site: PublicKey::from_bytes(cursor.array()?),
            name: cursor.text()?.to_owned(),
            queues: cursor.byte()?,
            classes: cursor.text()?.to_owned(),
            address: cursor.network()?,
            endpoints: {
                let count = cursor.byte()?;
                (0..count).map(|_| cursor.text().map(str::to_owned)).collect::<Result<_, _>>()?
            },
            prefixes: cursor.prefixes()?,
        };
        let printable = |text: &String| !text.chars().any(char::is_control);
        match () {
            () if !is_site_name(&terms.name) => Err(FieldError::SiteName),
            () if terms.endpoints.len() > MAX_ENDPOINTS => Err(FieldError::Text),
            () if !terms.endpoints.iter().all(printable) || !printable(&terms.classes) => {
                Err(FieldError::Text)
            }
            () => Ok(terms),
        }
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let digest = digest::digest(&digest::SHA256, bytes);
    let mut sum = [0; CHECKSUM_BYTES];
    sum.copy_from_slice(&digest.as_ref()[..CHECKSUM_BYTES]);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> Terms {
        Terms {
            expires_s: 1_800_000_000,
            site: SecretKey::generate().unwrap().public(),
            name: "a".to_owned(),
            queues: 2,
            classes: "split".to_owned(),
            address: "10.201.7.2/24".parse().unwrap(),
            endpoints: vec!["a.example.net:4600".to_owned(), "[2001:db8::1]:4600".to_owned()],
            prefixes: vec!["10.201.7.1/32".parse().unwrap(), "10.1.0.0/16".parse().unwrap()],
        }
    }

    #[test]
    fn the_line_is_the_invitation_again_and_so_is_its_key() {
        let invitation = Invitation::new(terms()).unwrap();
        let line = invitation.to_text();
        assert!(line.starts_with(BEGIN) && !line.contains(char::is_whitespace), "{}", *line);
        let broken = format!("  {}\r\n {}\n", &line[..40], &line[40..]);
        for text in [line.as_str(), &broken] {
            let again: Invitation = text.parse().unwrap();
            assert_eq!(again, invitation);
            assert_eq!(again.key().unwrap().public(), invitation.key().unwrap().public());
        }
    }

    #[test]
    fn two_invitations_of_the_same_terms_have_two_keys() {
        let keys = [(); 2].map(|()| Invitation::new(terms()).unwrap().key().unwrap().public());
        assert_ne!(keys[0], keys[1]);
    }

    #[test]
    fn any_changed_term_is_another_key() {
        let invitation = Invitation::new(terms()).unwrap();
        let key = invitation.key().unwrap().public();
        let changes: [fn(&mut Terms); 8] = [
            |terms| terms.expires_s += 1,
            |terms| terms.site = PublicKey::from_bytes([9; KEY_BYTES]),
            |terms| terms.name = "b".to_owned(),
            |terms| terms.queues = 1,
            |terms| terms.classes = String::new(),
            |terms| terms.address = "10.201.7.3/24".parse().unwrap(),
            |terms| drop(terms.endpoints.pop()),
            |terms| terms.prefixes[1] = "10.0.0.0/8".parse().unwrap(),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut other = invitation.clone();
            change(&mut other.terms);
            let other: Invitation = other.to_text().parse().unwrap();
            assert_ne!(other.key().unwrap().public(), key, "change {index}");
        }
    }

    #[test]
    fn a_damaged_line_is_told_from_none() {
        let line = Invitation::new(terms()).unwrap().to_text();
        for text in ["", "tl1", "hello", "tl2_AAAA", "TL1_AAAA"] {
            assert_eq!(text.parse::<Invitation>(), Err(InvitationError::Other), "{text:?}");
        }
        for len in BEGIN.len()..line.len() {
            assert_eq!(line[..len].parse::<Invitation>(), Err(InvitationError::Damaged), "{len} characters");
        }
        for at in BEGIN.len()..line.len() {
            let mut text: Vec<u8> = line.bytes().collect();
            text[at] = if text[at] == b'A' { b'B' } else { b'A' };
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text.parse::<Invitation>(), Err(InvitationError::Damaged), "character {at}");
        }
    }

    #[test]
    fn neither_debug_nor_errors_show_the_secret() {
        let invitation = Invitation::new(terms()).unwrap();
        let shown = format!("{invitation:?}");
        let secret = format!("{:?}", invitation.secret.as_slice());
        assert!(shown.contains("a.example.net") && !shown.contains(&secret), "{shown}");
    }

    #[test]
    fn any_bytes_with_the_right_sum_are_an_invitation_or_an_error() {
        let valid = Invitation::new(terms()).unwrap();
        let mut bytes = valid.terms.encode();
        bytes.extend(valid.secret.iter());
        let mut rng = trunkline_units::Rng::new(1, "invitations");
        let mut taken = 0;
        for _ in 0..20_000 {
            let mut bytes = bytes.clone();
            for _ in 0..=rng.below(3) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.below(256) as u8;
            }
            bytes.truncate(bytes.len() - rng.below(2) as usize * rng.below(40) as usize);
            bytes.extend(checksum(&bytes));
            let text = format!("{BEGIN}{}", URL_SAFE_NO_PAD.encode(&bytes));
            if let Ok(invitation) = text.parse::<Invitation>() {
                taken += 1;
                assert_eq!(invitation.to_text().as_str(), text);
                assert!(is_site_name(&invitation.terms.name));
            }
        }
        assert!(taken > 1000, "{taken}");
    }
}
