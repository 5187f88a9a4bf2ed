//! An orderly end when the user or the system asks for it.
//!
//! An interrupt only sets the [`Stop`] that every wait of an experiment checks. The experiment then unwinds as it
//! does at its end, and its resources go with the values that hold them. A second interrupt ends the process at
//! once.

use std::io;

use crate::sys;
use crate::traffic::Stop;

/// From now on SIGINT, SIGTERM and SIGHUP stop what looks at the result, which is the same for every caller.
pub fn watch() -> io::Result<Stop> {
    sys::stop_at(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
}
