//! Settings that make no sense are refused before anything runs, with what is wrong, where, and what is allowed.

use std::time::Duration;

use trunkline_link::mobile::{BlockErrors, Mobile, Pareto, Rlp};
use trunkline_link::{Impairments, Jitter, LinkChange, LinkSettings, Loss};
use trunkline_queue::{
    CoDelSettings, FqCoDelSettings, FredSettings, Limits, PieSettings, RedSettings,
    Settings as QueueSettings, TrunkSettings as TrunkQueue,
};
use trunkline_units::{Rate, SettingsError};

const SECOND: Duration = Duration::from_secs(1);

fn refused(checked: Result<(), SettingsError>, by: &str) {
    let error = checked.expect_err(by).to_string();
    assert!(error.starts_with(by) && error.contains("allowed: "), "{error:?}, not {by:?}");
}

fn link(change: impl FnOnce(&mut LinkSettings)) -> Result<(), SettingsError> {
    let mut settings = LinkSettings::new(Rate::from_mbit(10.0), Duration::from_millis(10));
    assert_eq!(settings.check(), Ok(()));
    change(&mut settings);
    settings.check()
}

#[test]
fn links_are_checked() {
    let none = Rate::ZERO;
    refused(link(|l| l.mtu = 67), "mtu is 67; allowed: 68 to 65535 bytes");
    refused(link(|l| l.mtu = 65_536), "mtu is 65536");
    refused(link(|l| l.rate = none), "rate is Rate(0)");
    refused(link(|l| l.delay = Duration::MAX), "delay is");
    refused(link(|l| l.impairments.loss = Loss::Uniform(1.1)), "impairments.loss is 1.1; allowed: 0 to 1");
    refused(link(|l| l.impairments.loss = Loss::Uniform(f64::NAN)), "impairments.loss is NaN");
    let bursts = Loss::Bursts { to_bad: 0.1, to_good: -0.1, good: 0.0, bad: 1.0 };
    refused(link(|l| l.impairments.loss = bursts), "impairments.loss.to_good is -0.1");
    refused(link(|l| l.impairments.corruption = -1.0), "impairments.corruption is -1.0");
    refused(link(|l| l.impairments.duplication = 2.0), "impairments.duplication is 2.0");
    let long = Jitter::Uniform { max: Duration::MAX, reorders: false };
    refused(link(|l| l.impairments.jitter = long), "impairments.jitter.max is");
    for rate in [Rate::MAX, Rate::from_bits_per_second(1_000_000_000_000_000)] {
        assert_eq!(link(|l| l.rate = rate), Ok(()));
    }
    refused(link(|l| l.rate = Rate::from_bits_per_second(u64::MAX - 1)), "rate is Rate");
    for (mtu, loss) in [(68, 1.0), (65_535, 0.0)] {
        assert_eq!(link(|l| (l.mtu, l.impairments.loss) = (mtu, Loss::Uniform(loss))), Ok(()));
    }
}

#[test]
fn changes_of_a_link_are_checked() {
    let to = |mbit| LinkChange::Rate(Rate::from_mbit(mbit));
    let schedule = |changes: Vec<(Duration, LinkChange)>, repeat| {
        link(|l| (l.rate, l.changes, l.repeat) = (Rate::ZERO, changes, repeat))
    };
    refused(schedule(vec![(SECOND * 2, to(1.0)), (SECOND, to(2.0))], None), "changes[1] is at 1s");
    refused(schedule(vec![(SECOND, to(0.0))], None), "rate is Rate(0)");
    refused(schedule(vec![(SECOND, to(1.0))], Some(Duration::ZERO)), "repeat is 0ns");
    refused(schedule(vec![(SECOND * 2, to(1.0))], Some(SECOND)), "repeat is 1s");
    assert_eq!(schedule(vec![(SECOND, to(1.0)), (SECOND, to(0.0))], Some(SECOND)), Ok(()));
    let mut impairments = Impairments { loss: Loss::Uniform(7.0), ..Default::default() };
    let change = |impairments| link(|l| l.changes = vec![(SECOND, LinkChange::Impairments(impairments))]);
    refused(change(impairments), "changes[0].impairments.loss is 7.0");
    impairments.loss = Loss::None;
    impairments.jitter = Jitter::Uniform { max: SECOND, reorders: true };
    refused(change(impairments), "changes[0].impairments.jitter is");
}

#[test]
fn radio_links_are_checked() {
    let mobile = |mobile| link(|l| l.mobile = Some(mobile));
    let pareto = Pareto::of_mean(SECOND);
    refused(mobile(Mobile::Pareto(Pareto { shape: 1.0, ..pareto })), "mobile.shape is 1.0");
    refused(mobile(Mobile::Pareto(Pareto { share: f64::NAN, ..pareto })), "mobile.share is NaN");
    let rlp = Rlp { block: 20, interval: SECOND / 100, feedback: 8, errors: BlockErrors::Independent(0.1) };
    assert_eq!(mobile(Mobile::Rlp(rlp)), Ok(()));
    refused(mobile(Mobile::Rlp(Rlp { block: 0, ..rlp })), "mobile.block is 0");
    refused(mobile(Mobile::Rlp(Rlp { interval: Duration::ZERO, ..rlp })), "mobile.interval is 0ns");
    refused(mobile(Mobile::Rlp(Rlp { feedback: 0, ..rlp })), "mobile.feedback is 0");
    let errors = |errors| mobile(Mobile::Rlp(Rlp { errors, ..rlp }));
    refused(errors(BlockErrors::Independent(1.0)), "mobile.errors is");
    refused(errors(BlockErrors::Independent(-0.5)), "mobile.errors is -0.5");
}

#[test]
fn queues_are_checked() {
    let queue = |queue| link(|l| l.queue = queue);
    let none = Limits { segments: 0, ..Limits::default() };
    refused(queue(QueueSettings::TailDrop(none)), "queue.limits.segments is 0");
    let red = RedSettings::default();
    refused(queue(QueueSettings::Red(RedSettings { min: red.max, ..red })), "queue.min is");
    refused(queue(QueueSettings::Red(RedSettings { weight: 0.0, ..red })), "queue.weight is 0.0");
    let fred = FredSettings { max_p: 1.5, ..FredSettings::default() };
    refused(queue(QueueSettings::Fred(fred)), "queue.max_p is 1.5");
    let codel = CoDelSettings { interval: Duration::ZERO, ..CoDelSettings::default() };
    refused(queue(QueueSettings::CoDel(codel)), "queue.interval is 0ns");
    let fq = FqCoDelSettings { quantum: 0, ..FqCoDelSettings::default() };
    refused(queue(QueueSettings::FqCoDel(fq)), "queue.quantum is 0");
    let pie = PieSettings { update: Duration::ZERO, ..PieSettings::default() };
    refused(queue(QueueSettings::Pie(pie)), "queue.update is 0ns");
    let trunk = TrunkQueue { threshold: f64::NAN, ..TrunkQueue::default() };
    refused(queue(QueueSettings::Trunk(trunk)), "queue.threshold is NaN");
}
