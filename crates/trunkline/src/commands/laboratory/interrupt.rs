//! An orderly end at the first SIGINT, SIGTERM or SIGHUP.
//!
//! A command looks often whether it is to stop, and then unwinds: finished runs are kept, and their reports written. Where that
//! takes long, as of the reports of many experiments, the process ends all the same. All that is written is whole at any time, so
//! nothing is lost by that but what the next command makes again.

use std::thread;
use std::time::Duration;

use trunkline_engine::Engine;
use trunkline_testbed::interrupt;
use trunkline_testbed::traffic::Stop;

use crate::failure::Failure;
use crate::output::remark;

/// How long a command may take to end. A run on kernels takes down namespaces and gateways.
const GRACE: Duration = Duration::from_millis(800);
const GRACE_OF_KERNELS: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);

/// From now on these signals stop what looks at the result, and end the process soon after whatever it does.
pub(super) fn watch(engine: &Engine) -> Result<Stop, Failure> {
    let stop = interrupt::watch().map_err(Failure::doing("cannot wait for interrupts"))?;
    let grace = match engine {
        Engine::Sim => GRACE,
        Engine::Testbed { .. } => GRACE_OF_KERNELS,
    };
    let seen = stop.clone();
    let wait = move || {
        while !seen.is_stopped() {
            thread::sleep(LOOK);
        }
        thread::sleep(grace);
        remark(&"trunkline: interrupted; finished runs are kept, their reports may be missing");
        std::process::exit(Failure::Interrupted.code().into());
    };
    let named = thread::Builder::new().name("interrupt".to_owned());
    named.spawn(wait).map_err(Failure::doing("cannot wait for interrupts"))?;
    Ok(stop)
}
