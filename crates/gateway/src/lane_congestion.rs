//! The congestion control of a lane: the one that the file names, or one that the lane chooses by its path.

use std::os::fd::BorrowedFd;

use trunkline_trunk::{CongestionControl, PathLoss};
use trunkline_units::Instant;

use crate::sys::{self, TcpInfo};

/// What a lane's congestion control goes by.
#[derive(Debug, Default)]
pub(crate) struct LaneCongestion {
    /// If it is left to us.
    path: Option<PathLoss>,
    chosen: Option<&'static str>,
}

impl LaneCongestion {
    /// What the lane was given because of its path, if that is left to us.
    pub(crate) const fn chosen(&self) -> Option<&'static str> {
        self.chosen
    }

    /// Does from now on what is wanted. A lane that chose before and still may keeps what it has chosen.
    ///
    /// Only the thread that serves the lane may do that: another one could set a name between a look at the path and what
    /// follows from it, and be undone.
    pub(crate) fn follow(&mut self, fd: BorrowedFd<'_>, wanted: &CongestionControl) {
        let name = match wanted {
            CongestionControl::AsOpened => {
                *self = LaneCongestion::default();
                return;
            }
            CongestionControl::ByPath if self.chosen.is_some() => return,
            CongestionControl::ByPath => {
                *self = LaneCongestion {
                    path: Some(PathLoss::default()),
                    chosen: Some(sys::USUAL_CONGESTION_CONTROL),
                };
                sys::USUAL_CONGESTION_CONTROL
            }
            CongestionControl::Named(name) => {
                *self = LaneCongestion::default();
                name
            }
        };
        if let Err(error) = sys::set_congestion_control(fd, name) {
            tracing::warn!("this kernel does not give a lane the congestion control {name}: {error}");
        }
    }

    /// Looks at the losses of a lane for which packets wait; `queue` if its path has a queue.
    pub(crate) fn watch(&mut self, now: Instant, fd: BorrowedFd<'_>, info: &TcpInfo, queue: bool) {
        let Some(path) = &mut self.path else { return };
        if !path.update(now, info.data_segments_out, info.retransmits, queue) {
            return;
        }
        let name =
            if path.is_lossy() { sys::LOSSY_CONGESTION_CONTROL } else { sys::USUAL_CONGESTION_CONTROL };
        match sys::set_congestion_control(fd, name) {
            Ok(()) => self.chosen = Some(name),
            Err(error) => {
                tracing::warn!(
                    "a lane's path loses packets, and this kernel does not give us {name}: {error}"
                );
                self.path = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    #[test]
    fn a_lane_follows_from_a_name_to_its_path_and_back() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let stream = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let fd = stream.as_fd();
        let kernel = || rustix::net::sockopt::tcp_congestion(fd).expect("its name");
        let reno = CongestionControl::Named("reno".into());
        let mut congestion = LaneCongestion::default();
        congestion.follow(fd, &reno);
        assert_eq!((kernel().as_str(), congestion.chosen()), ("reno", None));
        // Losses do not matter to a lane whose congestion control the file names.
        let losses = |congestion: &mut LaneCongestion| {
            for n in 0..400_u32 {
                let info = TcpInfo { data_segments_out: n * 20, retransmits: n * 2, ..TcpInfo::default() };
                congestion.watch(Instant::from_millis(u64::from(n) * 20), fd, &info, false);
            }
        };
        losses(&mut congestion);
        assert_eq!(kernel(), "reno");
        congestion.follow(fd, &CongestionControl::ByPath);
        assert_eq!((kernel().as_str(), congestion.chosen()), ("cubic", Some("cubic")));
        losses(&mut congestion);
        // Not every kernel has bbr; what the lane then has it keeps over another reload.
        let (chosen, now) = (congestion.chosen(), kernel());
        assert_eq!(chosen, Some(now.as_str()));
        congestion.follow(fd, &CongestionControl::ByPath);
        assert_eq!((congestion.chosen(), kernel()), (chosen, now));
        congestion.follow(fd, &reno);
        losses(&mut congestion);
        assert_eq!((kernel().as_str(), congestion.chosen()), ("reno", None));
    }
}
