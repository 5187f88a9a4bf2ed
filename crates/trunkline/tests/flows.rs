//! The bound on the flows of a class, on real kernels.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

use crate::common::{class, edit, setup, sites, wait_for};
use trunkline_testbed::scene::{Encryption, Gateway, GatewaySetup, Plan, Wan};

const CLASSES: &str = r#"
[[classes]]
name = "calls"
match = [{ protocol = "udp" }]
flows = { limit = 2, over = "spare" }

[[classes]]
name = "spare"
match = [{ protocol = 254 }]
flows = { limit = 3 }

[[classes]]
name = "rest"
"#;

#[test]
fn limits_hold_over_reloads_and_for_flows_that_overflow() {
    let test = "limits_hold_over_reloads_and_for_flows_that_overflow";
    let setup = GatewaySetup { classes: Some(CLASSES.to_owned()), ..setup(Encryption::Tls) };
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup) else { return };
    let sink = scene.x.run(|| UdpSocket::bind((Plan::IPV4.x, 0))).expect("a socket");
    sink.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    let to = sink.local_addr().expect("its address");
    let sources: Vec<UdpSocket> =
        (0..8).map(|_| scene.a.run(|| UdpSocket::bind((Plan::IPV4.a, 0))).expect("a socket")).collect();
    for source in &sources {
        source.connect(to).expect("connected");
    }
    let refused = || class(&gateways, Gateway::T1, "calls").refused;
    let mut buffer = [0; 100];
    for round in 1..=3_u8 {
        for (number, source) in (0..).zip(&sources) {
            source.send(&[round, number]).expect("sent");
        }
        let mut arrived: Vec<u8> = (0..5)
            .map(|_| {
                let (len, _) = sink.recv_from(&mut buffer).expect("it arrives");
                assert_eq!((len, buffer[0]), (2, round), "a flow beyond the limits, {}", buffer[1]);
                buffer[1]
            })
            .collect();
        arrived.sort_unstable();
        assert_eq!(arrived, [0, 1, 2, 3, 4], "two in the class and three in the one it overflows to");
        wait_for("the others are refused", Duration::from_secs(20), &gateways, || {
            refused() == u64::from(round) * 3
        });
        // Their senders hear of it, by ICMP.
        let mut told = 0;
        wait_for("three senders are told", Duration::from_secs(20), &gateways, || {
            let errors = sources.iter().filter_map(|source| source.take_error().expect("a socket"));
            told += errors.inspect(|error| assert_eq!(error.kind(), ErrorKind::HostUnreachable)).count();
            told == 3
        });
        edit(&gateways, Gateway::T1, |text| match round {
            1 => text.replace("name = \"rest\"", "name = \"rest\"\nweight = 2"),
            _ => text.replace("limit = 2", "limit = 1"),
        });
        gateways.reload(Gateway::T1).expect("it reloads");
        // The worker answers behind the reload.
        assert_eq!(refused(), u64::from(round) * 3);
    }
}
