//! What the integration tests share.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use std::net::{IpAddr, SocketAddr};

use trunkline_testbed::link::{DuplexSettings, End, Link};
use trunkline_testbed::namespace::Host;

pub const A: &str = "198.18.2.1";
pub const B: &str = "198.18.2.2";

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("address")
}

pub fn any_port(text: &str) -> SocketAddr {
    SocketAddr::new(ip(text), 0)
}

/// Two hosts and a link between them; the link goes first.
pub struct Pair {
    pub link: Link,
    pub a: Host,
    pub b: Host,
}

pub fn pair(settings: &DuplexSettings) -> Pair {
    let a = Host::new("a").expect("host");
    let b = Host::new("b").expect("host");
    let end = |host, address| End { host, device: "wan", addresses: address };
    let (address_a, address_b) = ([ip(A), ip("fd00::1")], [ip(B), ip("fd00::2")]);
    let link = Link::new(end(&a, &address_a), end(&b, &address_b), settings).expect("link");
    Pair { link, a, b }
}

/// Runs `attempt` up to three times, for the machine is noisy, and fails with the last reason.
pub fn within_three_attempts(what: &str, attempt: impl FnMut() -> Result<(), String>) {
    within_attempts(3, what, attempt);
}

/// The same with as many attempts as are said.
pub fn within_attempts(most: u32, what: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    for number in 1..=most {
        match attempt() {
            Ok(()) => return,
            Err(reason) if number == most => panic!("{what}: {reason}"),
            Err(reason) => println!("{what}: {reason}; once more"),
        }
    }
}
