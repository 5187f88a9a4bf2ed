//! Windows that a gateway lowers on their way to the sender: the clamping of Chakravorty et al. 2003, with a fixed maximum.
//!
//! A window's meaning depends on the scale that both ends agreed on (RFC 7323 §2.2), so the owner reports both SYNs. Without them a
//! window cannot be read, and stays as it is.

/// What one connection's ends said of the windows that the host behind the gateway offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowClamp {
    offered: Option<u8>,
    understood: bool,
}

impl WindowClamp {
    /// The SYN of the host behind: its window scale option, if it has one.
    pub fn handle_syn_of_host(&mut self, scale: Option<u8>) {
        self.offered = scale;
    }

    /// The SYN of the other end, without whose option no window is scaled.
    pub fn handle_syn_of_sender(&mut self, scale: Option<u8>) {
        self.understood = scale.is_some();
    }

    /// The field to write in place of `window`, if that offers more than `max` bytes. A window of zero is never written: it would stop
    /// the sender. The window of a SYN is never scaled.
    pub fn lowered(&self, window: u16, is_syn: bool, max: u64) -> Option<u16> {
        let shift = if is_syn || !self.understood { 0 } else { self.offered.unwrap_or(0).min(MAX_SHIFT) };
        let offered = u64::from(window) << shift;
        (offered > max).then(|| (max >> shift).clamp(1, u64::from(u16::MAX)) as u16)
    }
}

/// RFC 7323 §2.3.
const MAX_SHIFT: u8 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_lowered_to_the_maximum_and_never_raised_or_closed() {
        let mut clamp = WindowClamp::default();
        assert_eq!(clamp.lowered(65_535, false, 5000), Some(5000));
        assert_eq!(clamp.lowered(5000, false, 5000), None);
        clamp.handle_syn_of_host(Some(7));
        assert_eq!(clamp.lowered(400, false, 5000), None, "the other end does not scale");
        clamp.handle_syn_of_sender(Some(2));
        assert_eq!(clamp.lowered(400, false, 5000), Some(39), "39 × 128 bytes");
        assert_eq!(clamp.lowered(39, false, 5000), None);
        assert_eq!(clamp.lowered(400, true, 5000), None, "that of a SYN is not scaled");
        assert_eq!(clamp.lowered(0, false, 5000), None, "the host's own zero stays");
        clamp.handle_syn_of_host(Some(14));
        assert_eq!(clamp.lowered(2, false, 5000), Some(1), "not zero");
    }
}
