//! What strangers may cost: the caps on handshakes under way.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Half-open connections in all.
pub(super) const TOTAL: usize = 128;
/// Half-open connections from one address (one /64 of IPv6).
pub(super) const PER_ADDRESS: usize = 16;
/// How long a handshake may take.
pub(super) const TIME_OUT: Duration = Duration::from_secs(5);

/// What to do with a connection that has just been accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// Shake hands.
    Admit,
    /// Shake hands, after closing the oldest half-open connection.
    EvictOldest,
    /// Close it: its address has its share.
    Refuse,
}

/// The address as far as one stranger has only one of it.
pub(super) fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)).into(),
    }
}

/// Decides, given the sources of the half-open connections there are.
pub(super) fn admit(half_open: impl Iterator<Item = IpAddr>, from: IpAddr) -> Admission {
    let from = source(from);
    let (total, same) =
        half_open.fold((0, 0), |(total, same), other| (total + 1, same + usize::from(other == from)));
    if same >= PER_ADDRESS {
        Admission::Refuse
    } else if total >= TOTAL {
        Admission::EvictOldest
    } else {
        Admission::Admit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_its_share_and_no_more() {
        let from: IpAddr = "192.0.2.1".parse().expect("an address");
        let other: IpAddr = "192.0.2.2".parse().expect("an address");
        assert_eq!(admit(std::iter::repeat_n(from, PER_ADDRESS - 1), from), Admission::Admit);
        assert_eq!(admit(std::iter::repeat_n(from, PER_ADDRESS), from), Admission::Refuse);
        assert_eq!(admit(std::iter::repeat_n(from, PER_ADDRESS), other), Admission::Admit);
    }

    #[test]
    fn many_addresses_push_out_the_oldest_instead_of_the_newest() {
        let many = (0..TOTAL as u32).map(|n| IpAddr::V4(n.into()));
        assert_eq!(admit(many, "192.0.2.1".parse().expect("an address")), Admission::EvictOldest);
    }

    #[test]
    fn an_ipv6_network_is_one_source_and_a_mapped_address_is_the_ipv4_one() {
        let parse = |text: &str| source(text.parse().expect("an address"));
        assert_eq!(parse("2001:db8::1"), parse("2001:db8::ffff:1"));
        assert_ne!(parse("2001:db8::1"), parse("2001:db8:0:1::1"));
        assert_eq!(parse("::ffff:192.0.2.1"), parse("192.0.2.1"));
    }
}
