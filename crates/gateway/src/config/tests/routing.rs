//! Tables, what blocks on exit, whose addresses are whose, and warnings of loops.

use super::*;

const B: &str = "[\"10.2.0.0/16\"]";

fn with(tun: &str, peers: &[(&str, &str, &str)]) -> Config {
    let peers: String = peers.iter().map(|(name, key, routes)| peer(name, key, routes)).collect();
    ok(&format!("[tun]\n{tun}\n{peers}"))
}

fn at(config: &str, endpoint: &str) -> Vec<String> {
    ok(&format!(
        "{config}\n[[peers]]\nname = \"b\"\npublic_key = \"{KEY_B}\"\nendpoint = {endpoint:?}\nroutes = \
         [\"0.0.0.0/0\", \"10.0.0.0/8\"]\n"
    ))
    .warnings()
}

#[test]
fn tables_are_words_or_numbers() {
    for (text, table) in [
        ("", RoutingTable::Auto),
        ("table = \"auto\"", RoutingTable::Auto),
        ("table = \"main\"", RoutingTable::Main),
        ("table = 254", RoutingTable::Main),
        ("table = 4600", RoutingTable::Number(4600)),
    ] {
        assert_eq!(ok(&format!("[tun]\n{text}")).tun.table, table, "{text}");
    }
    for wrong in ["0", "253", "255", "4294967296", "\"local\"", "true"] {
        assert!(error(&format!("[tun]\ntable = {wrong}")).contains("tun.table: "), "{wrong}");
    }
    assert_eq!(ok("").tun.on_exit, OnExit::Block);
    assert_eq!(ok("[tun]\non_exit = \"pass\"").tun.on_exit, OnExit::Pass);
    assert!(error("[tun]\non_exit = \"leave\"").contains("tun.on_exit: "));
}

#[test]
fn only_default_routes_have_a_table_and_a_mark_of_their_own() {
    let plain = with("", &[("b", KEY_B, B)]);
    assert_eq!((plain.default_routing(), plain.fwmark), (None, None));
    let all = with("", &[("b", KEY_B, "[\"0.0.0.0/0\", \"10.2.0.0/16\"]")]);
    let routing = all.default_routing().unwrap();
    assert_eq!((routing.table, all.fwmark), (AUTO_TABLE, Some(routing.mark)));
    let tables: Vec<u32> = all.peers[0].routes.iter().map(|route| all.table_of(*route)).collect();
    assert_eq!(tables, [AUTO_TABLE, MAIN_TABLE]);
    let marked = with("[lanes]\nfwmark = 7", &[("b", KEY_B, "[\"::/0\"]")]);
    assert_eq!(marked.default_routing().unwrap().mark, 7);
    let main = with("table = \"main\"", &[("b", KEY_B, "[\"0.0.0.0/0\"]")]);
    assert_eq!((main.default_routing(), main.fwmark), (None, None));
    let own = with("table = 9", &[("b", KEY_B, "[\"0.0.0.0/0\", \"10.2.0.0/16\"]")]);
    assert!(own.default_routing().is_none() && own.peers[0].routes.iter().all(|r| own.table_of(*r) == 9));
}

#[test]
fn the_only_peer_has_the_tunnel_addresses_and_of_several_each_must_say() {
    let address = "address = [\"10.255.0.1/30\", \"fd00:255::1/127\"]";
    let one = with(address, &[("b", KEY_B, B)]);
    let owned: Vec<String> = one.prefixes_of(&one.peers[0]).iter().map(ToString::to_string).collect();
    assert_eq!(owned, ["10.2.0.0/16", "10.255.0.2/31", "10.255.0.0/32", "fd00:255::/128"]);
    assert!(!one.warnings().iter().any(|warning| warning.contains("forged")));

    let two = with(
        address,
        &[("b", KEY_B, "[\"10.2.0.0/16\", \"10.255.0.2/32\"]"), ("c", KEY_C, "[\"10.3.0.0/16\"]")],
    );
    assert_eq!(two.prefixes_of(&two.peers[0]), two.peers[0].routes);
    let warnings = two.warnings();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].starts_with("peers.c.routes: holds no address of 10.255.0.0/30"), "{}", warnings[0]);
    assert!(warnings[1].starts_with("peers.b.routes: holds no address of fd00:255::/127"), "{}", warnings[1]);
    let wide = with(
        "address = [\"10.255.0.1/24\"]",
        &[("b", KEY_B, "[\"10.0.0.0/8\"]"), ("c", KEY_C, "[\"10.255.0.3/32\"]")],
    );
    assert_eq!(wide.warnings(), [""; 0]);
}

#[test]
fn loops_of_the_lanes_own_packets_are_warned_of() {
    // The own table keeps lanes out of the default route, and of no other.
    assert_eq!(at("", "192.0.2.1:4600"), [""; 0]);
    assert!(at("", "10.9.0.1:4600")[0].contains("lies within 10.0.0.0/8"));
    assert!(at("[tun]\ntable = \"main\"", "192.0.2.1:4600")[0].contains("lies within 0.0.0.0/0"));
    // Who gives a mark, or a table, has rules.
    assert_eq!(at("[tun]\ntable = \"main\"\n[lanes]\nfwmark = 7", "10.9.0.1:4600"), [""; 0]);
    assert_eq!(at("[tun]\ntable = 7", "10.9.0.1:4600"), [""; 0]);
    let name = at("", "b.example.net:4600");
    assert!(name[0].contains("a name server within it") && !name[0].contains("may lie"), "{name:?}");
    let name = at("[tun]\ntable = \"main\"", "b.example.net:4600");
    assert!(name[0].contains("may lie within it"), "{name:?}");
}
