//! The greetings at the start of a lane: what is in the first record of data each way.
//!
//! All integers are big-endian. The dialer sends a `Hello`; the acceptor answers with a `Welcome` of the same
//! form or with a `Refusal`. A site that has an invitation sends a `Join` instead; the answer is `Joined` or a `Refusal`.
//!
//! ```text
//! Hello, Welcome                           Refusal
//! offset   bytes                           offset   bytes
//!      0       1  kind: 1 or 2                  0       1  kind: 3
//!      1       2  version: 1 or 2               1       2  version of the sender
//!      3       1  encryption: 0 none, 1 TLS     3       1  reason
//!      4       2  lane                          4       1  n: bytes of text, at most 200
//!      6       8  instance                      5       n  text: UTF-8 without control characters
//!     14       1  n: bytes of lane group, 1 to 32
//!     15       n  lane group: a-z 0-9 _ -
//! ```
//!
//! ```text
//! Join                                     Joined
//! offset   bytes                           offset   bytes
//!      0       1  kind: 4                       0       1  kind: 5
//!      1       2  version                       1       2  version
//!      3      32  public key
//!     35       1  n: bytes of name, 1 to 64
//!     36       n  name
//!   36+n       1  number of prefixes, at most 32; each: family (4 or 6), length, address
//! ```
//!
//! Nothing may follow. What stands behind the version in a `Hello` may differ in other versions; a `Refusal`
//! has this form in all of them, so that a version can be declined in words the other end understands.

use std::fmt;

use ipnet::IpNet;
use trunkline_schema::Encryption;

use super::cursor::{Cursor, FieldError, put_prefixes, put_text};
use crate::config::is_site_name;
use crate::keys::PublicKey;

/// The highest version of the protocol that this code speaks: 2 has arrival reports, 1 has not.
pub const VERSION: u16 = 2;
/// The maximum length of a lane group's name, in bytes.
pub const MAX_LANE_GROUP_BYTES: usize = 32;
/// The maximum length of a refusal's text, in bytes.
pub const MAX_TEXT_BYTES: usize = 200;

/// The version since which sites join by invitation.
const FIRST_VERSION_TO_JOIN: u16 = 2;

const KIND_HELLO: u8 = 1;
const KIND_WELCOME: u8 = 2;
const KIND_REFUSAL: u8 = 3;
const KIND_JOIN: u8 = 4;
const KIND_JOINED: u8 = 5;

/// What each end says of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The protocol's version. A dialer asks for [`VERSION`] or less; the acceptor may agree to less than that.
    pub version: u16,
    /// What shall protect the lane's data; both ends must say the same.
    pub encryption: Encryption,
    /// The number of the lane in its lane group, over all shards and paths; with the cost of its path above ([`Hello::lane_on`]).
    pub lane: u16,
    /// A number drawn when the process started, by which a restarted peer is told from a second connection.
    pub instance: u64,
    /// The lane group that the lane belongs to.
    pub lane_group: String,
}

/// What a site says of itself that comes with an invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// Its public key.
    pub key: PublicKey,
    /// Its name, 1 to 64 of `A-Z a-z 0-9 . _ -`, no dot first.
    pub name: String,
    /// What lies behind it, at most 32, its address in the tunnel first.
    pub prefixes: Vec<IpNet>,
}

/// Why a lane is declined, and a few words about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: RefusalReason,
    /// For the log; may be empty.
    pub text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text.as_str() {
            "" => write!(f, "{}", self.reason),
            text => write!(f, "{} ({text})", self.reason),
        }
    }
}

/// Why a lane is declined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RefusalReason {
    /// The acceptor does not speak the dialer's version.
    #[error("unsupported version")]
    UnsupportedVersion,
    /// The acceptor has no such lane group.
    #[error("unknown lane group")]
    UnknownLaneGroup,
    /// The acceptor has fewer lanes in this lane group.
    #[error("unknown lane")]
    UnknownLane,
    /// The two ends are configured for different encryption.
    #[error("encryption mismatch")]
    EncryptionMismatch,
    /// There are as many lanes as the acceptor will have.
    #[error("too many lanes")]
    TooManyLanes,
    /// The acceptor keeps another connection for this lane (both ends dialled at once).
    #[error("not wanted")]
    NotWanted,
    /// The acceptor is about to end.
    #[error("shutting down")]
    ShuttingDown,
    /// The lane group rides on another transport at the acceptor.
    #[error("transport mismatch")]
    TransportMismatch,
    /// The acceptor does not take the invitation, or the site that comes with it.
    #[error("invitation refused")]
    Invitation,
    /// A reason of a later version.
    #[error("reason {0}")]
    Other(u8),
}

impl RefusalReason {
    const fn code(self) -> u8 {
        match self {
            Self::UnsupportedVersion => 1,
            Self::UnknownLaneGroup => 2,
            Self::UnknownLane => 3,
            Self::EncryptionMismatch => 4,
            Self::TooManyLanes => 5,
            Self::NotWanted => 6,
            Self::ShuttingDown => 7,
            Self::TransportMismatch => 8,
            Self::Invitation => 9,
            Self::Other(code) => code,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::UnsupportedVersion,
            2 => Self::UnknownLaneGroup,
            3 => Self::UnknownLane,
            4 => Self::EncryptionMismatch,
            5 => Self::TooManyLanes,
            6 => Self::NotWanted,
            7 => Self::ShuttingDown,
            8 => Self::TransportMismatch,
            9 => Self::Invitation,
            other => Self::Other(other),
        }
    }
}

/// What is wrong with a greeting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A field of it.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// It is of a kind that does not exist.
    #[error("unknown kind {0}")]
    UnknownKind(u8),
    /// It is of a kind that has no place here.
    #[error("a message of kind {0} has no place here")]
    UnexpectedKind(u8),
    /// The other end speaks a version that we do not have, or another one than was agreed.
    #[error("the other end speaks version {theirs}, which was not agreed; we speak 1 to {VERSION}")]
    UnknownVersion {
        /// Its version.
        theirs: u16,
    },
    /// The encryption is none of those that exist.
    #[error("unknown encryption {0}")]
    UnknownEncryption(u8),
    /// The lane group is no name.
    #[error("the lane group is not 1 to {MAX_LANE_GROUP_BYTES} of a-z 0-9 _ -")]
    LaneGroupName,
}

/// A greeting of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The dialer asks for a lane.
    Hello(Hello),
    /// The acceptor gives it.
    Welcome(Hello),
    /// The acceptor declines it.
    Refusal(Refusal),
    /// The dialer has an invitation and wants to be a peer.
    Join(Join),
    /// The acceptor has taken it in.
    Joined,
}

impl Message {
    /// The message's number on the wire.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => KIND_HELLO,
            Self::Welcome(_) => KIND_WELCOME,
            Self::Refusal(_) => KIND_REFUSAL,
            Self::Join(_) => KIND_JOIN,
            Self::Joined => KIND_JOINED,
        }
    }

    /// The message as bytes. A refusal's text is cut to what may be sent; the caller checks names, and the number of prefixes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind()];
        match self {
            Self::Hello(hello) | Self::Welcome(hello) => {
                bytes.extend(hello.version.to_be_bytes());
                bytes.push(match hello.encryption {
                    Encryption::None => 0,
                    Encryption::Tls => 1,
                });
                bytes.extend(hello.lane.to_be_bytes());
                bytes.extend(hello.instance.to_be_bytes());
                put_text(&mut bytes, &hello.lane_group);
            }
            Self::Refusal(refusal) => {
                let text = printable(&refusal.text);
                bytes.extend(VERSION.to_be_bytes());
                bytes.push(refusal.reason.code());
                put_text(&mut bytes, &text);
            }
            Self::Join(join) => {
                bytes.extend(VERSION.to_be_bytes());
                bytes.extend(join.key.as_bytes());
                put_text(&mut bytes, &join.name);
                put_prefixes(&mut bytes, &join.prefixes);
            }
            Self::Joined => bytes.extend(VERSION.to_be_bytes()),
        }
        bytes
    }

    /// The message that these bytes are, no more and no less.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut cursor = Cursor::new(bytes);
        let kind = cursor.byte()?;
        if !(KIND_HELLO..=KIND_JOINED).contains(&kind) {
            return Err(MessageError::UnknownKind(kind));
        }
        let version = u16::from_be_bytes(cursor.array()?);
        let first = if kind >= KIND_JOIN { FIRST_VERSION_TO_JOIN } else { 1 };
        if kind != KIND_REFUSAL && !(first..=VERSION).contains(&version) {
            return Err(MessageError::UnknownVersion { theirs: version });
        }
        let message = match kind {
            KIND_HELLO => Self::Hello(Hello::decode(version, &mut cursor)?),
            KIND_WELCOME => Self::Welcome(Hello::decode(version, &mut cursor)?),
            KIND_REFUSAL => Self::Refusal(Refusal::decode(&mut cursor)?),
            KIND_JOIN => Self::Join(Join::decode(&mut cursor)?),
            _ => Self::Joined,
        };
        cursor.end()?;
        Ok(message)
    }
}

impl Hello {
    /// The bits of [`lane`](Self::lane) that are the number of the lane; those above say what the path costs.
    const NUMBER_BITS: u32 = 13;

    /// The lane of this number on a path of this cost.
    pub const fn lane_on(number: u16, cost: u8) -> u16 {
        number | (cost as u16) << Self::NUMBER_BITS
    }

    /// The number of the lane alone.
    pub const fn number(&self) -> u16 {
        self.lane & ((1 << Self::NUMBER_BITS) - 1)
    }

    /// What the use of the lane's path costs, as the dialer says.
    pub const fn cost(&self) -> u8 {
        (self.lane >> Self::NUMBER_BITS) as u8
    }

    /// Whether both ends report what arrives.
    pub const fn has_reports(&self) -> bool {
        self.version >= 2
    }

    fn decode(version: u16, cursor: &mut Cursor<'_>) -> Result<Self, MessageError> {
        let encryption = match cursor.byte()? {
            0 => Encryption::None,
            1 => Encryption::Tls,
            other => return Err(MessageError::UnknownEncryption(other)),
        };
        let lane = u16::from_be_bytes(cursor.array()?);
        let instance = u64::from_be_bytes(cursor.array()?);
        let len = usize::from(cursor.byte()?);
        let lane_group = std::str::from_utf8(cursor.take(len)?).ok().filter(|name| is_lane_group_name(name));
        let lane_group = lane_group.ok_or(MessageError::LaneGroupName)?.to_owned();
        Ok(Self { version, encryption, lane, instance, lane_group })
    }
}

impl Refusal {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, MessageError> {
        let reason = RefusalReason::from_code(cursor.byte()?);
        let text = cursor.text()?;
        if text.len() > MAX_TEXT_BYTES || text.chars().any(char::is_control) {
            return Err(FieldError::Text.into());
        }
        Ok(Self { reason, text: text.to_owned() })
    }
}

impl Join {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, MessageError> {
        let key = PublicKey::from_bytes(cursor.array()?);
        let name = cursor.text()?;
        if !is_site_name(name) {
            return Err(FieldError::SiteName.into());
        }
        Ok(Self { key, name: name.to_owned(), prefixes: cursor.prefixes()? })
    }
}

/// Whether a lane group may have this name.
fn is_lane_group_name(name: &str) -> bool {
    (1..=MAX_LANE_GROUP_BYTES).contains(&name.len())
        && name.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

/// `text` without control characters, cut to [`MAX_TEXT_BYTES`] at a character's end.
fn printable(text: &str) -> String {
    let mut cut = String::new();
    for character in text.chars().filter(|c| !c.is_control()) {
        if cut.len() + character.len_utf8() > MAX_TEXT_BYTES {
            break;
        }
        cut.push(character);
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            version: VERSION,
            encryption: Encryption::Tls,
            lane: 3,
            instance: 0x0102_0304_0506_0708,
            lane_group: "bulk".to_owned(),
        }
    }

    #[test]
    fn a_hello_is_the_bytes_of_the_specification() {
        let bytes = [1, 0, 2, 1, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 4, b'b', b'u', b'l', b'k'];
        assert_eq!(Message::Hello(hello()).encode(), bytes);
        assert_eq!(Message::decode(&bytes), Ok(Message::Hello(hello())));
    }

    #[test]
    fn a_welcome_is_the_bytes_of_the_specification() {
        let welcome = Message::Welcome(Hello {
            version: VERSION,
            encryption: Encryption::None,
            lane: 0,
            instance: 0xfeed_0000_0000_0001,
            lane_group: "tcp".to_owned(),
        });
        let bytes = [2, 0, 2, 0, 0, 0, 0xfe, 0xed, 0, 0, 0, 0, 0, 1, 3, b't', b'c', b'p'];
        assert_eq!(welcome.encode(), bytes);
        assert_eq!(Message::decode(&bytes), Ok(welcome));
    }

    #[test]
    fn a_refusal_is_the_bytes_of_the_specification() {
        let refusal = Refusal { reason: RefusalReason::UnknownLaneGroup, text: "no".to_owned() };
        let bytes = [3, 0, 2, 2, 2, b'n', b'o'];
        assert_eq!(Message::Refusal(refusal.clone()).encode(), bytes);
        assert_eq!(Message::decode(&bytes), Ok(Message::Refusal(refusal)));
    }

    fn join() -> Join {
        let prefixes = ["10.201.7.2/32", "192.168.5.0/24", "fd00:5::/48"];
        Join {
            key: PublicKey::from_bytes([7; 32]),
            name: "branch-5.example".to_owned(),
            prefixes: prefixes.map(|prefix| prefix.parse().unwrap()).to_vec(),
        }
    }

    #[test]
    fn a_site_joins_in_the_bytes_of_the_specification() {
        let join = Join { prefixes: vec!["10.2.0.0/16".parse().unwrap()], name: "b".to_owned(), ..join() };
        let bytes = [&[4, 0, 2][..], &[7; 32], &[1, b'b', 1, 4, 16, 10, 2, 0, 0]].concat();
        assert_eq!(Message::Join(join.clone()).encode(), bytes);
        assert_eq!(Message::decode(&bytes), Ok(Message::Join(join)));
        assert_eq!(Message::Joined.encode(), [5, 0, 2]);
        assert_eq!(Message::decode(&[5, 0, 2]), Ok(Message::Joined));
    }

    #[test]
    fn a_site_that_joins_with_nonsense_is_refused() {
        let with = |change: fn(&mut Join)| {
            let mut join = join();
            change(&mut join);
            Message::decode(&Message::Join(join).encode()).unwrap_err()
        };
        for name in ["", ".hidden", "a/b", "../../etc/x", "a b", "ä", "x\n"] {
            let mut join = join();
            join.name = name.to_owned();
            let error = Message::decode(&Message::Join(join).encode());
            assert_eq!(error, Err(FieldError::SiteName.into()), "{name:?}");
        }
        assert_eq!(with(|join| join.name = "x".repeat(65)), FieldError::SiteName.into());
        assert_eq!(with(|join| join.prefixes[1] = "10.0.0.1/8".parse().unwrap()), FieldError::Prefix.into());
        let bytes = Message::Join(join()).encode();
        let at = bytes.len() - 18;
        for (byte, wrong) in [(at, 5), (at + 1, 129), (3 + 32 + 1 + 16, 33)] {
            let mut bytes = bytes.clone();
            bytes[byte] = wrong;
            assert_eq!(Message::decode(&bytes), Err(FieldError::Prefix.into()), "byte {byte}");
        }
    }

    #[test]
    fn every_message_decodes_to_itself() {
        for message in [Message::Join(join()), Message::Joined] {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
        for encryption in [Encryption::None, Encryption::Tls] {
            let message = Message::Welcome(Hello { encryption, ..hello() });
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
        for code in 0..=u8::MAX {
            let refusal = Refusal { reason: RefusalReason::from_code(code), text: String::new() };
            assert_eq!(refusal.reason.code(), code);
            let message = Message::Refusal(refusal);
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn every_prefix_is_truncated_and_every_extension_trailing() {
        let refusal = Refusal { reason: RefusalReason::NotWanted, text: "one is enough".to_owned() };
        for message in
            [Message::Hello(hello()), Message::Refusal(refusal), Message::Join(join()), Message::Joined]
        {
            let mut bytes = message.encode();
            for len in 0..bytes.len() {
                let error = Message::decode(&bytes[..len]).unwrap_err();
                assert!(
                    matches!(error, MessageError::Field(FieldError::Truncated { have, need }) if have == len && need > len)
                );
            }
            bytes.push(0);
            assert_eq!(Message::decode(&bytes), Err(FieldError::Trailing { extra: 1 }.into()));
        }
    }

    #[test]
    fn another_version_is_named_whatever_follows_it() {
        assert_eq!(Message::decode(&[1, 0, 3]), Err(MessageError::UnknownVersion { theirs: 3 }));
        let mut bytes = Message::Hello(hello()).encode();
        bytes[1..3].copy_from_slice(&9u16.to_be_bytes());
        assert_eq!(Message::decode(&bytes), Err(MessageError::UnknownVersion { theirs: 9 }));
    }

    #[test]
    fn a_refusal_of_another_version_is_understood() {
        let decoded = Message::decode(&[3, 0, 9, 1, 0]).unwrap();
        let reason = RefusalReason::UnsupportedVersion;
        assert_eq!(decoded, Message::Refusal(Refusal { reason, text: String::new() }));
    }

    #[test]
    fn wrong_fields_have_names() {
        assert_eq!(Message::decode(&[0, 0, 1]), Err(MessageError::UnknownKind(0)));
        assert_eq!(Message::decode(&[6, 0, 1]), Err(MessageError::UnknownKind(6)));
        let bytes = Message::Hello(hello()).encode();
        let with = |offset: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[offset] = value;
            Message::decode(&bytes).unwrap_err()
        };
        assert_eq!(with(3, 2), MessageError::UnknownEncryption(2));
        assert_eq!(with(15, b'B'), MessageError::LaneGroupName);
        assert_eq!(with(15, 0xff), MessageError::LaneGroupName);
        let long = Message::Hello(Hello { lane_group: "x".repeat(33), ..hello() }).encode();
        assert_eq!(Message::decode(&long), Err(MessageError::LaneGroupName));
        let empty = Message::Hello(Hello { lane_group: String::new(), ..hello() }).encode();
        assert_eq!(Message::decode(&empty), Err(MessageError::LaneGroupName));
        assert_eq!(Message::decode(&[3, 0, 1, 1, 1, b'\n']), Err(FieldError::Text.into()));
        assert_eq!(Message::decode(&[3, 0, 1, 1, 1, 0xff]), Err(FieldError::Text.into()));
    }

    #[test]
    fn a_long_text_is_cut_at_a_characters_end() {
        let text = "ä\n".repeat(150);
        let message = Message::Refusal(Refusal { reason: RefusalReason::NotWanted, text });
        let Message::Refusal(decoded) = Message::decode(&message.encode()).unwrap() else { panic!() };
        assert_eq!(decoded.text, "ä".repeat(MAX_TEXT_BYTES / 2));
    }

    #[test]
    fn no_bytes_make_the_decoder_panic() {
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut bytes = Message::Hello(hello()).encode();
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 24) as u8;
            }
            bytes.truncate((state >> 40) as usize % (bytes.len() + 1));
            if let Ok(message) = Message::decode(&bytes) {
                assert_eq!(message.encode(), bytes);
            }
        }
    }
}
