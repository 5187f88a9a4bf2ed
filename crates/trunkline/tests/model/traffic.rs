//! Numbered datagrams that pass through the trunk during the whole sequence.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trunkline_testbed::namespace::{Host, Task};

use super::step::Site;

const PORT: u16 = 7000;

pub(crate) fn address(site: Site) -> IpAddr {
    Ipv4Addr::new(198, 19, site.number(), 1).into()
}

/// Numbered datagrams from every site to every other, and who has received which.
pub(crate) struct Datagrams {
    stop: Arc<AtomicBool>,
    senders: Vec<Task<()>>,
    sinks: Vec<Task<Result<u64, String>>>,
}

impl Datagrams {
    pub(crate) fn start(host_of: impl Fn(Site) -> Arc<Host>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut senders, mut sinks) = (Vec::new(), Vec::new());
        for site in Site::ALL {
            let host = host_of(site);
            let socket = host.run(|| UdpSocket::bind(("0.0.0.0", PORT)))?;
            socket.set_read_timeout(Some(Duration::from_millis(100)))?;
            let stopped = Arc::clone(&stop);
            sinks.push(host.spawn("sink", move || sink(&socket, &stopped)));
            let socket = host.run(|| UdpSocket::bind(("0.0.0.0", 0)))?;
            let stopped = Arc::clone(&stop);
            senders.push(host.spawn("source", move || source(site, &socket, &stopped)));
        }
        Ok(Self { stop, senders, sinks })
    }

    /// Stops them; how many have arrived. An error if one has arrived twice.
    pub(crate) fn finish(&mut self) -> Result<u64, String> {
        // What is on its way may still arrive.
        std::thread::sleep(Duration::from_millis(300));
        self.stop.store(true, Ordering::Relaxed);
        self.senders.drain(..).for_each(Task::join);
        let mut arrived = 0;
        for sink in self.sinks.drain(..) {
            arrived += sink.join()?;
        }
        Ok(arrived)
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn source(site: Site, socket: &UdpSocket, stop: &AtomicBool) {
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        for to in Site::ALL.into_iter().filter(|to| *to != site) {
            // The length varies, so that they belong to one class and then to another.
            let mut datagram = vec![0; 16 + (number % 700) as usize];
            datagram[..8].copy_from_slice(&number.to_be_bytes());
            datagram[8] = site.number();
            // Without a route it goes nowhere.
            let _ = socket.send_to(&datagram, (address(to), PORT));
            number += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn sink(socket: &UdpSocket, stop: &AtomicBool) -> Result<u64, String> {
    let mut seen = BTreeSet::new();
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        let Ok(len) = socket.recv(&mut buffer) else { continue };
        let number = u64::from_be_bytes(*buffer.first_chunk().expect("long enough"));
        if len < 16 || !seen.insert((buffer[8], number)) {
            return Err(format!("datagram {number} of site {} arrived twice", buffer[8]));
        }
    }
    Ok(seen.len() as u64)
}
