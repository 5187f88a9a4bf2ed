//! Runs the bodies of this crate's fuzz targets over their committed corpora and over inputs near them.

#[path = "../../../fuzz/bodies/configuration.rs"]
mod configuration;
#[path = "../../../fuzz/bodies/control_requests.rs"]
mod control_requests;
#[path = "../../../fuzz/bodies/handshake_messages.rs"]
mod handshake_messages;
#[path = "../../../fuzz/bodies/metrics_requests.rs"]
mod metrics_requests;
#[path = "../../../fuzz/bodies/records.rs"]
mod records;

use std::path::PathBuf;
use std::{fs, io};

use trunkline_gateway::config::Encryption;
use trunkline_gateway::handshake::{Hello, Join, Message, Refusal, RefusalReason, VERSION};
use trunkline_gateway::keys::PublicKey;
use trunkline_units::Rng;

fn directory(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

fn corpus(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory(target))?.map(|file| Ok(file?.path())).collect::<io::Result<_>>()?;
    files.sort();
    files.iter().map(fs::read).collect()
}

/// The corpus, and `rounds` inputs that differ from one of it in a few bytes out of `alphabet`.
fn hold(target: &str, run: fn(&[u8]), rounds: u32, alphabet: &[u8]) -> io::Result<()> {
    let corpus = corpus(target)?;
    assert!(corpus.len() >= 4, "{target}: {} files in the corpus", corpus.len());
    for bytes in &corpus {
        run(bytes);
    }
    let mut rng = Rng::new(1, target);
    for _ in 0..rounds {
        let mut bytes = corpus[rng.below(corpus.len() as u64) as usize].clone();
        for _ in 0..rng.below(4) {
            if !bytes.is_empty() {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = alphabet[rng.below(alphabet.len() as u64) as usize];
            }
        }
        run(&bytes);
    }
    Ok(())
}

#[test]
fn configurations_hold_the_contract() -> io::Result<()> {
    hold("configuration", configuration::run, 3000, b"\"[]{}=.,#\n -019ab\xc3\xa4")
}

#[test]
fn handshake_messages_hold_the_contract() -> io::Result<()> {
    let alphabet: Vec<u8> = (0..=u8::MAX).collect();
    hold("handshake_messages", handshake_messages::run, 5000, &alphabet)
}

#[test]
fn records_hold_the_contract() -> io::Result<()> {
    let alphabet: Vec<u8> = (0..=u8::MAX).collect();
    hold("records", records::run, 1500, &alphabet)
}

#[test]
fn control_requests_hold_the_contract() -> io::Result<()> {
    hold("control_requests", control_requests::run, 3000, b"{}\":,\\ \n\xff0[]statusreload")
}

#[test]
fn metrics_requests_hold_the_contract() -> io::Result<()> {
    hold("metrics_requests", metrics_requests::run, 3000, b"GETPOS /metrics?.HP10:\r\n\t \0\x7f\xff")
}

#[test]
#[ignore = "writes the corpora anew"]
fn write_corpus() -> io::Result<()> {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    fs::create_dir_all(directory("configuration"))?;
    for (name, file) in [
        ("two-sites", "two-sites/a.toml"),
        ("hub", "hub/hub.toml"),
        ("papers", "papers/b.toml"),
        ("shared-line", "shared-line/a.toml"),
        ("slow-line", "slow-line/b.toml"),
    ] {
        fs::copy(examples.join(file), directory("configuration").join(name))?;
    }
    let everything = "name = \"a\"\nprivate_key = \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"\n\
        listen = [\"[::]:4600\"]\nencryption = \"none\"\n[tun]\nname = \"t\"\naddress = [\"fd00::1/64\"]\nmtu = 9000\n\
        queues = 2\noffloads = true\ntx_queue_len = 64\n[lanes]\ncongestion_control = \"bbr\"\nfwmark = 7\n\
        [control]\nsocket = \"/run/a.sock\"\n[metrics]\nlisten = \"0.0.0.0:1\"\nallow_remote = true\n\
        [[classes]]\nname = \"v\"\nmatch = [{ protocol = \"udp\", dscp = [\"ef\", 34], source = \"10.0.0.0/8\", \
        port = [53, \"1000-2000\"], length = [\"40-200\", 1500], behaviour = \"interactive\" }]\n\
        queue = { discipline = \"tail-drop\", packets = 10, bytes = \"64KiB\" }\nlane_group = \"l\"\nlanes = 2\n\
        congestion_control = \"reno\"\ndscp = \"ef\"\nweight = 3\nguarantee = \"1mbit\"\nceiling = \"2mbit\"\n\
        priority = true\nmax_wait = \"1s\"\nflows = { limit = 5, over = \"rest\" }\nretransmission_filter = false\nheader_compression = false\n\
        [[classes]]\nname = \"r\"\nmatch = [{ dscp = 1 }]\nqueue = { discipline = \"red\", \
        min = 5, max = 50, max_p = 0.1, weight = 0.01, gentle = true, ecn = false }\n\
        [[classes]]\nname = \"f\"\nmatch = [{ dscp = 2 }]\nqueue = { discipline = \"fred\", min = 5, max = 50, \
        min_flow = 2 }\n[[classes]]\nname = \"q\"\nmatch = [{ dscp = 3 }]\nqueue = { target = \"6ms\", \
        interval = \"1.5s\", queues = 8, quantum = \"300 B\" }\n[[classes]]\nname = \"p\"\nmatch = [{ dscp = 4 }]\n\
        queue = { discipline = \"pie\", target = \"20ms\", update = \"10ms\", burst = \"0ms\" }\n\
        [[classes]]\nname = \"t\"\nmatch = [{ dscp = 5 }]\nqueue = { discipline = \"trunk\", auto_size = true, \
        early_drop = true, drop_holdoff = true, threshold = 0.5, max_p = 0.1 }\n\
        [[classes]]\nname = \"rest\"\nlane_group = \"l\"\n[[peers]]\nname = \"b\"\n\
        public_key = \"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\"\nendpoint = \"b:1\"\nroutes = [\"10.2.0.0/16\"]\n\
        encryption = \"tls\"\n";
    fs::write(directory("configuration").join("every-key"), everything)?;
    fs::write(directory("configuration").join("mistakes"), "nmae = 1\n[tun]\nmtu = 1\nmtu = 2\n[[peers]]\n")?;

    let hello = |encryption, lane_group: &str| Hello {
        version: VERSION,
        encryption,
        lane: 3,
        instance: 7,
        lane_group: lane_group.to_owned(),
    };
    let refusal = Refusal { reason: RefusalReason::UnknownLaneGroup, text: "no such group".to_owned() };
    let join = Join {
        key: PublicKey::from_bytes([7; 32]),
        name: "b".to_owned(),
        prefixes: ["10.201.7.2/32", "fd00:5::/48"].iter().filter_map(|prefix| prefix.parse().ok()).collect(),
    };
    fs::create_dir_all(directory("handshake_messages"))?;
    for (name, bytes) in [
        ("hello", Message::Hello(hello(Encryption::Tls, "bulk")).encode()),
        ("welcome", Message::Welcome(hello(Encryption::None, "tcp")).encode()),
        ("refusal", Message::Refusal(refusal).encode()),
        ("join", Message::Join(join).encode()),
        ("joined", Message::Joined.encode()),
        ("record_header", vec![23, 3, 3, 0, 17]),
        ("http", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        // A client hello that offers TLS 1.3 with one suite and no extension.
        (
            "client_hello",
            [&[22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3][..], &[5; 32], &[0, 0, 2, 19, 1, 1, 0]].concat(),
        ),
    ] {
        fs::write(directory("handshake_messages").join(name), bytes)?;
    }
    write(
        "control_requests",
        &[
            ("status", b"{\"request\":\"status\"}\n"),
            ("flows", b"{\"request\":\"flows\"}\n"),
            ("reload_and_more", b"{\"request\":\"reload\"}\n{\"request\":\"down\"}\n"),
            ("invite", b"{\"request\":\"invite\",\"key\":\"AQEB\",\"seconds\":3600}\n"),
            ("decline", b"{\"request\":\"decline\",\"key\":\"AQEB\",\"reason\":\"no\"}\n"),
            ("unknown_field", b"{\"request\":\"down\",\"now\":true}\r\n"),
            ("no_end", b"{\"request\":"),
            ("not_text", b"\xff\xfe\0\n"),
        ],
    )?;
    write(
        "metrics_requests",
        &[
            ("metrics", b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n"),
            ("json", b"GET /metrics.json?x=1 HTTP/1.0\n\n"),
            ("post", b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
            ("not_yet", b"GET / HTTP/1.1\r\nHost:"),
            ("tls", &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]),
            ("absolute", b"\r\nGET http://a/metrics HTTP/1.1\r\n\r\n"),
        ],
    )?;
    // Steps: see `fuzz/bodies/records.rs`.
    write(
        "records",
        &[
            ("data", &[0, 3, 1, 2, 3, 1, 200, 5, 5]),
            ("updates", &[2, 0, 1, 7, 5, 5, 2, 2, 1, 9]),
            ("closed", &[0, 0, 3, 0, 1, 7, 5, 5, 5]),
            ("inside", &[4, 22, 5, 24, 0, 0, 1, 1, 5, 4, 21, 2, 1, 0, 5]),
            ("padded", &[4, 0, 4, 65, 23, 0, 0, 5]),
            ("altered", &[0, 2, 8, 9, 6, 0, 6, 1]),
            ("lost", &[1, 1, 1, 2, 7, 5]),
            ("repeated", &[1, 1, 8, 5]),
            (
                "raw",
                &[
                    0, 1, 1, 5, 9, 22, 23, 3, 3, 0, 17, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
                    16, 17,
                ],
            ),
        ],
    )
}

fn write(target: &str, inputs: &[(&str, &[u8])]) -> io::Result<()> {
    fs::create_dir_all(directory(target))?;
    inputs.iter().try_for_each(|(name, bytes)| fs::write(directory(target).join(name), bytes))
}
