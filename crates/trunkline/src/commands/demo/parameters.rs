//! What the demo runs with: two numbers from the command line, and everything that follows from them.

use std::time::Duration;

use serde::Serialize;
use trunkline_units::Rate;

use crate::cli::DemoArguments;
use crate::failure::Failure;

/// Bytes of an IP packet that fills the WAN's MTU.
pub(super) const PACKET_BYTES: u64 = 1500;
/// UDP payload of such a packet.
pub(super) const DATAGRAM_BYTES: usize = 1472;
/// The congestion control of transfers, requests and lanes.
pub(super) const CONGESTION_CONTROL: &str = "cubic";

const SECONDS: std::ops::RangeInclusive<u32> = 3..=600;
const RATE_MBIT: std::ops::RangeInclusive<f64> = 2.0..=100.0;
/// How long the whole WAN takes for a file. At 10 Mbit/s that is the paper's 512 kB; at other rates it keeps the
/// number of files, and the share of their slow start, about the same.
const TRANSFER_TIME: Duration = Duration::from_micros(409_600);
/// How long a queue takes to drain at the WAN's rate.
const QUEUE_TIME: Duration = Duration::from_millis(100);
/// Shorter queues would not take the bursts of a single connection.
const LEAST_QUEUE_PACKETS: u64 = 16;
/// From one request of a connection to its next, at rates that answer sooner than that even through full queues.
const REQUEST_INTERVAL: Duration = Duration::from_millis(500);

/// The parameters of a demo, resolved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Parameters {
    /// The WAN's rate.
    pub(super) rate_mbit: f64,
    /// Seconds of each phase that are measured, from the beginning of the flood on.
    pub(super) seconds: u32,
    /// Seconds of TCP alone before.
    pub(super) lead_in_seconds: u32,
    /// The WAN's propagation delay, there and back.
    pub(super) round_trip_ms: u64,
    /// The queue of the WAN's router, tail drop.
    pub(super) core_queue_packets: u64,
    /// The edge queue of class `tcp`, tail drop.
    pub(super) edge_queue_tcp_packets: u64,
    /// The edge queue of class `udp`, tail drop.
    pub(super) edge_queue_udp_packets: u64,
    /// The flood's rate, headers included.
    pub(super) flood_mbit: f64,
    /// Connections that transfer files at a time.
    pub(super) transfer_connections: u32,
    /// Bytes of a file.
    pub(super) transfer_bytes: u64,
    /// Connections over which requests go, each waiting for the response before it sends the next.
    pub(super) request_connections: u32,
    /// From one request of a connection to its next.
    pub(super) request_interval_ms: u64,
    /// Bytes of a request.
    pub(super) request_bytes: u32,
    /// Bytes of a response.
    pub(super) response_bytes: u32,
    /// Of all TCP, lanes included.
    pub(super) congestion_control: &'static str,
}

impl Parameters {
    pub(super) fn new(arguments: &DemoArguments) -> Result<Self, Failure> {
        let (seconds, rate) = (arguments.seconds, arguments.rate);
        if !SECONDS.contains(&seconds) {
            return Err(Failure::Input(format!(
                "--seconds {seconds} is out of range; allowed: {} to {}",
                SECONDS.start(),
                SECONDS.end()
            )));
        }
        if !RATE_MBIT.contains(&rate.as_mbit()) {
            return Err(Failure::Input(format!(
                "--rate {rate} is out of range; allowed: {}mbit to {}mbit",
                RATE_MBIT.start(),
                RATE_MBIT.end()
            )));
        }
        let queue_packets = rate.bytes_in(QUEUE_TIME).div_ceil(PACKET_BYTES).max(LEAST_QUEUE_PACKETS);
        let request_interval = REQUEST_INTERVAL.mul_f64((4.0 / rate.as_mbit()).max(1.0));
        Ok(Self {
            rate_mbit: rate.as_mbit(),
            seconds,
            lead_in_seconds: (seconds / 5).clamp(1, 3),
            round_trip_ms: 20,
            core_queue_packets: queue_packets,
            edge_queue_tcp_packets: queue_packets,
            edge_queue_udp_packets: queue_packets,
            flood_mbit: rate.as_mbit() * 2.0,
            transfer_connections: 4,
            transfer_bytes: rate.bytes_in(TRANSFER_TIME),
            // Together ten a second at most rates. A single connection could not send so many over a path as long as a full queue
            // makes it, however well it is treated.
            request_connections: 5,
            request_interval_ms: request_interval.as_millis() as u64,
            request_bytes: 100,
            response_bytes: 200,
            congestion_control: CONGESTION_CONTROL,
        })
    }

    pub(super) fn rate(&self) -> Rate {
        Rate::from_mbit(self.rate_mbit)
    }

    pub(super) fn flood(&self) -> Rate {
        Rate::from_mbit(self.flood_mbit)
    }

    pub(super) fn lead_in(&self) -> Duration {
        Duration::from_secs(self.lead_in_seconds.into())
    }

    pub(super) fn measured(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    pub(super) fn request_interval(&self) -> Duration {
        Duration::from_millis(self.request_interval_ms)
    }

    /// How long the line takes for so many bytes, in milliseconds.
    pub(super) fn drain_ms(&self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / (self.rate_mbit * 1e3)
    }

    /// The parameters with their names and units, for people.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let queue = |packets: u64| {
            format!(
                "{packets} packets, {:.0} ms of the WAN, tail drop",
                self.drain_ms(packets * PACKET_BYTES)
            )
        };
        vec![
            ("WAN", format!("{}, {} ms there and back, MTU {PACKET_BYTES}", self.rate(), self.round_trip_ms)),
            ("Core queue", queue(self.core_queue_packets)),
            ("Edge queue, class tcp", queue(self.edge_queue_tcp_packets)),
            ("Edge queue, class udp", queue(self.edge_queue_udp_packets)),
            (
                "UDP flood",
                format!("{} of {PACKET_BYTES}-byte packets, constant and unresponsive", self.flood()),
            ),
            (
                "TCP transfers",
                format!(
                    "{} connections, file after file of {} bytes",
                    self.transfer_connections, self.transfer_bytes
                ),
            ),
            (
                "Requests",
                format!(
                    "over {} TCP connections, each every {} ms, {} bytes there and {} back",
                    self.request_connections,
                    self.request_interval_ms,
                    self.request_bytes,
                    self.response_bytes
                ),
            ),
            ("Congestion control", self.congestion_control.to_owned()),
            ("Trunk", "a TLS 1.3 lane for each class, tcp and udp".to_owned()),
            (
                "Measured",
                format!(
                    "{} s from the flood's beginning, after {} s without it",
                    self.seconds, self.lead_in_seconds
                ),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(seconds: u32, rate: &str) -> DemoArguments {
        DemoArguments { seconds, rate: rate.parse().expect("rate"), html: None, json: false }
    }

    #[test]
    fn a_queue_of_a_hundred_milliseconds_has_the_packets_of_that_time() {
        let parameters = Parameters::new(&arguments(25, "10mbit")).expect("parameters");
        assert_eq!(parameters.core_queue_packets, 84);
        assert_eq!(parameters.transfer_bytes, 512_000);
        assert!((parameters.drain_ms(125_000) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_what_is_allowed() {
        for (seconds, rate, allowed) in [
            (2, "10mbit", "3 to 600"),
            (601, "10mbit", "3 to 600"),
            (25, "1999kbit", "2mbit to 100mbit"),
            (25, "1gbit", "2mbit to 100mbit"),
        ] {
            let Err(Failure::Input(text)) = Parameters::new(&arguments(seconds, rate)) else {
                panic!("{seconds} {rate} was taken");
            };
            assert!(text.contains(allowed), "{text}");
        }
    }
}
