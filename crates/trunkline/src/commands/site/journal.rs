//! The log as systemd's journal takes it: each line with its priority and with what it is of, by which `journalctl` selects:
//! `journalctl --priority warning TRUNKLINE_PEER=berlin`.

use std::io;
use std::os::unix::net::UnixDatagram;

use rustix::fs::fstat;
use tracing_subscriber::fmt::MakeWriter;
use trunkline_gateway::log::Log;

/// Where the journal takes entries with fields.
const SOCKET: &str = "/run/systemd/journal/socket";

/// Whether standard error goes to the journal. The variable alone does not say so: programs started by a service inherit it, and
/// may have another standard error (systemd.exec(5)).
pub(super) fn is_reader() -> bool {
    let Some(stream) = std::env::var("JOURNAL_STREAM").ok() else { return false };
    fstat(io::stderr()).is_ok_and(|file| is_stream(&stream, file.st_dev, file.st_ino))
}

fn is_stream(stream: &str, device: u64, inode: u64) -> bool {
    stream.split_once(':') == Some((&device.to_string(), &inode.to_string()))
}

/// A log that the journal reads: entries with fields, or, if it takes none, lines of standard error, which have their priority alone.
pub(super) fn log() -> Log {
    let connected = UnixDatagram::unbound().and_then(|socket| socket.connect(SOCKET).map(|()| socket));
    match connected {
        Ok(socket) => Log::new(move |line| socket.send(&entry(&String::from_utf8_lossy(line))).map(drop)),
        Err(_) => Log::stderr(),
    }
}

/// Makes the lines of a log.
pub(super) struct Lines(pub(super) Log);

/// A line, whose priority comes first, in the form that systemd takes off a line of standard error (sd-daemon(3)).
pub(super) struct Line {
    log: Log,
    priority: u8,
}

impl MakeWriter<'_> for Lines {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line { log: self.0.clone(), priority: priority(tracing::Level::INFO) }
    }

    fn make_writer_for(&self, event: &tracing::Metadata<'_>) -> Line {
        Line { priority: priority(*event.level()), ..self.make_writer() }
    }
}

impl io::Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.log.line(&[format!("<{}>", self.priority).as_bytes(), line].concat());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The priority of syslog (RFC 5424 §6.2.1).
fn priority(level: tracing::Level) -> u8 {
    match level {
        tracing::Level::ERROR => 3,
        tracing::Level::WARN => 4,
        tracing::Level::INFO => 6,
        tracing::Level::DEBUG | tracing::Level::TRACE => 7,
    }
}

/// A line as an entry of the journal (systemd: Native Journal Protocol).
fn entry(line: &str) -> Vec<u8> {
    let (priority, text) = match line.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((priority @ ("3" | "4" | "6" | "7"), text)) => (priority, text),
        // The log's own line, of lines that were lost.
        _ => ("4", line),
    };
    let text = text.trim();
    let mut entry = Vec::new();
    let fields = [("PRIORITY", priority), ("SYSLOG_IDENTIFIER", "trunkline"), ("MESSAGE", text)];
    for (name, value) in fields.into_iter().chain(subject(text)) {
        entry.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            entry.push(b'\n');
            entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            entry.push(b'=');
        }
        entry.extend_from_slice(value.as_bytes());
        entry.push(b'\n');
    }
    entry
}

/// What a line is of. Where a name stands before the first colon, the word before it says what has that name.
fn subject(text: &str) -> Vec<(&'static str, &str)> {
    let Some((head, _)) = text.split_once(": ") else { return Vec::new() };
    let words: Vec<&str> = head.split(' ').collect();
    let (mut words, mut fields) = (words.as_slice(), Vec::new());
    while let [kind, name, rest @ ..] = words {
        let field = match *kind {
            "site" => "TRUNKLINE_SITE",
            "peer" | "to" => "TRUNKLINE_PEER",
            "lane" => "TRUNKLINE_LANE",
            "class" => "TRUNKLINE_CLASS",
            "device" => "TRUNKLINE_DEVICE",
            "path" => "TRUNKLINE_PATH",
            _ => return Vec::new(),
        };
        fields.push((field, *name));
        // `lane tcp to b on path dsl`
        words = rest.strip_prefix(&["on"]).unwrap_or(rest);
    }
    // Otherwise it is a sentence.
    if words.is_empty() { fields } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_told_by_device_and_inode() {
        assert!(is_stream("9:34611", 9, 34611));
        for other in ["9:34612", "8:34611", "", "9", "9:34611:1"] {
            assert!(!is_stream(other, 9, 34611), "{other}");
        }
    }

    #[test]
    fn a_line_is_of_what_it_names_before_its_first_colon() {
        let lane = ("TRUNKLINE_LANE", "tcp/0");
        let peer = ("TRUNKLINE_PEER", "b");
        let path = ("TRUNKLINE_PATH", "dsl");
        for (line, fields) in [
            ("lane tcp/0 to b: up, dialled 192.0.2.1:4600", vec![lane, peer]),
            ("lane tcp/0 to b on path dsl: down: no answer", vec![lane, peer, path]),
            ("peer b: cannot connect to 192.0.2.1:4600: refused", vec![peer]),
            ("peer b on path dsl: long packets get through again", vec![peer, path]),
            ("site a: down", vec![("TRUNKLINE_SITE", "a")]),
            (
                "class video to b: handed from path dsl to lte: for 3 s",
                vec![("TRUNKLINE_CLASS", "video"), peer],
            ),
            (
                "device trunk0: restored what another program removed: address",
                vec![("TRUNKLINE_DEVICE", "trunk0")],
            ),
            ("203.0.113.9:5000 did not become a lane: closed", vec![]),
            ("in 60 s 312 more callers from 4 addresses did not become lanes: x", vec![]),
            ("cannot accept a connection: too many", vec![]),
            ("the kernel has no Landlock", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(subject(line), fields, "{line}");
        }
    }

    #[test]
    fn an_entry_has_its_priority_and_its_fields_and_may_have_several_lines() {
        let text = String::from_utf8(entry("<4>peer b: gone\n")).expect("text");
        assert_eq!(text, "PRIORITY=4\nSYSLOG_IDENTIFIER=trunkline\nMESSAGE=peer b: gone\nTRUNKLINE_PEER=b\n");
        // What a peer says is no field.
        let text = entry("<3>thread x: one\nPRIORITY=0");
        let message = b"MESSAGE\n\x18\0\0\0\0\0\0\0thread x: one\nPRIORITY=0\n";
        assert!(text.ends_with(message), "{}", String::from_utf8_lossy(&text));
        assert!(entry("7 lines of the log were lost\n").starts_with(b"PRIORITY=4\n"));
        assert!(entry("<8>x").ends_with(b"MESSAGE=<8>x\n"));
    }
}
