//! A proxy between a client and a server; in namespaces.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, Protocol, RawProtocol, SendFlags, SocketType, sockopt};
use trunkline_netlink::{Family, PacketFilter};
use trunkline_packet::{TcpFlags, build};
use trunkline_status::ProxiesStatus;
use trunkline_testbed::namespace::{Host, Process, veth};
use trunkline_testbed::{privilege, procfs};

use super::site::{Directory, PROGRAM, proxies_status, until};

/// The client is behind the proxy. IPv4, then IPv6.
pub(crate) const CLIENT: [&str; 2] = ["10.1.0.2", "fd00:1::2"];
pub(crate) const SERVER: [&str; 2] = ["10.2.0.2", "fd00:2::2"];
pub(crate) const CELL: &str =
    "[[proxies]]\nname = \"cell\"\nbehind = [\"10.1.0.0/16\", \"fd00:1::/64\"]\nmode = \"split\"\n";

/// A client, the host with the proxy, a server.
pub(crate) struct Scene {
    pub(crate) client: Host,
    pub(crate) router: Host,
    pub(crate) server: Host,
    pub(crate) directory: Directory,
    /// Versions of IP that the machine has.
    pub(crate) versions: usize,
}

impl Scene {
    /// `None`, with a message, if the machine lacks a requirement.
    pub(crate) fn new(test: &str) -> Option<Scene> {
        if !privilege::available(test) {
            return None;
        }
        let router = Host::new("router").expect("a host");
        if let Err(error) = router.run(|| PacketFilter::open().and_then(|mut filter| filter.exists("none"))) {
            println!("SKIPPED {test}: lacks the packet filter nf_tables ({error})");
            return None;
        }
        let client = Host::new("client").expect("a host");
        let server = Host::new("server").expect("a host");
        veth(&client, "up", &router, "inside").expect("a link");
        veth(&server, "up", &router, "outside").expect("a link");
        router.forwarding().expect("forwarding");
        // As most distributions have it.
        for name in ["all", "inside", "outside"] {
            router.sysctl(&format!("net.ipv4.conf.{name}.rp_filter"), "1").expect("a filter");
        }
        let versions = if std::path::Path::new("/proc/net/if_inet6").exists() { 2 } else { 1 };
        for version in 0..versions {
            let (mask, zero) = [("24", "0.0.0.0/0"), ("64", "::/0")][version];
            for (host, device, ip) in [
                (&client, "up", CLIENT[version]),
                (&router, "inside", ["10.1.0.1", "fd00:1::1"][version]),
                (&router, "outside", ["10.2.0.1", "fd00:2::1"][version]),
                (&server, "up", SERVER[version]),
            ] {
                host.address(device, format!("{ip}/{mask}").parse().expect("an address"), None).expect("set");
            }
            for (host, gateway) in
                [(&client, ["10.1.0.1", "fd00:1::1"][version]), (&server, ["10.2.0.1", "fd00:2::1"][version])]
            {
                host.route(zero.parse().expect("a prefix"), ip(gateway)).expect("a route");
            }
        }
        for version in 0..versions {
            for (host, address) in [(&client, CLIENT[version]), (&server, SERVER[version])] {
                // One of IPv6 is tentative at first.
                until("an address", || host.run(|| UdpSocket::bind((ip(address), 0))).is_ok());
            }
        }
        Some(Scene { client, router, server, directory: Directory::new(), versions })
    }

    pub(crate) fn file(&self) -> std::path::PathBuf {
        self.directory.0.join("proxy.toml")
    }

    pub(crate) fn socket(&self) -> std::path::PathBuf {
        self.directory.0.join("proxy.sock")
    }

    /// What the proxy says of itself.
    pub(crate) fn status(&self) -> ProxiesStatus {
        proxies_status(&self.socket())
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.0.join("log")).unwrap_or_default()
    }

    /// Starts the proxy and waits until it is ready.
    pub(crate) fn start(&self, settings: &str) -> Process {
        self.start_by(Command::new(PROGRAM), settings)
    }

    /// The same with at most so many descriptors.
    pub(crate) fn start_with_descriptors(&self, limit: u64, settings: &str) -> Process {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\""), PROGRAM]);
        self.start_by(shell, settings)
    }

    fn start_by(&self, command: Command, settings: &str) -> Process {
        let control = format!("\n[control]\nsocket = \"{}\"\n", self.socket().display());
        fs::write(self.file(), settings.to_owned() + &control).expect("a file");
        let mut process = self.launch_by(command);
        until("the proxy is ready", || {
            assert_eq!(process.try_wait().expect("its state"), None, "it ended: {}", self.log());
            self.log().contains("ready")
        });
        process
    }

    pub(crate) fn launch(&self) -> Process {
        self.launch_by(Command::new(PROGRAM))
    }

    /// Starts the proxy by a command that ends with the program.
    fn launch_by(&self, mut command: Command) -> Process {
        let log = File::create(self.directory.0.join("log")).expect("a log");
        let out = File::create(self.directory.0.join("out")).expect("a file");
        command.arg("proxy").arg("--json").arg(self.file()).stderr(log).stdout(out).stdin(Stdio::null());
        self.router.command(command).expect("it starts")
    }

    /// Ends the proxy; its counts.
    pub(crate) fn end(&self, mut process: Process) -> ProxiesStatus {
        let ended = process.terminate(Duration::from_secs(10)).expect("its end");
        assert_eq!(ended.code(), Some(0), "{}", self.log());
        serde_json::from_str(&fs::read_to_string(self.directory.0.join("out")).expect("its counts"))
            .expect("JSON")
    }

    /// A server that takes one connection.
    pub(crate) fn listen(&self, version: usize) -> (SocketAddr, TcpListener) {
        listen(&self.server, SERVER[version])
    }

    /// What the proxy has left in the router: rules, and the table of the packet filter.
    pub(crate) fn left(&self) -> (usize, bool) {
        let rules = self.router.netlink(|handle| {
            let mut ours = 0;
            for family in Family::BOTH {
                ours += handle.rules(family)?.iter().filter(|rule| rule.protocol == 112).count();
            }
            Ok(ours)
        });
        let table =
            self.router.run(|| PacketFilter::open().and_then(|mut filter| filter.exists("trunkline-proxy")));
        (rules.expect("rules"), table.expect("an answer"))
    }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(crate) fn listen(host: &Host, address: &str) -> (SocketAddr, TcpListener) {
    let listener = host.run(|| TcpListener::bind((ip(address), 0))).expect("a listener");
    // A test that waits for a connection that never comes fails in place of hanging.
    let limit = Some(Duration::from_secs(60));
    sockopt::set_socket_timeout(&listener, sockopt::Timeout::Recv, limit).expect("a limit");
    (listener.local_addr().expect("its address"), listener)
}

pub(crate) fn connect(host: &Host, to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = host.run(|| TcpStream::connect_timeout(&to, Duration::from_secs(20)))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.set_write_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}

/// Sends a SYN with any source from a host.
pub(crate) fn forge_syn(raw: &OwnedFd, from: SocketAddr, to: SocketAddr, isn: u32) {
    let header = build::Ip { source: from.ip(), destination: to.ip(), ..build::Ip::v4() };
    let tcp = build::Tcp {
        ports: (from.port(), to.port()),
        seq: isn,
        ack: 0,
        flags: TcpFlags::SYN,
        ..build::Tcp::default()
    };
    let packet = build::tcp(&header, &tcp, b"");
    let _ = rustix::net::sendto(raw, &packet, SendFlags::empty(), &SocketAddr::new(to.ip(), 0));
}

/// A socket for [`forge_syn`].
pub(crate) fn raw_socket(host: &Host) -> OwnedFd {
    let raw = RawProtocol::new(255).map(Protocol::from_raw);
    host.run(|| rustix::net::socket(AddressFamily::INET, SocketType::RAW, raw)).expect("a raw socket")
}

/// A connection with both its ends.
pub(crate) fn connection(from: &Host, to: SocketAddr, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let near = connect(from, to).expect("a connection");
    let (far, _) = listener.accept().expect("a connection");
    far.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    (near, far)
}

/// Sends `bytes` and closes; how long the other end took to have everything.
pub(crate) fn transfer(mut from: TcpStream, mut to: TcpStream, bytes: usize) -> Duration {
    let start = Instant::now();
    let data: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
    let expected = data.clone();
    let writer = std::thread::spawn(move || {
        from.write_all(&data).expect("sent");
        from.shutdown(std::net::Shutdown::Write).expect("closed");
        from
    });
    let mut received = Vec::new();
    to.read_to_end(&mut received).expect("received");
    assert!(received == expected, "{} bytes of {bytes}, or others", received.len());
    let took = start.elapsed();
    drop(writer.join().expect("it is sent"));
    took
}

/// Resident memory of a process, bytes.
pub(crate) fn resident(pid: u32) -> u64 {
    procfs::memory(pid).expect("its memory").resident_bytes
}
