//! Single values that sites and experiments write alike: names, protocols, code points, ranges of numbers.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use trunkline_packet::protocol;

/// The shortest packet, bytes (RFC 791 §3.1).
const MIN_LENGTH: u16 = 20;

/// The name of a class or of a group of lanes: `[a-z0-9_-]{1,32}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name(pub String);

/// The name of a congestion control, or `auto`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CongestionControlName(pub String);

impl CongestionControlName {
    /// The word for the choice of each lane by its path.
    pub const AUTO: &'static str = "auto";

    /// Whether each lane is to choose by its path.
    pub fn is_auto(&self) -> bool {
        self.0 == Self::AUTO
    }
}

/// How many lanes a group has to each peer in each shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneCount {
    /// So many.
    Number(u32),
    /// One, and more on a path that loses packets.
    Auto,
}

impl fmt::Display for LaneCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaneCount::Number(number) => write!(f, "{number}"),
            LaneCount::Auto => f.write_str("auto"),
        }
    }
}

/// A protocol above IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// ICMP and `ICMPv6`.
    Icmp,
    /// The protocol of this number.
    Number(u8),
}

impl Protocol {
    /// TCP.
    pub const TCP: Self = Protocol::Number(protocol::TCP);
    /// UDP.
    pub const UDP: Self = Protocol::Number(protocol::UDP);
    /// SCTP.
    pub const SCTP: Self = Protocol::Number(protocol::SCTP);
}

/// A code point of the DS field, 0 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dscp(pub u8);

/// Ports: one, or a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports(pub RangeInclusive<u16>);

/// Lengths of packets, bytes: one, or a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lengths(pub RangeInclusive<u16>);

/// How a value is written.
enum Written {
    Text(String),
    Number(i64),
}

/// A type that is one value in a file.
trait Word: Sized {
    const NAME: &'static str;
    const ALLOWED: &'static str;
    /// Whether it may be a number.
    const TAKES_NUMBERS: bool = true;

    fn of_text(text: &str) -> Result<Self, String>;

    fn of_number(number: i64) -> Result<Self, String> {
        Err(format!("{number} is no {}", Self::NAME))
    }

    fn written(&self) -> Written;
}

impl Word for Name {
    const NAME: &'static str = "name";
    const ALLOWED: &'static str = "1 to 32 of a-z 0-9 _ -";
    const TAKES_NUMBERS: bool = false;

    fn of_text(text: &str) -> Result<Self, String> {
        let plain = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        let fits = (1..=32).contains(&text.len()) && text.bytes().all(plain);
        if fits { Ok(Name(text.to_owned())) } else { Err(format!("{text:?} is no name")) }
    }

    fn written(&self) -> Written {
        Written::Text(self.0.clone())
    }
}

impl Word for CongestionControlName {
    const NAME: &'static str = "congestion-control";
    const ALLOWED: &'static str =
        "\"auto\", or a name out of /proc/sys/net/ipv4/tcp_available_congestion_control, such as \"cubic\"";
    const TAKES_NUMBERS: bool = false;

    fn of_text(text: &str) -> Result<Self, String> {
        // The kernel's TCP_CA_NAME_MAX is 16 with the closing zero.
        let fits = (1..=15).contains(&text.len())
            && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-'));
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("{text:?} cannot name a congestion control"))
        }
    }

    fn written(&self) -> Written {
        Written::Text(self.0.clone())
    }
}

impl Word for LaneCount {
    const NAME: &'static str = "lane-count";
    const ALLOWED: &'static str = "1 to 32, or \"auto\"";

    fn of_text(text: &str) -> Result<Self, String> {
        if text == "auto" { Ok(LaneCount::Auto) } else { Err(format!("{text:?} is no number of lanes")) }
    }

    fn of_number(number: i64) -> Result<Self, String> {
        u32::try_from(number).map(LaneCount::Number).map_err(|_| format!("is {number}"))
    }

    fn written(&self) -> Written {
        match *self {
            LaneCount::Number(number) => Written::Number(number.into()),
            LaneCount::Auto => Written::Text("auto".to_owned()),
        }
    }
}

impl Word for Protocol {
    const NAME: &'static str = "protocol";
    const ALLOWED: &'static str = "\"tcp\", \"udp\", \"icmp\", \"sctp\" or 0 to 255";

    fn of_text(text: &str) -> Result<Self, String> {
        Ok(match text {
            "tcp" => Protocol::TCP,
            "udp" => Protocol::UDP,
            "sctp" => Protocol::SCTP,
            "icmp" => Protocol::Icmp,
            other => return Err(format!("unknown protocol {other:?}")),
        })
    }

    fn of_number(number: i64) -> Result<Self, String> {
        u8::try_from(number).map(Protocol::Number).map_err(|_| format!("{number} is no protocol"))
    }

    fn written(&self) -> Written {
        let word = match *self {
            Protocol::Icmp => "icmp",
            Protocol::TCP => "tcp",
            Protocol::UDP => "udp",
            Protocol::SCTP => "sctp",
            Protocol::Number(number) => return Written::Number(number.into()),
        };
        Written::Text(word.to_owned())
    }
}

impl Word for Dscp {
    const NAME: &'static str = "code-point";
    const ALLOWED: &'static str =
        "0 to 63, \"be\", \"ef\", \"va\", \"le\", \"cs0\" to \"cs7\", \"af11\" to \"af43\"";

    /// By its name (RFC 2474, 2597, 3246, 5865, 8622).
    fn of_text(text: &str) -> Result<Self, String> {
        let known = match text.to_ascii_lowercase().as_bytes() {
            b"be" | b"df" => Some(0),
            b"le" => Some(1),
            b"va" => Some(44),
            b"ef" => Some(46),
            [b'c', b's', class @ b'0'..=b'7'] => Some((class - b'0') << 3),
            [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
                Some(((class - b'0') << 3) | ((drop - b'0') << 1))
            }
            _ => None,
        };
        known.map(Dscp).ok_or_else(|| format!("unknown code point {text:?}"))
    }

    fn of_number(number: i64) -> Result<Self, String> {
        let known = u8::try_from(number).ok().filter(|number| *number < 64);
        known.map(Dscp).ok_or_else(|| format!("is {number}"))
    }

    fn written(&self) -> Written {
        Written::Number(self.0.into())
    }
}

impl Word for Ports {
    const NAME: &'static str = "ports";
    const ALLOWED: &'static str = "a port, or a range such as \"1000-2000\"";

    fn of_text(text: &str) -> Result<Self, String> {
        range(text, "port").map(Ports)
    }

    fn of_number(number: i64) -> Result<Self, String> {
        u16::try_from(number).map(|port| Ports(port..=port)).map_err(|_| format!("is {number}"))
    }

    fn written(&self) -> Written {
        written(&self.0)
    }
}

impl Word for Lengths {
    const NAME: &'static str = "lengths";
    const ALLOWED: &'static str = "20 to 65535 (bytes), or a range such as \"40-200\"";

    fn of_text(text: &str) -> Result<Self, String> {
        let lengths = range(text, "length")?;
        if *lengths.end() < MIN_LENGTH { Err("holds for no packet".to_owned()) } else { Ok(Lengths(lengths)) }
    }

    fn of_number(number: i64) -> Result<Self, String> {
        let length = u16::try_from(number).ok().filter(|length| *length >= MIN_LENGTH);
        length.map(|length| Lengths(length..=length)).ok_or_else(|| format!("is {number}"))
    }

    fn written(&self) -> Written {
        written(&self.0)
    }
}

/// `first-last`, or one number as text.
fn range(text: &str, kind: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        (Ok(_), Ok(_)) => Err(format!("{text} ends before it begins")),
        _ => Err(format!("{text:?} is no {kind} or range of {kind}s")),
    }
}

fn written(range: &RangeInclusive<u16>) -> Written {
    if range.start() == range.end() {
        Written::Number((*range.start()).into())
    } else {
        Written::Text(format!("{}-{}", range.start(), range.end()))
    }
}

struct Reader<T>(PhantomData<T>);

impl<T: Word> Visitor<'_> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::ALLOWED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::of_text(text).map_err(|problem| E::custom(format!("{problem}; allowed: {}", T::ALLOWED)))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        T::of_number(number).map_err(|problem| E::custom(format!("{problem}; allowed: {}", T::ALLOWED)))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

macro_rules! words {
    ($($type:ident),*) => {
        $(
            impl $type {
                /// How one is written.
                pub const ALLOWED: &'static str = <Self as Word>::ALLOWED;
            }

            impl<'de> Deserialize<'de> for $type {
                fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    from.deserialize_any(Reader(PhantomData))
                }
            }

            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                    match Word::written(self) {
                        Written::Text(text) => to.serialize_str(&text),
                        Written::Number(number) => to.serialize_i64(number),
                    }
                }
            }

            impl JsonSchema for $type {
                fn schema_name() -> Cow<'static, str> {
                    <Self as Word>::NAME.into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    if <Self as Word>::TAKES_NUMBERS {
                        json_schema!({ "type": ["string", "integer"], "description": Self::ALLOWED })
                    } else {
                        json_schema!({ "type": "string", "description": Self::ALLOWED })
                    }
                }
            }
        )*

        /// All of these, for the reader of files.
        pub(crate) const WORDS: &[crate::Leaf] = &[$(crate::Leaf::new::<$type>(<$type as Word>::NAME)),*];
    };
}

words!(Name, CongestionControlName, LaneCount, Protocol, Dscp, Ports, Lengths);

/// One value, or a list of some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneOrMany<T>(pub Vec<T>);

struct ValueOrList<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ValueOrList<T> {
    type Value = OneOrMany<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(|one| OneOrMany(vec![one]))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(|one| OneOrMany(vec![one]))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(|one| OneOrMany(vec![one]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMany)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ValueOrList(PhantomData))
    }
}

impl<T: Serialize> Serialize for OneOrMany<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(to),
            several => several.serialize(to),
        }
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}-or-list", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "oneOf": [one, { "type": "array", "items": one }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads<T: Word>(text: &str) -> bool {
        T::of_text(text).is_ok()
    }

    #[test]
    fn code_points_are_those_of_the_rfcs() {
        for (name, value) in
            [("be", 0), ("EF", 46), ("va", 44), ("le", 1), ("cs5", 40), ("af11", 10), ("af43", 38)]
        {
            assert_eq!(Dscp::of_text(name), Ok(Dscp(value)), "{name}");
        }
        for wrong in ["", "cs8", "af14", "af51", "af01", "e", "46"] {
            assert!(!reads::<Dscp>(wrong), "{wrong}");
        }
        assert_eq!((Dscp::of_number(63), Dscp::of_number(64)), (Ok(Dscp(63)), Err("is 64".to_owned())));
    }

    #[test]
    fn ranges_begin_before_they_end() {
        assert_eq!(Ports::of_text("53"), Ok(Ports(53..=53)));
        assert_eq!(Ports::of_text("1000-2000"), Ok(Ports(1000..=2000)));
        assert_eq!(Ports::of_text("0 - 65535"), Ok(Ports(0..=u16::MAX)));
        for wrong in ["2-1", "", "-", "1-", "65536", "a-b", "1-2-3"] {
            assert!(!reads::<Ports>(wrong), "{wrong}");
        }
        assert_eq!(Ports::of_text("x").unwrap_err(), "\"x\" is no port or range of ports");
        assert_eq!(Lengths::of_text("x").unwrap_err(), "\"x\" is no length or range of lengths");
        assert_eq!(Lengths::of_text("0-19").unwrap_err(), "holds for no packet");
        assert!(
            reads::<Lengths>("0-20") && Lengths::of_number(19).is_err() && Lengths::of_number(20).is_ok()
        );
    }

    #[test]
    fn names_fit_where_they_are_used() {
        for wrong in ["", "A", "a b", "ä", &"a".repeat(33)] {
            assert!(!reads::<Name>(wrong), "{wrong:?}");
        }
        for wrong in ["", "a b", "abcdefghijklmnop", "../x"] {
            assert!(!reads::<CongestionControlName>(wrong), "{wrong:?}");
        }
        assert!(reads::<Name>(&"a".repeat(32)) && reads::<CongestionControlName>("bbr"));
    }
}
