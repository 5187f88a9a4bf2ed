//! Sites set up, joined and removed by the commands for it, in network namespaces; and what becomes of those who may not join.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::site::{Directory, PROGRAM, ask, until};
use ipnet::IpNet;
use trunkline_gateway::handshake::{Dialer, HandshakeError, Hello, Identity, Join, RefusalReason, VERSION};
use trunkline_gateway::join::{Invitation, JoinError, request};
use trunkline_gateway::keys::SecretKey;
use trunkline_schema::Encryption;
use trunkline_status::Request;
use trunkline_testbed::namespace::{Host, Process, veth};
use trunkline_testbed::privilege;

/// A gateway and the host behind it.
struct Office {
    gateway: Host,
    inside: Host,
    /// Its site's name, of which there is one in this machine.
    name: String,
    directory: PathBuf,
}

impl Office {
    /// An office with the LAN 10.NUMBER.0.0/16.
    fn new(all: &Directory, name: &str, number: u8) -> Self {
        let (gateway, inside) = (Host::new(name).expect("a host"), Host::new("inside").expect("a host"));
        veth(&gateway, "lan", &inside, "lan").expect("a line");
        gateway.address("lan", net(&format!("10.{number}.0.1/16")), None).expect("an address");
        inside.address("lan", net(&format!("10.{number}.0.9/16")), None).expect("an address");
        inside
            .route(net("0.0.0.0/0"), format!("10.{number}.0.1").parse().expect("an address"))
            .expect("a route");
        let name = format!("{name}-{}", std::process::id());
        let directory = all.0.join(&name);
        Office { gateway, inside, name, directory }
    }

    /// Puts it at a WAN of its own with `other`.
    fn connect(&self, other: &Office, number: u8) {
        veth(&self.gateway, &format!("wan{number}"), &other.gateway, "wan").expect("a line");
        let address = |last: u8| net(&format!("192.0.{number}.{last}/24"));
        self.gateway.address(&format!("wan{number}"), address(1), None).expect("an address");
        other.gateway.address("wan", address(2), None).expect("an address");
        other.gateway.route_out(net("0.0.0.0/0"), "wan").expect("a route");
    }

    fn file(&self) -> PathBuf {
        self.directory.join(format!("{}.toml", self.name))
    }

    fn socket(&self) -> PathBuf {
        Path::new("/run/trunkline").join(format!("{}.sock", self.name))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).arg("--directory").arg(&self.directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end: its exit code, its result and its remarks.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        ended(self.gateway.command(self.command(arguments)).expect("it starts"))
    }

    /// Starts its gateway, and waits until it answers.
    fn up(&self) -> Process {
        until("the site's file", || self.file().exists());
        let mut command = Command::new(PROGRAM);
        command.arg("up").arg(self.file()).stderr(Stdio::null());
        let mut process = self.gateway.command(command).expect("it starts");
        until("the gateway answers", || {
            assert_eq!(process.try_wait().expect("its state"), None, "it ended");
            ask(&self.socket(), &Request::Status).is_ok()
        });
        process
    }

    /// Opens an invitation; the command waits.
    fn invite(&self, arguments: &[&str]) -> (Process, String) {
        let mut all = vec!["invite"];
        all.extend(arguments);
        let mut process = self.gateway.command(self.command(&all)).expect("it starts");
        let invitation = first_line(&mut process);
        (process, invitation)
    }

    /// Asks to join, as `trunkline join` does, without a site.
    fn ask(&self, invitation: &str, join: &Join) -> Result<String, JoinError> {
        let invitation: Invitation = invitation.parse().expect("an invitation");
        self.gateway.run(|| request(&invitation, join))
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.socket());
    }
}

fn net(text: &str) -> IpNet {
    text.parse().expect("a prefix")
}

fn first_line(process: &mut Process) -> String {
    let mut line = String::new();
    let mut out = BufReader::new(process.stdout().expect("its output"));
    out.read_line(&mut line).expect("a line");
    assert!(line.starts_with("tl1_"), "{line}");
    line.trim().to_owned()
}

fn ended(mut process: Process) -> (Option<i32>, String, String) {
    let status = process.wait(Duration::from_secs(60)).expect("its state").expect("it ends");
    let (mut out, mut remarks) = (String::new(), String::new());
    if let Some(mut stream) = process.stdout() {
        stream.read_to_string(&mut out).expect("text");
    }
    if let Some(mut stream) = process.stderr() {
        stream.read_to_string(&mut remarks).expect("text");
    }
    (status.code(), out, remarks)
}

/// Whether a host reaches another one's port through whatever is between them.
fn reaches(from: &Host, to: &Host, address: &str) -> bool {
    let address: SocketAddr = format!("{address}:7000").parse().expect("an address");
    let listener = to.run(|| TcpListener::bind(address)).expect("a listener");
    let connected = from.run(|| TcpStream::connect_timeout(&address, Duration::from_secs(2)));
    drop(listener);
    connected.is_ok()
}

fn site(key: &SecretKey, name: &str, prefixes: &[&str]) -> Join {
    Join {
        key: key.public(),
        name: name.to_owned(),
        prefixes: prefixes.iter().map(|text| net(text)).collect(),
    }
}

/// Dials the inviting site with this key.
fn dialer_with(key: &SecretKey, invitation: &Invitation) -> Dialer {
    let identity = Identity::new(key).expect("an identity");
    Dialer::new(&identity, invitation.terms.site).expect("a dialer")
}

#[test]
fn sites_are_set_up_joined_and_removed_by_a_command_each() {
    if !privilege::available("sites_are_set_up_joined_and_removed_by_a_command_each") {
        return;
    }
    let all = Directory::new();
    let [a, b, c] = [("ja", 1), ("jb", 2), ("jc", 3)].map(|(name, number)| Office::new(&all, name, number));
    a.connect(&b, 2);
    a.connect(&c, 3);
    a.gateway.route_out(net("0.0.0.0/0"), "wan2").expect("a route");

    // What happens to the first is told, before it is there.
    let (hooks, told) = (all.0.join("hooks"), all.0.join("told"));
    fs::create_dir(&hooks).expect("a directory");
    fs::write(hooks.join("10-note"), format!("#!/bin/sh\necho \"$*\" >> {}\n", told.display()))
        .expect("a hook");
    fs::set_permissions(hooks.join("10-note"), fs::Permissions::from_mode(0o755)).expect("its mode");
    let mut command = Command::new(PROGRAM);
    command.args(["hooks", &a.name, "--directory"]).arg(&hooks).stderr(Stdio::null());
    let _hooks = a.gateway.command(command).expect("it starts");

    // The first site, and the second.
    let (code, out, remarks) = a.run(&["init", "--name", &a.name]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "nobody can be asked: {remarks}");
    let (code, out, remarks) = a.run(&["init", "--name", &a.name, "--dry-run"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{remarks}");
    for told in ["networks behind it: 10.1.0.0/16", "dial it at: 192.0.2.1:4600", "forward IPv4 packets"] {
        assert!(remarks.contains(told), "{remarks}");
    }
    assert!(!a.directory.exists(), "--dry-run does nothing");
    let mut init = a.gateway.command(a.command(&["init", "--name", &a.name, "--yes"])).expect("it starts");
    let _up_a = a.up();
    let invitation = first_line(&mut init);
    let (code, out, remarks) = b.run(&["join", &invitation, "--name", &b.name, "--yes"]);
    assert_eq!(code, Some(0), "{remarks}");
    let (_, address) = out.trim().rsplit_once(' ').expect("an address");
    let up_b = b.up();
    until("b's host reaches a's", || reaches(&b.inside, &a.inside, "10.1.0.9"));
    assert!(reaches(&a.inside, &b.inside, "10.2.0.9") && reaches(&b.gateway, &a.gateway, address));
    let (code, _, remarks) = ended(init);
    assert_eq!(code, Some(0), "{remarks}");
    assert!(remarks.contains(&format!("{} is a peer, lanes came up", b.name)), "{remarks}");

    // A third, which reaches the first alone.
    let (invite, invitation) = a.invite(&["--endpoint", "192.0.3.1"]);
    let (code, _, remarks) = c.run(&["join", &invitation, "--name", &c.name, "--yes"]);
    assert_eq!(code, Some(0), "{remarks}");
    let _up_c = c.up();
    until("c's host reaches a's", || reaches(&c.inside, &a.inside, "10.1.0.9"));
    assert!(reaches(&b.inside, &a.inside, "10.1.0.9"), "b is a peer as before");
    assert_eq!(ended(invite).0, Some(0));

    // The second as well, with the site that it has.
    let text = fs::read_to_string(b.file()).expect("b's file");
    fs::write(b.file(), format!("# Berlin\nlisten = [\"0.0.0.0:4600\"]\n{text}")).expect("b's file");
    drop(up_b);
    let _up_b = b.up();
    a.gateway.sysctl("net/ipv4/conf/all/forwarding", "1").expect("a setting");
    c.gateway.route(net("192.0.2.0/24"), "192.0.3.1".parse().expect("an address")).expect("a route");
    b.gateway.route(net("192.0.3.0/24"), "192.0.2.1".parse().expect("an address")).expect("a route");
    let (invite, invitation) = b.invite(&[]);
    let (code, out, remarks) = c.run(&["join", &invitation, "--yes"]);
    assert_eq!(code, Some(0), "{out}{remarks}");
    assert!(out.contains("lanes came up after"), "{out}");
    assert_eq!(ended(invite).0, Some(0));
    assert!(reaches(&c.inside, &b.inside, "10.2.0.9") && reaches(&b.inside, &c.inside, "10.3.0.9"));
    assert!(
        fs::read_to_string(b.file()).expect("b's file").starts_with("# Berlin\n"),
        "what people wrote stays"
    );

    // And away again.
    let (code, _, remarks) = a.run(&["leave", "--peer", "nobody", "--yes"]);
    assert!(code == Some(2) && remarks.contains(&b.name), "{remarks}");
    let (code, _, remarks) = a.run(&["leave", "--peer", &c.name, "--yes"]);
    assert_eq!(code, Some(0), "{remarks}");
    until("c's host no longer reaches a's", || !reaches(&c.inside, &a.inside, "10.1.0.9"));
    assert!(reaches(&b.inside, &a.inside, "10.1.0.9"), "b is a peer as before");
    let (code, _, remarks) = c.run(&["leave", "--yes"]);
    assert_eq!(code, Some(0), "{remarks}");
    assert_eq!(fs::read_dir(&c.directory).expect("it is there").count(), 0, "no file of c's site is left");
    until("c's gateway has ended", || ask(&c.socket(), &Request::Status).is_err());
    let routes = c.gateway.netlink(|handle| handle.routes(254)).expect("routes");
    assert!(
        routes.iter().all(|route| route.destination != net("10.2.0.0/16")),
        "c's packets are not blocked"
    );
}

#[test]
fn who_may_not_join_is_told_why() {
    if !privilege::available("who_may_not_join_is_told_why") {
        return;
    }
    let all = Directory::new();
    let [a, b] = [("ra", 1), ("rb", 2)].map(|(name, number)| Office::new(&all, name, number));
    a.connect(&b, 2);
    let mut init = a.gateway.command(a.command(&["init", "--name", &a.name, "--yes"])).expect("it starts");
    let _up = a.up();
    let invitation = first_line(&mut init);
    let before = fs::read_to_string(a.file()).expect("a's file");
    let key = SecretKey::generate().expect("a key");
    let address = |invitation: &str| {
        let invitation: Invitation = invitation.parse().expect("an invitation");
        IpNet::from(invitation.terms.address.addr()).to_string()
    };
    let told = |outcome: Result<String, JoinError>| outcome.expect_err("it may not join").to_string();

    // Changed on the way: the checksum is right, the key is another.
    let mut changed: Invitation = invitation.parse().expect("an invitation");
    changed.terms.prefixes = vec![net("10.0.0.0/8")];
    let text = changed.to_text();
    assert!(
        told(b.ask(&text, &site(&key, "b", &[&address(&invitation)])))
            .contains("does not know this invitation")
    );
    changed = invitation.parse().expect("an invitation");
    changed.terms.site = key.public();
    let other = told(b.ask(&changed.to_text(), &site(&key, "b", &[])));
    assert!(other.contains("cannot be reached") && other.contains("another site answers there"), "{other}");

    // Who has an invitation gets no lane by it, and a lane's key no peer.
    let parsed: Invitation = invitation.parse().expect("an invitation");
    let dialer = dialer_with(&parsed.key().expect("its key"), &parsed);
    let hello = Hello {
        version: VERSION,
        encryption: Encryption::Tls,
        lane: 0,
        instance: 1,
        lane_group: "interactive".to_owned(),
    };
    let lane = b.gateway.run(|| {
        let stream = TcpStream::connect("192.0.2.1:4600").expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
        dialer.dial(stream, hello).expect("a handshake").advance()
    });
    let Err(HandshakeError::Refused(refusal)) = &lane else { panic!("{lane:?}") };
    assert_eq!(refusal.reason, RefusalReason::NotWanted, "{refusal}");
    assert_eq!(
        fs::read_to_string(a.file()).expect("a's file"),
        before,
        "nothing of this has changed a's file"
    );

    // What would take traffic from others ends the invitation and its command.
    let greedy = site(&key, "b", &[&address(&invitation), "0.0.0.0/0"]);
    assert!(told(b.ask(&invitation, &greedy)).contains("no private network"));
    let (code, _, remarks) = ended(init);
    assert!(code == Some(2) && remarks.contains("no private network"), "{remarks}");
    assert!(told(b.ask(&invitation, &greedy)).contains("has declined it"));
    for (prefixes, why) in [(vec!["10.1.7.0/24"], "10.1.0.0/16"), (vec!["10.9.0.0/16"], "instead of")] {
        let (invite, invitation) = a.invite(&[]);
        let own = if why == "instead of" { "10.1.2.3/32".to_owned() } else { address(&invitation) };
        let prefixes: Vec<&str> = std::iter::once(own.as_str()).chain(prefixes).collect();
        let told = told(b.ask(&invitation, &site(&key, "b", &prefixes)));
        assert!(told.contains(why), "{told}");
        assert_eq!(ended(invite).0, Some(2));
    }
    assert_eq!(fs::read_to_string(a.file()).expect("a's file"), before);

    // Too late, and withdrawn.
    let (invite, expired) = a.invite(&["--expires", "1 s"]);
    let (code, _, remarks) = ended(invite);
    assert!(code == Some(1) && remarks.contains("has expired; nobody has joined"), "{remarks}");
    let (code, _, remarks) = b.run(&["join", &expired, "--name", &b.name, "--yes"]);
    assert!(code == Some(1) && remarks.contains("expired"), "{remarks}");
    assert!(!b.file().exists());
    let (invite, withdrawn) = a.invite(&[]);
    drop(invite);
    until("the gateway knows that the command has ended", || {
        told(b.ask(&withdrawn, &site(&key, "b", &[&address(&withdrawn)]))).contains("was ended")
    });

    // The command at the inviting site hangs.
    let (invite, silent) = a.invite(&[]);
    invite.signal(rustix::process::Signal::STOP).expect("it stops");
    let told_of_silence = told(b.ask(&silent, &site(&key, "b", &[&address(&silent)])));
    assert!(told_of_silence.contains("did not answer"), "{told_of_silence}");
    drop(invite);

    // Used, then asked for again by the same site, then by another.
    let (invite, used) = a.invite(&[]);
    let join = site(&key, "b", &[&address(&used)]);
    b.ask(&used, &join).expect("it joins");
    b.ask(&used, &join).expect("the same site again: its command may have been interrupted");
    let other = SecretKey::generate().expect("a key");
    assert!(told(b.ask(&used, &site(&other, "c", &[&address(&used)]))).contains("has been used"));
    drop(invite);
    let (invite, again) = a.invite(&[]);
    assert!(
        told(b.ask(&again, &site(&other, "b", &[&address(&again)]))).contains("there is a peer b already")
    );
    drop(invite);

    // A text that is none.
    for (text, why) in [("hello", "no invitation"), (&used[..60], "is damaged")] {
        let mut join =
            b.gateway.command(b.command(&["join", "-", "--name", &b.name, "--yes"])).expect("it starts");
        join.stdin().expect("its input").write_all(text.as_bytes()).expect("it is written");
        let (code, _, remarks) = ended(join);
        assert!(code == Some(2) && remarks.contains(why), "{remarks}");
    }
}

#[test]
fn a_site_that_lies_or_goes_away_costs_the_gateway_nothing() {
    if !privilege::available("a_site_that_lies_or_goes_away_costs_the_gateway_nothing") {
        return;
    }
    let all = Directory::new();
    let [a, b] = [("la", 1), ("lb", 2)].map(|(name, number)| Office::new(&all, name, number));
    a.connect(&b, 2);
    let mut init = a.gateway.command(a.command(&["init", "--name", &a.name, "--yes"])).expect("it starts");
    let _up = a.up();
    let invitation = first_line(&mut init);
    let parsed: Invitation = invitation.parse().expect("an invitation");
    let dialer = dialer_with(&parsed.key().expect("its key"), &parsed);
    let connect = || {
        let stream = b.gateway.run(|| TcpStream::connect("192.0.2.1:4600")).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
        stream
    };
    // It stops in the middle of the handshake, many times.
    for _ in 0..40 {
        let mut stream = connect();
        let _ = stream.write_all(&[22, 3, 1, 2, 0, 1]);
    }
    // It says what it is, and goes before it is answered; the command has taken it in all the same.
    let key = SecretKey::generate().expect("a key");
    let own = IpNet::from(parsed.terms.address.addr()).to_string();
    let mut handshake = dialer.join(connect(), site(&key, "b", &[&own])).expect("a handshake");
    let _ = handshake.advance();
    drop(handshake);
    let until_taken =
        || fs::read_to_string(a.file()).is_ok_and(|text| text.contains(&key.public().to_string()));
    until("the site is in the file", until_taken);
    // It asks again with the key of the site, which is a peer now: an invitation's message is refused there.
    let outcome =
        dialer_with(&key, &parsed).join(connect(), site(&key, "b", &[&own])).expect("a handshake").advance();
    let Err(HandshakeError::Refused(refusal)) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(refusal.reason, RefusalReason::Invitation);
    assert!(ask(&a.socket(), &Request::Status).is_ok(), "the gateway answers");
    drop(init);
}
