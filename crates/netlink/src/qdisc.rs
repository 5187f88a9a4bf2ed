//! Queue disciplines at the root of a link.
//!
//! `netlink-packet-route` has no options for tbf and pfifo; they are laid out here as in `linux/pkt_sched.h`.

use std::fmt;

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};

use crate::error::{NetlinkError, Request};
use crate::handle::Handle;
use crate::reply::{Reply, attributes, double_word, text, word};

const HEADER_BYTES: usize = 20;
/// Where `struct tcmsg` has the device, the discipline's handle and its parent.
const INDEX: usize = 4;
const HANDLE: usize = 8;
const PARENT: usize = 12;
const RTM_NEWQDISC: u16 = 36;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
/// If a link layer is given, the kernel computes transmission times itself and needs no rate table.
const TC_LINKLAYER_ETHERNET: u8 = 1;

/// A token bucket filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// The long-run rate, in bits per second.
    pub rate_bits_per_second: u64,
    /// The burst: bytes that may leave at once. At least one packet; the kernel segments longer super-packets.
    pub burst_bytes: u32,
    /// The queue: bytes that may wait for tokens.
    pub limit_bytes: u32,
}

impl TokenBucket {
    /// A bucket whose queue takes at most `latency` to drain.
    pub fn with_latency(rate_bits_per_second: u64, burst_bytes: u32, latency: std::time::Duration) -> Self {
        let queued = u128::from(rate_bits_per_second) * latency.as_nanos() / 8_000_000_000;
        let limit_bytes = u32::try_from(queued).unwrap_or(u32::MAX).saturating_add(burst_bytes);
        Self { rate_bits_per_second, burst_bytes, limit_bytes }
    }

    /// `struct tc_tbf_qopt`, and the attributes that say what its 32-bit fields cannot.
    fn options(self) -> Vec<TcOption> {
        let bytes_per_second = self.rate_bits_per_second / 8;
        let mut parameters = vec![0; 36];
        parameters[1] = TC_LINKLAYER_ETHERNET;
        let capped = u32::try_from(bytes_per_second).unwrap_or(u32::MAX);
        parameters[8..12].copy_from_slice(&capped.to_ne_bytes());
        parameters[24..28].copy_from_slice(&self.limit_bytes.to_ne_bytes());
        let mut options = vec![(TCA_TBF_PARMS, parameters)];
        if bytes_per_second > u64::from(u32::MAX) {
            options.push((TCA_TBF_RATE64, bytes_per_second.to_ne_bytes().to_vec()));
        }
        options.push((TCA_TBF_BURST, self.burst_bytes.to_ne_bytes().to_vec()));
        options.into_iter().map(|(kind, value)| TcOption::Other(DefaultNla::new(kind, value))).collect()
    }
}

impl fmt::Display for TokenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate_bits_per_second, burst_bytes, limit_bytes } = self;
        write!(f, "tbf rate {rate_bits_per_second} bit/s burst {burst_bytes} B limit {limit_bytes} B")
    }
}

/// The state and counters of a link's root discipline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QdiscStats {
    /// The discipline's name.
    pub kind: String,
    /// Bytes that left it.
    pub bytes: u64,
    /// Packets that left it.
    pub packets: u32,
    /// Packets it dropped.
    pub dropped: u32,
    /// Packets in it now.
    pub backlog_packets: u32,
    /// Bytes in it now.
    pub backlog_bytes: u32,
}

impl Handle {
    /// Makes a token bucket filter the link's root discipline, in place of any other.
    pub fn qdisc_tbf(&mut self, device: u32, bucket: TokenBucket) -> Result<(), NetlinkError> {
        let request = Request::SetQdisc { device, discipline: bucket.to_string() };
        self.set_qdisc(request, device, "tbf", TcAttribute::Options(bucket.options()))
    }

    /// Makes a plain queue of `limit_packets` the link's root discipline, in place of any other.
    pub fn qdisc_pfifo(&mut self, device: u32, limit_packets: u32) -> Result<(), NetlinkError> {
        let request =
            Request::SetQdisc { device, discipline: format!("pfifo limit {limit_packets} packets") };
        let options = DefaultNla::new(TCA_OPTIONS, limit_packets.to_ne_bytes().to_vec());
        self.set_qdisc(request, device, "pfifo", TcAttribute::Other(options))
    }

    /// Removes the link's root discipline; the kernel puts its default one there.
    pub fn delete_qdisc(&mut self, device: u32) -> Result<(), NetlinkError> {
        let request = Request::DeleteQdisc { device };
        self.change(request, RouteNetlinkMessage::DelQueueDiscipline(root(device)), 0)
    }

    /// The counters of the link's root discipline.
    pub fn qdisc_stats(&mut self, device: u32) -> Result<QdiscStats, NetlinkError> {
        let root = u32::from(TcHandle::ROOT);
        self.stats_where(device, "a root discipline with counters", |reply| reply.word(PARENT) == Some(root))
    }

    /// The counters of the link's discipline with the handle `major:`, at the root or below it.
    pub fn qdisc_stats_of(&mut self, device: u32, major: u16) -> Result<QdiscStats, NetlinkError> {
        let handle = u32::from(major) << 16;
        let missing = "a discipline of this handle with counters";
        self.stats_where(device, missing, |reply| reply.word(HANDLE) == Some(handle))
    }

    /// The counters of the link's first discipline of which this holds.
    fn stats_where(
        &mut self,
        device: u32,
        missing: &'static str,
        wanted: impl Fn(&Reply) -> bool,
    ) -> Result<QdiscStats, NetlinkError> {
        let request = Request::ReadQdisc { device };
        let replies =
            self.list(request.clone(), RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()))?;
        replies
            .iter()
            .filter(|reply| reply.kind == RTM_NEWQDISC && reply.word(INDEX) == Some(device))
            .find(|reply| wanted(reply))
            .and_then(parse)
            .ok_or_else(|| NetlinkError::Malformed { request: Box::new(request), missing })
    }

    fn set_qdisc(
        &mut self,
        request: Request,
        device: u32,
        kind: &str,
        options: TcAttribute,
    ) -> Result<(), NetlinkError> {
        let mut message = root(device);
        message.attributes = vec![TcAttribute::Kind(kind.to_owned()), options];
        self.change(request, RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_REPLACE)
    }
}

fn root(device: u32) -> TcMessage {
    let mut message = TcMessage::with_index(device.cast_signed());
    message.header.parent = TcHandle::ROOT;
    message
}

fn parse(reply: &Reply) -> Option<QdiscStats> {
    let mut stats = QdiscStats::default();
    for attribute in reply.attributes(HEADER_BYTES) {
        match attribute.kind() {
            TCA_KIND => stats.kind = text(attribute.value()),
            TCA_STATS2 => {
                for part in attributes(attribute.value()) {
                    let field = |offset: usize| word(part.value().get(offset..)?);
                    match part.kind() {
                        TCA_STATS_BASIC => {
                            stats.bytes = double_word(part.value(), 0)?;
                            stats.packets = field(8)?;
                        }
                        TCA_STATS_QUEUE => {
                            stats.backlog_packets = field(0)?;
                            stats.backlog_bytes = field(4)?;
                            stats.dropped = field(8)?;
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(stats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_becomes_the_bytes_sent_in_it_beyond_the_burst() {
        let bucket = TokenBucket::with_latency(100_000_000, 10_000, std::time::Duration::from_millis(50));
        assert_eq!(bucket.limit_bytes, 625_000 + 10_000);
    }

    #[test]
    fn a_rate_beyond_32_bits_is_said_in_an_attribute_of_its_own() {
        let slow = TokenBucket { rate_bits_per_second: 8_000, burst_bytes: 1, limit_bytes: 1 };
        let fast = TokenBucket { rate_bits_per_second: 100_000_000_000, ..slow };
        assert_eq!(slow.options().len(), 2);
        assert_eq!(fast.options().len(), 3);
    }
}
