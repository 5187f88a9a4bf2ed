//! Captures of a link's packets, as files that Wireshark, tcpdump and tcptrace read.
//!
//! Headers are real and have their checksums. Data is zeros, of which the capture keeps nothing, as with a short
//! snap length.

use std::fmt;
use std::io::{self, Write};

use trunkline_packet::pcap::Writer;
use trunkline_units::Instant;

use crate::Packet;

/// Where on a link packets are captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapturePoint {
    /// As they leave the queue and begin to be sent.
    Sent,
    /// As they arrive, those that are lost on the way left out.
    Received,
}

/// Bytes kept of a packet: no header here is longer.
const SNAP_LEN: u32 = 128;

pub(crate) struct Capture {
    pub(crate) point: CapturePoint,
    writer: Writer<Box<dyn Write + Send>>,
    bytes: Vec<u8>,
    /// The first error ends the capture, not the run.
    error: Option<io::Error>,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("point", &self.point)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl Capture {
    pub(crate) fn new(point: CapturePoint, out: Box<dyn Write + Send>) -> io::Result<Self> {
        Ok(Capture { point, writer: Writer::new(out, SNAP_LEN)?, bytes: Vec::new(), error: None })
    }

    pub(crate) fn take(&mut self, now: Instant, packet: &Packet) {
        if self.error.is_some() {
            return;
        }
        packet.checksummed(&mut self.bytes);
        if let Err(error) = self.writer.write(now.as_nanos(), &self.bytes, packet.length()) {
            self.error = Some(error);
        }
    }

    /// Ends the capture: its writer is flushed, and what went wrong is said.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self.error {
            Some(error) => Err(error),
            None => self.writer.into_inner().flush(),
        }
    }
}
