//! The sending half of a lane, over TCP or over QUIC.

use std::io;

use trunkline_trunk::path::{Grant, LaneSign};
use trunkline_trunk::{
    ArrivalReport, LaneEdge, LaneId, LaneSnapshot, Paths, Served, Stalling, Transmitter, TrunkPlan,
};
use trunkline_units::Instant;

use crate::lane::{LaneError, LaneTxStats};
use crate::lane_tx::LaneTx;
use crate::pool::{PacketBuf, Pool};
use crate::quic::QuicTx;
use crate::tcp_info::TcpInfo;

/// The sending half of a lane.
pub(crate) enum Sending {
    Tcp(LaneTx),
    Quic(QuicTx),
}

impl From<LaneTx> for Sending {
    fn from(lane: LaneTx) -> Self {
        Sending::Tcp(lane)
    }
}

impl From<QuicTx> for Sending {
    fn from(lane: QuicTx) -> Self {
        Sending::Quic(lane)
    }
}

impl Sending {
    pub(crate) const fn serial(&self) -> u64 {
        match self {
            Sending::Tcp(lane) => lane.serial,
            Sending::Quic(lane) => lane.serial,
        }
    }

    pub(super) fn stats(&self) -> LaneTxStats {
        match self {
            Sending::Tcp(lane) => lane.stats(),
            Sending::Quic(lane) => lane.stats(),
        }
    }

    pub(super) fn inspect(&self) -> io::Result<(TcpInfo, LaneSnapshot)> {
        match self {
            Sending::Tcp(lane) => lane.inspect(),
            Sending::Quic(lane) => Ok(lane.inspect()),
        }
    }

    /// What it knows of its path; `None` of one that is about to end.
    pub(super) fn sign(&mut self, now: Instant) -> Option<LaneSign> {
        match self {
            Sending::Tcp(lane) => lane.sign(now).ok(),
            Sending::Quic(lane) => Some(lane.sign(now)),
        }
    }

    pub(super) fn configure(&mut self, plan: &TrunkPlan, lane: LaneId, pool: &mut Pool) {
        match self {
            Sending::Tcp(it) => it.configure(plan, lane, pool),
            Sending::Quic(it) => it.configure(plan, lane, pool),
        }
    }

    /// Whether it is to be served again soon though nothing may wait for it: nobody else says that it delivers nothing.
    pub(super) fn holds_data(&self) -> bool {
        matches!(self, Sending::Tcp(lane) if lane.holds_data())
    }

    /// What is to be done about it if it delivers nothing.
    pub(super) fn poll_stall(&mut self, now: Instant) -> Option<Stalling> {
        match self {
            Sending::Tcp(lane) => lane.poll_stall(now),
            Sending::Quic(lane) => lane.poll_stall(now),
        }
    }

    /// Takes what the lane's path grants it.
    pub(super) fn handle_grant(&mut self, grant: Grant, pool: &mut Pool) -> Result<(), LaneError> {
        match self {
            Sending::Tcp(lane) => lane.handle_grant(grant, pool),
            Sending::Quic(lane) => lane.handle_grant(grant, pool),
        }
    }

    /// Tells the transmitter how far the lane has delivered. One that fails here is about to end, and the transmitter is told then.
    pub(super) fn report_delivered(
        &mut self,
        now: Instant,
        lane: LaneId,
        transmitter: &mut Transmitter<PacketBuf>,
        pool: &mut Pool,
    ) {
        let _ = match self {
            Sending::Tcp(it) => it.report_delivered(now, lane, transmitter, pool),
            Sending::Quic(it) => it.report_delivered(now, lane, transmitter, pool),
        };
    }

    /// QUIC acknowledges; its lanes report nothing beside that.
    pub(super) fn report(&mut self, report: ArrivalReport) {
        if let Sending::Tcp(lane) = self {
            lane.report(report);
        }
    }

    pub(super) fn handle_report(
        &mut self,
        now: Instant,
        lane: LaneId,
        paths: &mut Paths,
        report: ArrivalReport,
    ) {
        if let Sending::Tcp(it) = self {
            it.handle_report(now, lane, paths, report);
        }
    }

    #[inline]
    pub(super) fn serve(
        &mut self,
        now: Instant,
        edge: LaneEdge<'_, PacketBuf>,
        pool: &mut Pool,
    ) -> Result<Served, LaneError> {
        match self {
            Sending::Tcp(it) => it.serve(now, edge, pool),
            Sending::Quic(it) => it.serve(now, edge, pool),
        }
    }

    /// Says goodbye as far as that needs no waiting. Of a lane over QUIC the worker closes the connection.
    pub(super) fn close(self, pool: &mut Pool) {
        if let Sending::Tcp(lane) = self {
            lane.close(pool);
        }
    }

    pub(super) fn release(self, pool: &mut Pool) {
        if let Sending::Tcp(lane) = self {
            lane.release(pool);
        }
    }
}
