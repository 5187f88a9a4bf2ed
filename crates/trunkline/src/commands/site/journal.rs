//! The log as systemd's journal takes it: each line with its priority, which `journalctl -p warning` selects by.

use std::io::{self, Write};

use rustix::fs::fstat;
use tracing_subscriber::fmt::MakeWriter;
use trunkline_gateway::log::Log;

/// Whether standard error goes to the journal. The variable alone does not say so: programs started by a service inherit it, and
/// may have another standard error (systemd.exec(5)).
pub(super) fn is_reader() -> bool {
    let Some(stream) = std::env::var("JOURNAL_STREAM").ok() else { return false };
    fstat(io::stderr()).is_ok_and(|file| is_stream(&stream, file.st_dev, file.st_ino))
}

fn is_stream(stream: &str, device: u64, inode: u64) -> bool {
    stream.split_once(':') == Some((&device.to_string(), &inode.to_string()))
}

/// Makes the lines of a log.
pub(super) struct Lines(pub(super) Log);

/// A line, whose priority comes first, in the form that systemd takes off (sd-daemon(3)).
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

impl Write for Line {
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
    fn warnings_are_more_urgent_than_information() {
        assert!(priority(tracing::Level::ERROR) < priority(tracing::Level::WARN));
        assert!(priority(tracing::Level::WARN) < priority(tracing::Level::INFO));
    }
}
