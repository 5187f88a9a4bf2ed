//! What a reload must not touch.

mod common;

use std::net::TcpStream;
use std::time::Duration;

use common::{edit, setup, sites};
use trunkline_netlink::{Existing, Family, Route, RouteKind, Rule};
use trunkline_testbed::scene::{Encryption, Gateway, Plan, Wan};

#[test]
fn a_reload_of_fwmark_marks_the_sockets_that_listen() {
    let test = "a_reload_of_fwmark_marks_the_sockets_that_listen";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    for device in ["all", "wan"] {
        scene.t2.sysctl(&format!("net.ipv4.conf.{device}.rp_filter"), "0").expect("no filter");
    }
    // What leaves T2 without the mark goes nowhere.
    let nowhere =
        Route { kind: RouteKind::Unreachable, ..Route::to("0.0.0.0/0".parse().expect("a prefix")).table(77) };
    let rule = Rule {
        family: Family::V4,
        priority: 100,
        table: 77,
        unless_mark: Some(7),
        suppress_prefix_len: None,
        protocol: 4,
    };
    scene
        .t2
        .netlink(|netlink| {
            netlink.add_route(&nowhere, Existing::Keep)?;
            netlink.add_rule(&rule)
        })
        .expect("a rule");
    let to = (Plan::IPV4.t2_wan, 4600).into();
    let answers = || scene.t1.run(|| TcpStream::connect_timeout(&to, Duration::from_secs(2))).is_ok();
    assert!(!answers(), "without a mark the answer is lost");
    edit(&gateways, Gateway::T2, |text| text.replace("[control]", "[lanes]\nfwmark = 7\n[control]"));
    gateways.reload(Gateway::T2).expect("it reloads");
    assert!(answers(), "the listening socket has the mark");
}
