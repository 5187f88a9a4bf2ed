//! A congestion control that is loaded into the kernel: it is there while it is held, it carries data, and it goes.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use rustix::net::sockopt;
use trunkline_link::LinkSettings;
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_testbed::congestion::{Loadable, Loaded};
use trunkline_testbed::link::{Direction, DuplexSettings};
use trunkline_testbed::privilege;
use trunkline_units::Rate;

use common::{A, B, pair};

fn available() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("the list")
}

#[test]
fn a_loaded_bic_carries_data_while_it_is_held_and_then_goes() {
    let name = "a_loaded_bic_carries_data_while_it_is_held_and_then_goes";
    if !privilege::available(name) {
        return;
    }
    let missing = Loadable::missing();
    if !missing.is_empty() {
        println!("SKIPPED {name}: this machine lacks {}", missing.join(", "));
        return;
    }
    for which in [Loadable::Bic, Loadable::BicOriginal, Loadable::Bic266] {
        let loaded = Loaded::get(which).expect("loaded");
        let shared = Loaded::get(which).expect("shared");
        assert!(available().contains(&which.name()), "{}", available());
        transfer(&which.name());
        drop(loaded);
        assert!(available().contains(&which.name()), "one still holds it");
        drop(shared);
        assert!(!available().contains(&which.name()), "{}", available());
    }
}

/// 2 MB over a link that drops some of them.
fn transfer(congestion_control: &str) {
    const BYTES: usize = 2 << 20;
    let way = LinkSettings::new(Rate::from_mbit(50.0), Duration::from_millis(5));
    let mut settings = DuplexSettings::symmetric(way);
    settings.forward.queue = QueueSettings::TailDrop(Limits { segments: 20, bytes: u64::MAX });
    let pair = pair(&settings);
    let listener = pair.b.run(|| TcpListener::bind((B, 9000))).expect("a listener");
    let reader = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("a connection");
        connection.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        let mut data = Vec::new();
        connection.read_to_end(&mut data).expect("all data");
        data.len()
    });
    let mut sender = pair.a.run(|| TcpStream::connect((B, 9000))).expect("connected");
    assert_eq!(sender.local_addr().expect("an address").ip().to_string(), A);
    sockopt::set_tcp_congestion(&sender, congestion_control).expect("it may be chosen");
    sender.write_all(&vec![7; BYTES]).expect("sent");
    sender.shutdown(Shutdown::Write).expect("the end");
    assert_eq!(reader.join().expect("no panic"), BYTES);
    let dropped = pair.link.counters(Direction::Forward).dropped.queue;
    assert!(dropped > 0, "it never filled the queue");
}
