//! What a viewer gets, over real sockets.

use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rcgen::generate_simple_self_signed;
use trunkline_pages::{Access, Live, MAX_VIEWERS, Pages, Server};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const POLICY: &str = "default-src 'none'";

fn local() -> Access {
    Access { listen: "127.0.0.1:0".parse().expect("an address"), certificate: None, token: None }
}

/// Begins to serve; the process' end is its end.
fn begin(access: &Access, live: Live) -> String {
    let server = Server::bind(access).expect("it listens");
    let url = server.url().expect("where");
    let pages = Pages::new(POLICY)
        .file("/", "text/html", "<p>hello</p>")
        .json("/answer", || "{}".to_owned())
        .live("/live", live);
    thread::spawn(move || server.run(pages));
    url
}

fn address(url: &str) -> SocketAddr {
    url.split('/').nth(2).and_then(|address| address.parse().ok()).expect("an address")
}

/// The whole answer to a request, as text. It ends with the connection.
fn raw(url: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address(url)).expect("a connection");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

fn get(url: &str, path: &str, method: &str, host: &str) -> String {
    raw(url, &format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
}

/// Looks on: the head of the answer is read.
fn look_on(url: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address(url)).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a bound");
    stream.write_all(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is sent");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).expect("the head") > 2 {
        line.clear();
    }
    reader
}

fn until(reader: &mut impl BufRead, wanted: &str) {
    let mut line = String::new();
    loop {
        line.clear();
        assert_ne!(reader.read_line(&mut line).expect("a line"), 0, "it ended before {wanted}");
        if line.trim_end() == wanted {
            return;
        }
    }
}

#[test]
fn pages_have_their_headers_and_nothing_else_is_there() {
    let url = begin(&local(), Live::default());
    let page = get(&url, "/", "GET", "localhost");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.ends_with("<p>hello</p>"), "{page}");
    for header in [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        "x-frame-options: DENY",
        "referrer-policy: no-referrer",
        "content-type: text/html",
    ] {
        assert!(page.contains(header), "{header} is not in {page}");
    }
    assert!(get(&url, "/answer?x=1", "GET", "127.0.0.1").ends_with("{}"));
    assert!(!get(&url, "/", "HEAD", "localhost").contains("hello"));
    let missing = get(&url, "/../etc/passwd", "GET", "localhost");
    assert!(missing.starts_with("HTTP/1.1 404 ") && missing.contains("content-security-policy"), "{missing}");
    let other = get(&url, "/", "POST", "localhost");
    assert!(other.starts_with("HTTP/1.1 405 ") && other.contains("allow: GET, HEAD"), "{other}");
    let rebound = get(&url, "/", "GET", "evil.example");
    assert!(rebound.starts_with("HTTP/1.1 421 ") && !rebound.contains("hello"), "{rebound}");
    assert!(raw(&url, "\u{1}\u{2}\r\n\r\n").starts_with("HTTP/1.1 400 "));
}

#[test]
fn who_comes_gets_the_latest_and_who_does_not_read_keeps_nobody_waiting() {
    let live = Live::default();
    let url = begin(&local(), live.clone());
    live.send("first");
    let mut viewer = look_on(&url);
    until(&mut viewer, "data: first");
    // Never reads: what comes live is more than all buffers between hold.
    let _slow = look_on(&url);
    let long: Arc<str> = "x".repeat(1 << 20).into();
    for _ in 0..40 {
        live.send(Arc::clone(&long));
        until(&mut viewer, &format!("data: {long}"));
    }
    live.send("two\nlines");
    until(&mut viewer, "data: two");
    until(&mut viewer, "data: lines");
    drop(viewer);
}

#[test]
fn viewers_are_bounded_and_leave_their_places() {
    let live = Live::default();
    let url = begin(&local(), live.clone());
    live.send("here");
    let viewers: Vec<_> = (0..MAX_VIEWERS)
        .map(|_| {
            let mut viewer = look_on(&url);
            until(&mut viewer, "data: here");
            viewer
        })
        .collect();
    assert_eq!(live.viewers(), MAX_VIEWERS);
    let refused = get(&url, "/live", "GET", "localhost");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(get(&url, "/", "GET", "localhost").ends_with("<p>hello</p>"), "the rest goes on");
    drop(viewers);
    // Who has gone is known when something is sent to him.
    for _ in 0..500 {
        live.send("gone?");
        if live.viewers() == 0 {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(live.viewers(), 0);
    until(&mut look_on(&url), "data: gone?");
}

/// Files with a certificate for this machine, its key and a token.
fn files(directory: &Path) -> (Access, String) {
    fs::create_dir_all(directory).expect("a directory");
    let own =
        generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).expect("a certificate");
    let file = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
        path
    };
    let pem = own.cert.pem();
    let certificate = (file("chain.pem", &pem), file("key.pem", &own.signing_key.serialize_pem()));
    (
        Access {
            certificate: Some(certificate),
            token: Some(file("token", &format!("{TOKEN}\n"))),
            ..local()
        },
        pem,
    )
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("trunkline-pages-{name}-{}", std::process::id()))
}

#[test]
fn over_tls_the_token_opens() {
    let directory = scratch("tls");
    let (access, pem) = files(&directory);
    let url = begin(&access, Live::default());
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let root = Certificate::from_pem(pem.as_bytes()).expect("a certificate");
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&[root]))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .build();
    let agent: ureq::Agent =
        ureq::Agent::config_builder().tls_config(tls).http_status_as_error(false).build().into();
    let ask = |authorization: Option<&str>| {
        let request = agent.get(&url);
        let request = match authorization {
            Some(value) => request.header("authorization", value),
            None => request,
        };
        let mut response = request.call().expect("an answer");
        let asked = response.headers().get("www-authenticate").is_some();
        (response.status().as_u16(), asked, response.body_mut().read_to_string().expect("a body"))
    };
    assert_eq!(ask(Some(&format!("Bearer {TOKEN}"))), (200, false, "<p>hello</p>".to_owned()));
    for wrong in [None, Some("Bearer wrong")] {
        let (status, asked, body) = ask(wrong);
        assert_eq!((status, asked), (401, true));
        assert!(!body.contains("hello"));
    }
    assert!(
        !raw(&url, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").contains("hello"),
        "without TLS there is nothing"
    );
    fs::remove_dir_all(directory).expect("it goes");
}

#[test]
fn what_others_could_see_is_not_served() {
    let directory = scratch("refused");
    let (access, _) = files(&directory);
    let refused = |change: &dyn Fn(&mut Access)| {
        let mut changed = access.clone();
        change(&mut changed);
        match Server::bind(&changed) {
            Ok(_) => panic!("{changed:?} is served"),
            Err(error) => error.to_string(),
        }
    };
    let open = |access: &mut Access| access.listen = "0.0.0.0:0".parse().expect("an address");
    let says = |text: &str, parts: &[&str]| {
        for part in parts {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    };
    says(
        &refused(&|access| {
            open(access);
            access.token = None;
        }),
        &["0.0.0.0:0 can be reached", "a token: --token-file", "ssh -L"],
    );
    says(
        &refused(&|access| {
            open(access);
            access.certificate = None;
        }),
        &["TLS: --certificate and --key"],
    );
    says(
        &refused(&|access| {
            open(access);
            access.certificate = None;
            access.token = None;
        }),
        &["TLS and a token"],
    );
    let token = access.token.clone().expect("a token");
    fs::write(&token, "short").expect("written");
    says(&refused(&|_| ()), &["token: no token; allowed: one line of 16 to 256"]);
    fs::write(&token, "0123456789 abcdef").expect("written");
    says(&refused(&|_| ()), &["no token; allowed"]);
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).expect("its mode");
    says(&refused(&|_| ()), &["others may read it (mode 644); allowed: 600"]);
    says(&refused(&|access| access.token = Some(directory.join("none"))), &["none: No such file"]);
    says(
        &refused(&|access| access.token = Some("/dev/zero".into())),
        &["/dev/zero: longer than 1048576 bytes"],
    );
    says(
        &refused(&|access| {
            let (chain, _) = access.certificate.clone().expect("it");
            access.certificate = Some((chain.clone(), chain));
        }),
        &["no private key in PEM"],
    );
    says(
        &refused(&|access| {
            let (_, key) = access.certificate.clone().expect("it");
            access.certificate = Some((key.clone(), key));
        }),
        &["it has no certificate in PEM"],
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    says(
        &refused(&|access| {
            access.token = None;
            access.listen = taken.local_addr().expect("it");
        }),
        &["cannot listen at 127.0.0.1:", "in use"],
    );
    fs::remove_dir_all(directory).expect("it goes");
}
