//! The sending half of a lane over TCP: packets in, bytes of a connection out, in clear or as TLS records.
//!
//! [`LanePump`] decides what the lane takes and when; this file has the socket.

mod outbox;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendFlags, sockopt};
use trunkline_trunk::compress::Compressor;
use trunkline_trunk::datagram::Rest;
use trunkline_trunk::path::{Grant, Heard, LaneSign};
use trunkline_trunk::{
    ArrivalReport, CongestionControlCause, HandedOver, Label, LaneConnection, LaneEdge, LaneId, LanePump,
    LaneSnapshot, PacketStore, Paths, Served, Stalling, Transmitter, TrunkPlan,
};
use trunkline_units::{Instant, Rate};

use self::outbox::Outbox;
use crate::clock;
use crate::lane::{LaneError, LaneTxStats, snapshot};
use crate::line_limit;
use crate::pool::{PacketBuf, Pool};
use crate::record::Sealer;
use crate::sys;
use crate::tcp_info::TcpInfo;

pub(crate) struct LaneTx {
    pub(crate) serial: u64,
    pump: LanePump,
    socket: Socket,
    /// What the other end has acknowledged, and when that was first seen; at first the handshake.
    heard: Heard,
}

/// The connection of a lane, and what waits for it.
struct Socket {
    fd: Arc<OwnedFd>,
    outbox: Outbox,
    /// What the far end is to be told of what arrived from it.
    report: Option<ArrivalReport>,
    /// Packets handed over.
    frames: u64,
    /// Whether the far end reads the numbers of packets, as it reads reports.
    numbers: bool,
}

impl Socket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The same, with the memory of the packets, while the lane is served.
struct Connection<'a> {
    socket: &'a mut Socket,
    pool: &'a mut Pool,
}

impl LaneConnection for Connection<'_> {
    type Packet = PacketBuf;
    type Error = LaneError;

    fn snapshot(&mut self) -> Result<LaneSnapshot, LaneError> {
        let info = TcpInfo::of(self.socket.fd())?;
        let total = sys::send_queue(self.socket.fd())?;
        Ok(snapshot(&info, info.notsent as usize, total))
    }

    fn held(&mut self) -> Result<usize, LaneError> {
        Ok(sys::send_queue(self.socket.fd())?)
    }

    fn unsent(&mut self) -> Result<usize, LaneError> {
        Ok(sys::send_queue_unsent(self.socket.fd())?)
    }

    fn hand_over_rest(&mut self, _now: Instant) -> Result<HandedOver, LaneError> {
        let Socket { fd, outbox, report, .. } = &mut *self.socket;
        let (mut bytes, mut is_ready) = outbox.send(fd, self.pool)?;
        if is_ready
            && let Some(report) = report.take()
            && outbox.put_report(&report, self.pool)?
        {
            let (more, has_gone) = outbox.send(fd, self.pool)?;
            (bytes, is_ready) = (bytes + more, has_gone);
        }
        Ok(HandedOver { bytes, is_ready })
    }

    #[inline]
    fn has_space(&self) -> bool {
        self.socket.outbox.has_space()
    }

    fn announce(&mut self, label: Label) -> Result<(), LaneError> {
        // Without its label a packet that is sent twice arrives twice, and one of several paths out of order.
        if self.socket.numbers {
            self.socket.outbox.put_label(label, self.pool)?;
        }
        Ok(())
    }

    #[inline]
    fn accept(&mut self, _now: Instant, packet: PacketBuf) -> Result<(), LaneError> {
        self.socket.frames += 1;
        Ok(self.socket.outbox.put(packet, self.pool)?)
    }

    fn copy(&mut self, packet: &PacketBuf) -> Option<PacketBuf> {
        PacketStore::copy(&mut self.pool, packet)
    }

    fn release(&mut self, packet: PacketBuf) {
        self.pool.release(packet);
    }

    /// What is in the outbox leaves next, before anything else happens.
    fn hand_over(&mut self, _now: Instant, _rest: Rest) -> Result<u64, LaneError> {
        self.socket.outbox.seal_stage(self.pool)?;
        Ok(0)
    }

    fn position(&self) -> u64 {
        self.socket.outbox.position()
    }

    /// The kernel sends what it has taken.
    fn transmit(&mut self, _now: Instant) -> bool {
        false
    }

    fn set_congestion_control(&mut self, name: &str, cause: CongestionControlCause) -> bool {
        let Err(error) = sys::set_congestion_control(self.socket.fd(), name) else { return true };
        line_limit::warn(&match cause {
            CongestionControlCause::Plan => {
                format!("this kernel does not give a lane the congestion control {name}: {error}")
            }
            CongestionControlCause::Path | CongestionControlCause::Restart => {
                format!("a lane's path loses packets, and this kernel does not give us {name}: {error}")
            }
        });
        false
    }

    fn set_low_water_mark(&mut self, bytes: usize) -> Result<(), LaneError> {
        Ok(sys::set_notsent_lowat(self.socket.fd(), bytes)?)
    }

    fn set_max_pacing_rate(&mut self, rate: Option<Rate>) -> Result<(), LaneError> {
        Ok(sys::set_max_pacing_rate(self.socket.fd(), rate.map(|rate| rate.bits_per_second() / 8))?)
    }
}

impl LaneTx {
    /// With `reports`, both ends report what arrives.
    pub(crate) fn new(
        serial: u64,
        fd: Arc<OwnedFd>,
        sealer: Option<Sealer>,
        compressor: Compressor,
        reports: bool,
    ) -> Self {
        let mut pump = LanePump::over_tcp();
        if reports {
            pump.expect_reports();
        }
        let socket =
            Socket { fd, outbox: Outbox::new(sealer, compressor), report: None, frames: 0, numbers: reports };
        LaneTx { serial, pump, socket, heard: Heard::new(clock::now()) }
    }

    /// What it has done so far.
    pub(crate) fn stats(&self) -> LaneTxStats {
        LaneTxStats {
            frames: self.socket.frames,
            bytes: self.pump.written(),
            key_updates: self.socket.outbox.key_updates(),
            compression: *self.socket.outbox.compression(),
            chosen: self.pump.chosen_congestion_control(),
            ..LaneTxStats::default()
        }
    }

    /// The pump, and the connection for it.
    fn parts<'a>(&'a mut self, pool: &'a mut Pool) -> (&'a mut LanePump, Connection<'a>) {
        (&mut self.pump, Connection { socket: &mut self.socket, pool })
    }

    /// Takes the settings of a plan for its place, at first and after a reload.
    ///
    /// Only the thread that serves the lane may call this: another one could set a congestion control between a look
    /// at the path and the choice that follows from it.
    pub(crate) fn configure(&mut self, plan: &TrunkPlan, lane: LaneId, pool: &mut Pool) {
        self.socket.outbox.set_compression(plan.group_of(lane).0.compression);
        let (pump, mut connection) = self.parts(pool);
        pump.configure(plan, lane);
        // Where the kernel does not pace, the lane goes without.
        let _ = pump.apply(&mut connection);
    }

    /// What the kernel says of the lane, for metrics.
    pub(crate) fn inspect(&self) -> io::Result<(TcpInfo, LaneSnapshot)> {
        let info = TcpInfo::of(self.socket.fd())?;
        let total = sys::send_queue(self.socket.fd())?;
        let unsent = sys::send_queue_unsent(self.socket.fd())?;
        Ok((info, snapshot(&info, unsent, total)))
    }

    /// What the kernel knows of the lane's path. What comes from the other end shows nothing of the way to it, unless it
    /// acknowledges.
    pub(crate) fn sign(&mut self, now: Instant) -> io::Result<LaneSign> {
        let info = TcpInfo::of(self.socket.fd())?;
        Ok(self.heard.sign(now, info.delivered.into(), info.unacked > 0, info.srtt()))
    }

    /// Whether it holds data that nobody has acknowledged, as far as is known: it is to be served again soon.
    pub(crate) const fn holds_data(&self) -> bool {
        self.pump.holds_data()
    }

    /// What is to be done about it if it delivers nothing.
    pub(crate) fn poll_stall(&mut self, now: Instant) -> Option<Stalling> {
        let news = self.pump.poll_stall(now);
        if news == Some(Stalling::Dead) {
            // The usual end would wait behind what does not get through.
            let _ = sockopt::set_socket_linger(&self.socket.fd, Some(Duration::ZERO));
        }
        news
    }

    /// Takes what the lane's path grants it.
    pub(crate) fn handle_grant(&mut self, grant: Grant, pool: &mut Pool) -> Result<(), LaneError> {
        let (pump, mut connection) = self.parts(pool);
        pump.handle_grant(grant, &mut connection)
    }

    /// Tells the transmitter how far the lane has delivered, if that is due.
    pub(crate) fn report_delivered(
        &mut self,
        now: Instant,
        lane: LaneId,
        transmitter: &mut Transmitter<PacketBuf>,
        pool: &mut Pool,
    ) -> Result<(), LaneError> {
        let (pump, mut connection) = self.parts(pool);
        pump.report_delivered(now, lane, transmitter, &mut connection)
    }

    /// Takes what the far end is to be told, in place of what it has not been told yet.
    pub(crate) const fn report(&mut self, report: ArrivalReport) {
        self.socket.report = Some(report);
    }

    /// Takes what the far end tells.
    pub(crate) fn handle_report(
        &mut self,
        now: Instant,
        lane: LaneId,
        paths: &mut Paths,
        report: ArrivalReport,
    ) {
        self.pump.handle_report(now, lane, paths, report);
    }

    /// Sends what waits in the lane, then what waits for it at the edge, until the lane is full.
    pub(crate) fn serve(
        &mut self,
        now: Instant,
        edge: LaneEdge<'_, PacketBuf>,
        pool: &mut Pool,
    ) -> Result<Served, LaneError> {
        let (pump, mut connection) = self.parts(pool);
        pump.serve(now, edge, &mut connection)
    }

    /// Says goodbye as far as that needs no waiting, and gives the blocks back.
    pub(crate) fn close(mut self, pool: &mut Pool) {
        if let Some(close) = self.socket.outbox.close() {
            let _ =
                rustix::net::send(&self.socket.fd, close.as_ref(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
        self.release(pool);
    }

    /// Gives the blocks back: what they held is lost.
    pub(crate) fn release(self, pool: &mut Pool) {
        self.socket.outbox.release(pool);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use trunkline_packet::{Headers, Offload, build};
    use trunkline_queue::Settings;
    use trunkline_trunk::compress::Compression;
    use trunkline_trunk::{ClassSettings, CongestionControl, LaneControl};

    use super::*;
    use crate::lane_script::{self, Owner};
    use crate::recorder::{Readings, Recorder};

    /// A lane over a connection to a listener, and its socket.
    fn lane() -> (TcpListener, Arc<OwnedFd>, LaneTx) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let stream = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let fd: Arc<OwnedFd> = Arc::new(stream.into());
        let lane = LaneTx::new(1, Arc::clone(&fd), None, Compressor::new(Compression::Off, 1), false);
        (listener, fd, lane)
    }

    /// A packet comes that is to leave.
    fn offer(transmitter: &mut Transmitter<PacketBuf>, now: Instant, pool: &mut Pool) {
        let bytes = build::udp(&build::Ip::v4(), (1, 2), &[7; 100]);
        let headers = Headers::parse(&bytes, bytes.len()).expect("a sound packet");
        let head = pool.copy(&bytes).expect("memory");
        let packet = PacketBuf::new(head, Default::default(), bytes.len(), Offload::None);
        let _ = transmitter.handle_packet(now, &headers, packet, |packet| pool.release(packet));
    }

    /// One class on one lane.
    fn one_lane() -> TrunkPlan {
        TrunkPlan::one_lane_per_class(vec![ClassSettings::new("all", Vec::new(), Settings::default(), 0)])
    }

    #[test]
    fn a_lane_has_the_congestion_control_of_its_plan_and_no_bound_left_behind() {
        let (_listener, fd, mut lane) = lane();
        let kernel = || rustix::net::sockopt::tcp_congestion(&fd).expect("its name");
        let mut plan = one_lane();
        let mut pool = Pool::new(1 << 20);
        let mut configure = |lane: &mut LaneTx, congestion_control| {
            plan.groups[0].congestion_control = congestion_control;
            lane.configure(&plan, LaneId(0), &mut pool);
            (kernel(), lane.stats().chosen)
        };
        let reno = CongestionControl::Named("reno".into());
        assert_eq!(configure(&mut lane, reno.clone()), ("reno".to_owned(), None));
        let usual = LaneControl::USUAL_CONGESTION_CONTROL;
        assert_eq!(configure(&mut lane, CongestionControl::ByPath), (usual.to_owned(), Some(usual)));
        // What the path chose stays over another reload.
        sys::set_congestion_control(fd.as_fd(), "reno").expect("every kernel has it");
        assert_eq!(configure(&mut lane, CongestionControl::ByPath), ("reno".to_owned(), Some(usual)));
        // A kernel that lacks one leaves the lane what it has.
        let unknown = CongestionControl::Named("no-such-one".into());
        assert_eq!(configure(&mut lane, unknown), ("reno".to_owned(), None));
        assert_eq!(configure(&mut lane, CongestionControl::AsOpened), ("reno".to_owned(), None));
        let mut paced = |lane: &mut LaneTx, edge_pacing| {
            plan.edge_pacing = edge_pacing;
            lane.configure(&plan, LaneId(0), &mut pool);
            lane.handle_grant(Some(Rate::from_mbit(8.0)).into(), &mut pool).expect("the connection takes it");
            sys::max_pacing_rate(lane.socket.fd()).expect("the kernel says it")
        };
        assert_eq!(paced(&mut lane, true), 1_000_000);
        assert_eq!(paced(&mut lane, false), u64::MAX);
    }

    #[test]
    fn a_lossy_path_changes_the_connection_of_a_lane_that_goes_by_its_path_and_of_no_other() {
        let (_listener, fd, mut lane) = lane();
        let kernel = || rustix::net::sockopt::tcp_congestion(&fd).expect("its name");
        let plan = |congestion_control| {
            let mut plan = one_lane();
            plan.groups[0].congestion_control = congestion_control;
            plan
        };
        let reno = plan(CongestionControl::Named("reno".into()));
        let by_path = plan(CongestionControl::ByPath);
        let mut transmitter: Transmitter<PacketBuf> = Transmitter::new(reno.clone(), 64, 1);
        let mut pool = Pool::new(1 << 20);
        offer(&mut transmitter, Instant::ZERO, &mut pool);
        let mut lossy = |lane: &mut LaneTx, from: u32| {
            for n in from..from + 400 {
                let rtt = Some(Duration::from_millis(30));
                let snapshot = LaneSnapshot {
                    srtt: rtt,
                    min_rtt: rtt,
                    segments_sent: n * 20,
                    retransmissions: n * 2,
                    ..LaneSnapshot::default()
                };
                let now = Instant::from_millis(u64::from(n) * 20);
                let mut pool = Pool::new(1 << 20);
                let (pump, mut connection) = lane.parts(&mut pool);
                // No room: the packet goes on waiting.
                let readings = Readings { snapshot, unsent: usize::MAX / 4 };
                let mut connection =
                    Recorder { connection: &mut connection, readings, calls: &mut Vec::new() };
                let paths = &mut Paths::default();
                let edge = LaneEdge { lane: LaneId(0), transmitter: &mut transmitter, paths };
                let served = pump.serve(now, edge, &mut connection).expect("the connection takes it");
                assert_eq!(served, Served::Full);
            }
        };
        let mut configure = |lane: &mut LaneTx, plan| lane.configure(plan, LaneId(0), &mut pool);
        configure(&mut lane, &reno);
        lossy(&mut lane, 0);
        assert_eq!((kernel().as_str(), lane.stats().chosen), ("reno", None));
        configure(&mut lane, &by_path);
        let usual = LaneControl::USUAL_CONGESTION_CONTROL;
        assert_eq!((kernel().as_str(), lane.stats().chosen), (usual, Some(usual)));
        lossy(&mut lane, 400);
        // A kernel without bbr leaves the lane its usual one.
        let (chosen, used) = (lane.stats().chosen, kernel());
        assert_eq!(chosen, Some(used.as_str()));
        if sys::set_congestion_control(fd.as_fd(), LaneControl::LOSSY_CONGESTION_CONTROL).is_ok() {
            assert_eq!(chosen, Some(LaneControl::LOSSY_CONGESTION_CONTROL));
        }
        configure(&mut lane, &reno);
        lossy(&mut lane, 800);
        assert_eq!((kernel().as_str(), lane.stats().chosen), ("reno", None));
    }

    /// A lane, and what it sends.
    struct Scripted {
        lane: LaneTx,
        transmitter: Transmitter<PacketBuf>,
        paths: Paths,
        pool: Pool,
    }

    impl Owner for Scripted {
        fn configure(&mut self, plan: &TrunkPlan, calls: &mut Vec<String>) {
            let (pump, mut connection) = self.lane.parts(&mut self.pool);
            pump.configure(plan, LaneId(0));
            let readings = Readings::default();
            let connection = &mut Recorder { connection: &mut connection, readings, calls };
            pump.apply(connection).expect("the connection takes it");
        }

        fn offer(&mut self, now: Instant) {
            offer(&mut self.transmitter, now, &mut self.pool);
        }

        fn serve(&mut self, now: Instant, readings: Readings, calls: &mut Vec<String>) -> Served {
            let (pump, mut connection) = self.lane.parts(&mut self.pool);
            let (transmitter, paths) = (&mut self.transmitter, &mut self.paths);
            let edge = LaneEdge { lane: LaneId(0), transmitter, paths };
            let connection = &mut Recorder { connection: &mut connection, readings, calls };
            pump.serve(now, edge, connection).expect("the connection is up")
        }

        fn is_dead(&mut self, now: Instant) -> bool {
            self.lane.poll_stall(now) == Some(Stalling::Dead)
        }
    }

    #[test]
    fn a_lane_is_asked_what_every_owner_of_lanes_is_asked() {
        let (_listener, _fd, lane) = lane();
        let mut scripted = Scripted {
            lane,
            transmitter: Transmitter::new(lane_script::plan(), 64, 1),
            paths: Paths::default(),
            pool: Pool::new(1 << 20),
        };
        lane_script::check(&mut scripted, Instant::from_millis(1), None);
    }
}
