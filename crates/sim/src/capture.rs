//! Captures of links' packets, as files that Wireshark and tshark read.
//!
//! Headers are real and have their checksums. Data is zeros, of which the capture keeps nothing, as with a short
//! snap length. A pcap file has one point of one link. A pcapng file has any number of links: for each an interface with
//! what it sends, each packet with the time that it waited, and one with what it loses, each packet with the reason.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trunkline_packet::pcap;
use trunkline_packet::pcapng::{self, Interface, InterfaceId};
use trunkline_queue::DropReason;
use trunkline_units::{Instant, Rate};

use crate::{LinkId, Packet};

/// Where on a link packets are captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapturePoint {
    /// As they leave the queue and begin to be sent.
    Sent,
    /// As they arrive, those that are lost on the way left out.
    Received,
}

/// A link of a capture with several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedLink {
    /// Which.
    pub link: LinkId,
    /// The name of its interface. That of what it loses has ` lost` behind it.
    pub name: String,
    /// What it is: where it leads, its rate, its queue.
    pub description: String,
}

/// What a link does with a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Happening {
    /// It begins to send it.
    Sent {
        /// Time in the queue.
        waited: Duration,
    },
    /// Its queue drops it.
    Dropped(DropReason),
    /// It loses it on the way.
    Lost,
    /// It delivers it.
    Received,
}

/// Bytes kept of a packet: no header here is longer.
const SNAP_LEN: u32 = 128;

pub(crate) type Out = Box<dyn Write + Send>;

enum File {
    Pcap {
        point: CapturePoint,
        writer: pcap::Writer<Out>,
    },
    /// The links of a capture share its file, so that its packets are in order of time.
    Pcapng {
        writer: Arc<Mutex<pcapng::Writer<Out>>>,
        sent: InterfaceId,
        lost: InterfaceId,
    },
}

/// What is captured of one link.
pub(crate) struct Capture {
    file: File,
    bytes: Vec<u8>,
    /// The first error ends the capture, not the run.
    error: Option<io::Error>,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.file {
            File::Pcap { .. } => "pcap",
            File::Pcapng { .. } => "pcapng",
        };
        f.debug_struct("Capture").field("kind", &kind).field("error", &self.error).finish_non_exhaustive()
    }
}

impl Capture {
    /// One point of a link, as a pcap file.
    pub(crate) fn pcap(point: CapturePoint, out: Out) -> io::Result<Self> {
        Ok(Self::new(File::Pcap { point, writer: pcap::Writer::new(out, SNAP_LEN)? }))
    }

    /// Links with their rates, as one pcapng file. The text is about all of it: the program and comments.
    pub(crate) fn pcapng(
        links: &[(CapturedLink, Rate)],
        (application, comments): (&str, &[String]),
        out: Out,
    ) -> io::Result<Vec<Self>> {
        let mut writer = pcapng::Writer::new(out, application, comments)?;
        let mut interfaces = Vec::with_capacity(links.len());
        for (CapturedLink { name, description, .. }, rate) in links {
            let speed = Some(rate.bits_per_second());
            let sent = Interface { name, description, speed, snap_len: SNAP_LEN };
            let (name, about) = (format!("{name} lost"), format!("dropped or lost: {description}"));
            let lost = Interface { name: &name, description: &about, ..sent };
            interfaces.push([writer.add_interface(&sent)?, writer.add_interface(&lost)?]);
        }
        let writer = Arc::new(Mutex::new(writer));
        let capture = |[sent, lost]: [InterfaceId; 2]| {
            Self::new(File::Pcapng { writer: Arc::clone(&writer), sent, lost })
        };
        Ok(interfaces.into_iter().map(capture).collect())
    }

    const fn new(file: File) -> Self {
        Capture { file, bytes: Vec::new(), error: None }
    }

    pub(crate) fn take(&mut self, now: Instant, packet: &Packet, happening: Happening) {
        if self.error.is_some() {
            return;
        }
        self.error = self.write(now, packet, happening).err();
    }

    fn write(&mut self, now: Instant, packet: &Packet, happening: Happening) -> io::Result<()> {
        match &mut self.file {
            File::Pcap { point, writer } => {
                let taken = match happening {
                    Happening::Sent { .. } => CapturePoint::Sent,
                    Happening::Received => CapturePoint::Received,
                    Happening::Dropped(_) | Happening::Lost => return Ok(()),
                };
                if taken != *point {
                    return Ok(());
                }
                packet.checksummed(&mut self.bytes);
                writer.write(now.as_nanos(), &self.bytes, packet.length())
            }
            File::Pcapng { writer, sent, lost } => {
                let (interface, comment) = match happening {
                    Happening::Sent { waited } if waited.is_zero() => (*sent, String::new()),
                    Happening::Sent { waited } => {
                        (*sent, format!("waited {:.3} ms", waited.as_secs_f64() * 1e3))
                    }
                    Happening::Dropped(reason) => (*lost, format!("dropped by the queue: {}", reason.name())),
                    Happening::Lost => (*lost, "lost on the way".to_owned()),
                    Happening::Received if packet.is_corrupted() => {
                        (*lost, "corrupted on the way".to_owned())
                    }
                    Happening::Received => return Ok(()),
                };
                packet.checksummed(&mut self.bytes);
                let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                writer.write((interface, now.as_nanos()), (&self.bytes, packet.length()), &comment)
            }
        }
    }

    /// Ends the capture: its writer is flushed, and what went wrong is said.
    pub(crate) fn finish(self) -> io::Result<()> {
        match (self.error, self.file) {
            (Some(error), _) => Err(error),
            (None, File::Pcap { writer, .. }) => writer.into_inner().flush(),
            (None, File::Pcapng { writer, .. }) => {
                writer.lock().unwrap_or_else(PoisonError::into_inner).flush()
            }
        }
    }
}
