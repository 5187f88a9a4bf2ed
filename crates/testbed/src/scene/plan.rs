//! The addresses of a scene, from 198.18.0.0/15 (RFC 2544, for benchmarks) and `fd00::/8` (RFC 4193), so no packet
//! can be meant for the outside world.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

const fn four(third: u8, last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(198, 18, third, last))
}

const fn six(net: u16, last: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd00, net, 0, 0, 0, 0, 0, last))
}

/// The addresses in one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The client.
    pub a: IpAddr,
    /// The first gateway, towards its site.
    pub t1_lan: IpAddr,
    /// The first gateway, towards the WAN.
    pub t1_wan: IpAddr,
    /// The second gateway, towards the WAN.
    pub t2_wan: IpAddr,
    /// The second gateway, towards its site.
    pub t2_lan: IpAddr,
    /// The server.
    pub x: IpAddr,
}

impl Plan {
    /// 198.18.1.0/24, the WAN 198.18.2.0/24, and 198.18.3.0/24.
    pub const IPV4: Self = Self {
        a: four(1, 2),
        t1_lan: four(1, 1),
        t1_wan: four(2, 1),
        t2_wan: four(2, 2),
        t2_lan: four(3, 1),
        x: four(3, 2),
    };

    /// `fd00:1::/64`, the WAN `fd00:2::/64`, and `fd00:3::/64`.
    pub const IPV6: Self = Self {
        a: six(1, 2),
        t1_lan: six(1, 1),
        t1_wan: six(2, 1),
        t2_wan: six(2, 2),
        t2_lan: six(3, 1),
        x: six(3, 2),
    };

    /// The network of the first site.
    pub fn first_site(&self) -> IpNet {
        network(self.a)
    }

    /// The network of the second site.
    pub fn second_site(&self) -> IpNet {
        network(self.x)
    }

    /// Every address of the family.
    pub fn any(&self) -> IpNet {
        match self.a {
            IpAddr::V4(_) => IpNet::V4(Ipv4Net::default()),
            IpAddr::V6(_) => IpNet::V6(Ipv6Net::default()),
        }
    }
}

/// An address with the prefix length that all networks of its family have here.
pub(super) fn on_link(address: IpAddr) -> IpNet {
    match address {
        IpAddr::V4(four) => Ipv4Net::new_assert(four, 24).into(),
        IpAddr::V6(six) => Ipv6Net::new_assert(six, 64).into(),
    }
}

fn network(address: IpAddr) -> IpNet {
    on_link(address).trunc()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_are_of_the_ranges_set_aside() {
        assert_eq!(Plan::IPV4.first_site().to_string(), "198.18.1.0/24");
        assert_eq!(Plan::IPV4.second_site().to_string(), "198.18.3.0/24");
        assert_eq!(Plan::IPV6.second_site().to_string(), "fd00:3::/64");
        assert_eq!(Plan::IPV6.x.to_string(), "fd00:3::2");
        assert_eq!(Plan::IPV6.any().to_string(), "::/0");
    }
}
