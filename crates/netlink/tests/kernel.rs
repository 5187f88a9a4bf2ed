//! Every call, against the running kernel, in network namespaces that live as long as the test's threads.

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use trunkline_netlink::{
    Condition, Event, Existing, Family, FilterChain, FilterChange, FilterEvent, FilterMonitor, FilterRule,
    FilterTable, Handle, Hook, Monitor, NetlinkError, Owner, PacketFilter, Request, Route, RouteFilter,
    RouteKind, Rule, RuleMark, TimeWaits, TokenBucket, Tproxy,
};

/// Runs `body` in a thread with a network namespace of its own.
fn in_new_namespace(test: &str, body: impl FnOnce(&mut Handle) + Send) {
    thread::scope(|scope| {
        scope.spawn(|| {
            if let Err(error) = leave_namespace() {
                println!("SKIPPED {test}: lacks the right to make a network namespace ({error})");
                return;
            }
            body(&mut Handle::open().expect("netlink socket"));
        });
    });
}

fn leave_namespace() -> rustix::io::Result<()> {
    #[allow(deprecated, reason = "the safe form; only with FILES, which is not asked for, is it unsound")]
    rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNET)
}

fn net(text: &str) -> IpNet {
    text.parse().expect("network")
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("address")
}

#[test]
fn links_are_made_changed_and_removed() {
    in_new_namespace("links_are_made_changed_and_removed", |handle| {
        assert!(!handle.link_exists("left").expect("look up"));
        handle.create_veth("left", "right", None).expect("veth");
        let left = handle.link_index("left").expect("left");
        let right = handle.link_index("right").expect("right");
        handle.set_mtu(left, 1400).expect("mtu");
        handle.set_tx_queue_len(left, 17).expect("queue length");
        handle.set_up(left).expect("up");
        handle.set_up(right).expect("up");
        let link = handle.link(left).expect("link");
        assert_eq!((link.mtu, link.tx_queue_len, link.up, link.carrier), (1400, 17, true, true));
        handle.set_down(right).expect("down");
        assert!(!handle.link(left).expect("link").carrier);

        handle.create_bridge("bridge").expect("bridge");
        let bridge = handle.link_index("bridge").expect("bridge");
        handle.set_master(left, Some(bridge)).expect("port");
        handle.set_master(left, None).expect("release");
        handle.rename(right, "droite").expect("rename");
        let mut names: Vec<String> =
            handle.links().expect("links").into_iter().map(|link| link.name).collect();
        names.sort();
        assert!(
            ["bridge", "droite", "left", "lo"].iter().all(|name| names.iter().any(|found| found == name))
        );

        handle.delete_link(left).expect("delete");
        assert!(!handle.link_exists("droite").expect("look up"));
    });
}

#[test]
fn a_veth_reaches_into_another_namespace() {
    in_new_namespace("a_veth_reaches_into_another_namespace", |handle| {
        let (ready, started) = std::sync::mpsc::channel();
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let far = thread::spawn(move || {
            leave_namespace().expect("namespace");
            ready.send(File::open("/proc/thread-self/ns/net").expect("namespace file")).expect("send");
            finished.recv().expect("wait");
            let mut handle = Handle::open().expect("netlink");
            (handle.link_exists("there").expect("look up"), handle.link_exists("moved").expect("look up"))
        });
        let namespace = started.recv().expect("namespace");
        handle.create_veth("here", "there", Some(namespace.as_fd())).expect("veth");
        handle.create_bridge("moved").expect("bridge");
        handle.create_veth("a", "movable", None).expect("veth");
        let movable = handle.link_index("movable").expect("index");
        handle.rename(movable, "moved2").expect("rename");
        handle.move_to_netns(movable, &namespace).expect("move");
        assert!(!handle.link_exists("moved2").expect("look up"));
        assert!(!handle.link_exists("there").expect("look up"));
        finish.send(()).expect("send");
        assert_eq!(far.join().expect("far side"), (true, false));
    });
}

#[test]
fn addresses_of_both_families_come_back_as_given() {
    in_new_namespace("addresses_of_both_families_come_back_as_given", |handle| {
        handle.create_veth("left", "right", None).expect("veth");
        let left = handle.link_index("left").expect("left");
        handle.set_up(left).expect("up");
        handle.add_address(left, net("10.1.2.3/24"), None).expect("v4");
        handle.add_address(left, net("10.9.0.1/32"), Some(address("10.9.0.2"))).expect("v4 peer");
        handle.add_address(left, net("fd00::1/64"), None).expect("v6");
        handle.add_address(left, net("fd01::1/128"), Some(address("fd01::2"))).expect("v6 peer");
        let found: Vec<(IpNet, Option<IpAddr>)> =
            handle.addresses(left).expect("list").into_iter().map(|a| (a.address, a.peer)).collect();
        assert!(found.contains(&(net("10.1.2.3/24"), None)), "{found:?}");
        assert!(found.contains(&(net("10.9.0.1/32"), Some(address("10.9.0.2")))), "{found:?}");
        assert!(found.contains(&(net("fd00::1/64"), None)), "{found:?}");
        assert!(found.contains(&(net("fd01::1/128"), Some(address("fd01::2")))), "{found:?}");

        let twice = handle.add_address(left, net("10.1.2.3/24"), None).expect_err("twice");
        assert!(twice.is_already_there());
        for given in ["10.1.2.3/24", "10.9.0.1/32", "fd00::1/64", "fd01::1/128"] {
            handle.delete_address(left, net(given)).expect(given);
        }
        let left_over = handle.addresses(left).expect("list");
        assert!(left_over.iter().all(|a| a.address.addr().is_ipv6()), "{left_over:?}");
        let gone = handle.delete_address(left, net("10.1.2.3/24")).expect_err("gone");
        assert!(gone.is_not_found(), "{gone}");
    });
}

#[test]
fn routes_are_made_replaced_looked_up_and_removed() {
    in_new_namespace("routes_are_made_replaced_looked_up_and_removed", |handle| {
        handle.create_veth("left", "right", None).expect("veth");
        let left = handle.link_index("left").expect("left");
        let right = handle.link_index("right").expect("right");
        handle.set_up(left).expect("up");
        handle.set_up(right).expect("up");
        handle.add_address(left, net("10.1.0.1/24"), None).expect("v4");
        handle.add_address(left, net("fd00::1/64"), None).expect("v6");

        let mut route = Route::to(net("192.168.0.0/16")).via(address("10.1.0.2"));
        route.mtu = Some(1300);
        route.initial_cwnd = Some(4);
        route.initial_ssthresh = Some(20);
        route.quick_acks = true;
        handle.add_route(&route, Existing::Keep).expect("add");
        assert!(handle.add_route(&route, Existing::Keep).expect_err("twice").is_already_there());
        route.via = Some(address("10.1.0.3"));
        handle.add_route(&route, Existing::Replace).expect("replace");
        handle.add_route(&Route::to(net("fd05::/16")).device(left), Existing::Replace).expect("v6 on link");
        let over_six = Route::to(net("172.16.0.0/12")).via(address("fd00::9")).device(left);
        handle.add_route(&over_six, Existing::Keep).expect("v4 via v6");
        let hole = Route { kind: RouteKind::Blackhole, ..Route::to(net("203.0.113.0/24")) };
        handle.add_route(&hole, Existing::Keep).expect("blackhole");

        let found = handle.routes(254).expect("list");
        let back = found.iter().find(|r| r.destination == net("192.168.0.0/16")).expect("the route");
        assert_eq!((back.via, back.device), (Some(address("10.1.0.3")), Some(left)));
        assert_eq!((back.mtu, back.initial_cwnd), (Some(1300), Some(4)));
        assert_eq!((back.initial_ssthresh, back.quick_acks), (Some(20), true));
        let six = found.iter().find(|r| r.destination == net("172.16.0.0/12")).expect("the route");
        assert_eq!(six.via, Some(address("fd00::9")));
        assert!(found.iter().any(|r| r.destination == net("fd05::/16") && r.device == Some(left)));
        assert!(found.contains(&hole));

        let way = handle.route_to(address("192.168.7.7")).expect("way");
        assert_eq!((way.device, way.source), (Some(left), Some(address("10.1.0.1"))));

        let mut elsewhere = Route::to(net("198.51.100.0/24")).device(left);
        elsewhere.table = 1000;
        handle.add_route(&elsewhere, Existing::Keep).expect("other table");
        assert_eq!(handle.routes(1000).expect("list").len(), 1);

        for gone in [&route, &hole, &elsewhere, &over_six, &Route::to(net("fd05::/16")).device(left)] {
            handle.delete_route(gone).expect("delete");
        }
        let error = handle.delete_route(&route).expect_err("gone");
        assert!(error.is_not_found(), "{error}");
    });
}

#[test]
fn an_error_names_what_was_asked() {
    in_new_namespace("an_error_names_what_was_asked", |handle| {
        let route = Route::to(net("192.168.0.0/16")).via(address("10.1.0.2"));
        let error = handle.add_route(&route, Existing::Keep).expect_err("no such network");
        let text = error.to_string();
        assert!(
            text.starts_with("cannot add the route 192.168.0.0/16 via 10.1.0.2: Network is unreachable"),
            "{text}"
        );
        assert!(
            matches!(&error, NetlinkError::Refused { request, errno: 101, .. } if **request == Request::AddRoute(route))
        );
        let error = handle.link_index("nothing").expect_err("no such link");
        assert!(error.is_not_found());
        assert!(error.to_string().contains("find link nothing"), "{error}");
        let lo = handle.link_index("lo").expect("lo");
        let error = handle.add_address(lo, net("10.0.0.1/24"), Some(address("fd00::1"))).expect_err("mixed");
        assert!(matches!(error, NetlinkError::MixedFamilies { .. }), "{error}");
        let wrong = Route::to(net("fd00::/16")).via(address("10.0.0.1"));
        assert!(matches!(handle.add_route(&wrong, Existing::Keep), Err(NetlinkError::MixedFamilies { .. })));
    });
}

#[test]
fn queue_disciplines_and_counters() {
    in_new_namespace("queue_disciplines_and_counters", |handle| {
        handle.create_veth("left", "right", None).expect("veth");
        let left = handle.link_index("left").expect("left");
        let right = handle.link_index("right").expect("right");
        handle.set_up(left).expect("up");
        handle.set_up(right).expect("up");
        handle.add_address(left, net("10.1.0.1/24"), None).expect("v4");
        handle.qdisc_pfifo(left, 100).expect("pfifo");
        let bucket = TokenBucket::with_latency(8_000_000, 2_000, Duration::from_millis(20));
        handle.qdisc_tbf(left, bucket).expect("tbf");

        // Broadcast needs no neighbour: 40 kB at once into a queue of 22 kB must lose about half.
        let socket = std::net::UdpSocket::bind("10.1.0.1:0").expect("socket");
        socket.set_broadcast(true).expect("broadcast");
        // It empties while they are sent, so a thread that is interrupted may send more: it goes on until the queue has dropped some.
        let (mut sent, begin) = (0, Instant::now());
        let dropped = loop {
            for _ in 0..40 {
                let _ = socket.send_to(&[0; 958], "10.1.0.255:9");
            }
            sent += 40;
            let dropped = u64::from(handle.qdisc_stats(left).expect("queue").dropped);
            if dropped > 0 || begin.elapsed() > Duration::from_secs(60) {
                break dropped;
            }
        };
        // What the queue took leaves it within 20 ms.
        let (queue, stats) = loop {
            let queue = handle.qdisc_stats(left).expect("queue");
            let stats = handle.link_stats(right).expect("stats");
            let is_empty = queue.backlog_packets == 0 && u64::from(queue.packets) == stats.rx_packets;
            if is_empty || begin.elapsed() > Duration::from_secs(60) {
                break (queue, stats);
            }
            thread::sleep(Duration::from_millis(5));
        };
        assert_eq!((queue.kind.as_str(), u64::from(queue.packets)), ("tbf", stats.rx_packets), "{queue:?}");
        // Each packet was taken or dropped; the kernel sends a few of its own.
        let all = stats.rx_packets + u64::from(queue.dropped);
        assert!(dropped > 0 && (sent..sent + 30).contains(&all), "{sent} sent, {stats:?} {queue:?}");
        // Of 40 kB at once, 22 kB find room at least.
        assert!(stats.rx_packets >= 15, "{stats:?}");
        handle.delete_qdisc(left).expect("delete");
        assert!(handle.delete_qdisc(left).is_err());

        let fast =
            TokenBucket { rate_bits_per_second: 80_000_000_000, burst_bytes: 100_000, limit_bytes: 1 << 20 };
        handle.qdisc_tbf(left, fast).expect("beyond 32 bits");
    });
}

#[test]
fn routes_are_found_by_table_link_and_maker() {
    in_new_namespace("routes_are_found_by_table_link_and_maker", |handle| {
        let lo = handle.link_index("lo").expect("lo");
        handle.set_up(lo).expect("up");
        let of_others = Route::to(net("10.1.0.0/16")).device(lo);
        let ours = Route { protocol: 116, ..Route::to(net("10.2.0.0/16")).device(lo).table(4600) };
        let last = u32::MAX - 1;
        let blocks = ["10.2.0.0/16", "fd00:2::/64"].map(|prefix| Route {
            kind: RouteKind::Unreachable,
            protocol: 116,
            ..Route::to(net(prefix)).metric(last)
        });
        for route in blocks.iter().chain([&of_others, &ours]) {
            handle.add_route(route, Existing::Keep).expect("route");
        }
        let find = |handle: &mut Handle, filter: RouteFilter| -> Vec<String> {
            let found = handle.routes_where(filter).expect("routes");
            found.iter().map(|route| format!("{} {:?}", route.destination, route.kind)).collect()
        };
        let all = RouteFilter { protocol: Some(116), ..RouteFilter::default() };
        let mut found = find(handle, all);
        found.sort();
        assert_eq!(found, ["10.2.0.0/16 Unicast", "10.2.0.0/16 Unreachable", "fd00:2::/64 Unreachable"]);
        let table = RouteFilter { table: Some(4600), device: Some(lo), protocol: None };
        assert_eq!(find(handle, table), ["10.2.0.0/16 Unicast"]);
        // What is not there has no routes.
        assert_eq!(find(handle, RouteFilter { table: Some(4601), ..RouteFilter::default() }), [""; 0]);
        assert_eq!(find(handle, RouteFilter { device: Some(99), ..RouteFilter::default() }), [""; 0]);

        // The other maker's route of the same prefix stays.
        let theirs = Route { protocol: 4, ..Route::to(net("10.2.0.0/16")).device(lo) };
        handle.add_route(&theirs, Existing::Keep).expect("route");
        for route in &blocks {
            handle.delete_route(route).expect("delete");
        }
        assert_eq!(find(handle, all), ["10.2.0.0/16 Unicast"]);
        assert!(handle.routes(254).expect("routes").contains(&theirs));
        // Other requests are none the stricter for it.
        assert!(handle.addresses(lo).expect("addresses").len() <= 2);
    });
}

#[test]
fn an_unreachable_route_of_high_metric_takes_over_when_the_link_goes() {
    in_new_namespace("an_unreachable_route_of_high_metric_takes_over_when_the_link_goes", |handle| {
        handle.create_veth("left", "right", None).expect("veth");
        let [left, right] = ["left", "right"].map(|name| handle.link_index(name).expect("index"));
        handle.set_up(left).expect("up");
        handle.set_up(right).expect("up");
        for (prefix, inside) in [("10.2.0.0/16", "10.2.0.1"), ("fd00:2::/64", "fd00:2::1")] {
            let block = Route {
                kind: RouteKind::Unreachable,
                protocol: 116,
                ..Route::to(net(prefix)).metric(0xf000_0000)
            };
            handle.add_route(&block, Existing::Keep).expect("block");
            handle.add_route(&Route::to(net(prefix)).device(left), Existing::Keep).expect("route");
            assert_eq!(handle.route_to(address(inside)).expect("route").device, Some(left));
        }
        handle.delete_link(left).expect("delete");
        for inside in ["10.2.0.1", "fd00:2::1"] {
            let error = handle.route_to(address(inside)).expect_err("unreachable");
            assert_eq!(error.errno(), Some(113), "EHOSTUNREACH: {error}");
        }
    });
}

#[test]
fn a_local_route_delivers_what_takes_it_to_this_host() {
    in_new_namespace("a_local_route_delivers_what_takes_it_to_this_host", |handle| {
        let lo = handle.link_index("lo").expect("lo");
        handle.set_up(lo).expect("up");
        for (any, elsewhere, family) in
            [("0.0.0.0/0", "192.0.2.1", Family::V4), ("::/0", "2001:db8::1", Family::V6)]
        {
            let local = Route { kind: RouteKind::Local, ..Route::to(net(any)).device(lo).table(70_001) };
            handle.add_route(&local, Existing::Keep).expect("route");
            let found = handle.routes(70_001).expect("routes");
            assert!(found.iter().any(|route| route.kind == RouteKind::Local), "{found:?}");
            let rule = Rule {
                family,
                priority: 9,
                table: 70_001,
                mark: None,
                suppress_prefix_len: None,
                protocol: 9,
            };
            assert!(handle.route_to(address(elsewhere)).is_err());
            handle.add_rule(&rule).expect("rule");
            let route = handle.route_to(address(elsewhere)).expect("a route");
            assert_eq!((route.kind, route.device), (RouteKind::Local, Some(lo)));
            handle.delete_rule(&rule).expect("delete");
            handle.delete_route(&local).expect("delete");
            assert_eq!(handle.routes(70_001).expect("routes"), []);
        }
    });
}

#[test]
fn rules_are_made_listed_and_removed() {
    in_new_namespace("rules_are_made_listed_and_removed", |handle| {
        for family in Family::BOTH {
            let before = handle.rules(family).expect("rules");
            let to_table = Rule {
                family,
                priority: 30_001,
                table: 70_000,
                mark: Some(RuleMark::IsNot(0x746c)),
                suppress_prefix_len: None,
                protocol: 116,
            };
            let main_first = Rule {
                priority: 30_000,
                table: 254,
                mark: None,
                suppress_prefix_len: Some(0),
                ..to_table.clone()
            };
            let marked = Rule { priority: 30_002, mark: Some(RuleMark::Is(7)), ..to_table.clone() };
            for rule in [&to_table, &main_first, &marked] {
                handle.add_rule(rule).expect("rule");
                assert!(handle.add_rule(rule).expect_err("it is there").is_already_there());
            }
            let ours = |handle: &mut Handle| -> Vec<Rule> {
                let rules = handle.rules(family).expect("rules");
                rules.into_iter().filter(|rule| rule.protocol == 116).collect()
            };
            assert_eq!(ours(handle), [main_first.clone(), to_table.clone(), marked.clone()]);
            for rule in [&to_table, &main_first, &marked] {
                handle.delete_rule(rule).expect("delete");
                assert!(handle.delete_rule(rule).expect_err("it is gone").is_not_found());
            }
            assert_eq!(handle.rules(family).expect("rules"), before);
        }
    });
}

#[test]
fn a_monitor_tells_what_changes() {
    in_new_namespace("a_monitor_tells_what_changes", |handle| {
        let mut monitor = Monitor::open().expect("monitor");
        assert_eq!(monitor.read(16), []);
        handle.create_veth("left", "right", None).expect("veth");
        let [left, right] = ["left", "right"].map(|name| handle.link_index(name).expect("index"));
        handle.set_up(left).expect("up");
        handle.set_up(right).expect("up");
        handle.add_address(left, net("10.0.0.1/24"), None).expect("address");
        let route = Route::to(net("10.2.0.0/16")).device(left);
        handle.add_route(&route, Existing::Keep).expect("route");
        let events = monitor.read(1000);
        let has = |what: &dyn Fn(&Event) -> bool| events.iter().any(what);
        assert!(
            has(&|event| matches!(event, Event::Link(link) if link.index == left && link.up)),
            "{events:?}"
        );
        let ten = net("10.0.0.1/24");
        assert!(
            has(
                &|event| matches!(event, Event::Address { device, address } if (*device, address.address) == (left, ten))
            ),
            "{events:?}"
        );
        assert!(has(&|event| matches!(event, Event::Route(told) if *told == route)), "{events:?}");
        handle.delete_route(&route).expect("delete");
        handle.delete_address(left, ten).expect("delete");
        handle.delete_link(left).expect("delete");
        let events = monitor.read(1000);
        let has = |what: &dyn Fn(&Event) -> bool| events.iter().any(what);
        assert!(has(&|event| matches!(event, Event::RouteRemoved(told) if *told == route)), "{events:?}");
        assert!(
            has(
                &|event| matches!(event, Event::AddressRemoved { device, address } if (*device, address.address) == (left, ten))
            ),
            "{events:?}"
        );
        assert!(has(&|event| *event == Event::LinkRemoved { device: left }), "{events:?}");
        handle
            .add_rule(&Rule {
                family: Family::V4,
                priority: 30_000,
                table: 99,
                mark: None,
                suppress_prefix_len: None,
                protocol: 116,
            })
            .expect("rule");
        assert_eq!(monitor.read(1000), [Event::Rules]);
    });
}

#[test]
fn a_connection_in_time_wait_is_listed_found_and_forgotten() {
    in_new_namespace("a_connection_in_time_wait_is_listed_found_and_forgotten", |handle| {
        let device = handle.link_index("lo").expect("lo");
        handle.set_up(device).expect("up");
        let mut ended = TimeWaits::open().expect("a socket");
        for (family, ip) in [(Family::V4, "127.0.0.1"), (Family::V6, "::1")] {
            let Ok(listener) = TcpListener::bind((address(ip), 0)) else {
                println!("SKIPPED {family}");
                continue;
            };
            let (local, remote) = close_first(&listener);
            let other = close_first(&listener);
            let listed = ended.list(family).expect("a list");
            for ends in [(local, remote), other] {
                assert!(listed.iter().any(|one| (one.local, one.remote) == ends), "{ends:?}: {listed:?}");
            }
            assert_eq!(ended.find(remote, local).expect("an answer"), None, "the other end has forgotten it");
            let found = ended.find(local, remote).expect("an answer").expect("it");
            assert!(ended.forget(&found).expect("an answer"));
            assert!(!ended.forget(&found).expect("an answer"), "twice");
            assert_eq!(ended.find(local, remote).expect("an answer"), None);
            assert!(ended.find(other.0, other.1).expect("an answer").is_some(), "the other one stays");
            drop(listener);
        }
    });
}

/// Opens a connection that its opener closes first. The addresses of its ends, the opener's first.
fn close_first(listener: &TcpListener) -> (SocketAddr, SocketAddr) {
    let mut near = TcpStream::connect(listener.local_addr().expect("it")).expect("a connection");
    let (mut far, _) = listener.accept().expect("a connection");
    let ends = (near.local_addr().expect("it"), near.peer_addr().expect("it"));
    near.shutdown(Shutdown::Write).expect("closed");
    far.read_to_end(&mut Vec::new()).expect("the end");
    drop(far);
    near.read_to_end(&mut Vec::new()).expect("the end");
    ends
}

#[test]
fn a_table_of_the_packet_filter_is_made_replaced_and_removed() {
    in_new_namespace("a_table_of_the_packet_filter_is_made_replaced_and_removed", |_| {
        let mut filter = PacketFilter::open().expect("a socket");
        match filter.exists("test") {
            Err(error) => {
                println!("SKIPPED: lacks the packet filter nf_tables ({error})");
                return;
            }
            Ok(there) => assert!(!there),
        }
        let mut table = filter_table(Owner::Socket);
        filter.replace(&table).expect("a table");
        filter.replace(&table).expect("another in its place");
        assert!(filter.exists("test").expect("an answer"));

        let mut other = PacketFilter::open().expect("a socket");
        assert_eq!(other.replace(&table).expect_err("it has an owner").errno(), Some(1), "EPERM");
        drop(filter);
        assert!(!other.exists("test").expect("an answer"), "it went with its owner");
        assert!(!other.delete("test").expect("an answer"));

        table.owner = Owner::Nobody;
        other.replace(&table).expect("a table");
        drop(other);
        let mut filter = PacketFilter::open().expect("a socket");
        assert!(filter.exists("test").expect("an answer"), "it stays");
        assert!(filter.delete("test").expect("an answer"));
        assert!(!filter.exists("test").expect("an answer"));
    });
}

#[test]
fn a_monitor_of_the_packet_filter_names_the_table_and_who_has_changed_it() {
    in_new_namespace("a_monitor_of_the_packet_filter_names_the_table_and_who_has_changed_it", |_| {
        let (mut mine, mut theirs) =
            (PacketFilter::open().expect("a socket"), PacketFilter::open().expect("a socket"));
        if mine.exists("test").is_err() {
            println!("SKIPPED: lacks the packet filter nf_tables");
            return;
        }
        let mut monitor = FilterMonitor::open().expect("a socket");
        assert_eq!(monitor.read(64), [], "nothing has changed");
        let changed = |by: &PacketFilter| {
            FilterEvent::Changed(FilterChange { table: "test".to_owned(), by: by.port() })
        };
        mine.replace(&filter_table(Owner::Nobody)).expect("a table");
        assert_eq!(monitor.read(64), [changed(&mine)]);
        assert!(theirs.delete("test").expect("an answer"));
        assert_eq!(monitor.read(64), [changed(&theirs)]);
        theirs.replace(&FilterTable { name: "other".to_owned(), ..filter_table(Owner::Nobody) }).expect("it");
        let other = FilterChange { table: "other".to_owned(), by: theirs.port() };
        assert_eq!(monitor.read(64), [FilterEvent::Changed(other)]);
        assert_ne!(mine.port(), theirs.port());
    });
}

#[test]
fn a_refused_rule_is_named_and_changes_nothing() {
    in_new_namespace("a_refused_rule_is_named_and_changes_nothing", |_| {
        let mut filter = PacketFilter::open().expect("a socket");
        if filter.exists("test").is_err() {
            println!("SKIPPED: lacks the packet filter nf_tables");
            return;
        }
        let mut table = filter_table(Owner::Socket);
        // There is nothing to give a packet to where it is sent.
        table.chains[1].rules.push(FilterRule {
            conditions: vec![Condition::Family(Family::V4), Condition::Protocol(6)],
            tproxy: Some(Tproxy("127.0.0.1:1".parse().expect("an address"))),
            ..FilterRule::default()
        });
        let error = filter.replace(&table).expect_err("it cannot be");
        assert!(error.to_string().contains("rule nfproto IPv4 l4proto 6 tproxy to 127.0.0.1:1"), "{error}");
        assert!(!filter.exists("test").expect("an answer"));
    });
}

/// A table with every condition and every action.
fn filter_table(owner: Owner) -> FilterTable {
    let rule = |conditions: Vec<Condition>| FilterRule { conditions, mark: Some(7), ..FilterRule::default() };
    let rules = vec![
        rule(vec![Condition::Link("lo".to_owned()), Condition::Mark(9)]),
        rule(vec![Condition::OtherLink("lo".to_owned()), Condition::Source(net("10.1.0.0/16"))]),
        rule(vec![Condition::Destination(net("2001:db8::/33")), Condition::DestinationPort(80..=90)]),
        rule(vec![Condition::TcpFlags { mask: 0x17, value: 2 }]),
        rule(vec![Condition::Icmp { protocol: 1, kind: 3 }]),
        rule(vec![Condition::Protocol(6), Condition::TransparentSocket, Condition::SocketMark(8)]),
        FilterRule {
            conditions: vec![Condition::Family(Family::V6), Condition::Protocol(6)],
            tproxy: Some(Tproxy("[::1]:4600".parse().expect("an address"))),
            ..FilterRule::default()
        },
    ];
    let masquerade = FilterRule {
        conditions: vec![Condition::Source(net("10.1.0.1/32")), Condition::Protocol(17)],
        masquerade: true,
        ..FilterRule::default()
    };
    let chain = |name: &str, hook, rules| FilterChain { name: name.to_owned(), hook, priority: -150, rules };
    let chains = vec![
        chain("in", Hook::Prerouting, rules),
        chain("out", Hook::Output, vec![rule(vec![Condition::Mark(9)])]),
        chain("leave", Hook::Postrouting, vec![masquerade]),
    ];
    FilterTable { name: "test".to_owned(), owner, chains }
}
