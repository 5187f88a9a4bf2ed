//! TCPs: presets, and what a file changes of them.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use trunkline_sim::SettingsError;
use trunkline_tcp::{DelayedAck, Preset, Settings, UnknownName};

use super::check::Check;
use super::keys;
use crate::experiment::{DelayedAckSpec, Experiment, TcpSpec};
use trunkline_schema::At;

type Tcps<'e> = BTreeMap<&'e str, Option<Arc<Settings>>>;

/// The file's TCPs. `None` stands for one with a mistake.
pub(super) fn all<'e>(experiment: &'e Experiment, at: &At<'_>) -> Tcps<'e> {
    let mut tcps = Tcps::new();
    for name in experiment.tcp.keys() {
        if name.parse::<Preset>().is_ok() {
            at.key(name).report("is the name of a preset", "another name, with preset = the preset's name");
            tcps.insert(name, None);
            continue;
        }
        // Those that it is built on come first.
        let mut chain: Vec<&str> = Vec::new();
        let mut next = name.as_str();
        while let (Some(spec), false) = (experiment.tcp.get(next), tcps.contains_key(next)) {
            if chain.contains(&next) {
                let problem = format!("goes in a circle: {}, {next}", chain.join(", "));
                at.key(chain[chain.len() - 1]).key("preset").report(problem, preset_names());
                tcps.extend(chain.drain(..).map(|name| (name, None)));
                break;
            }
            let Some((name, _)) = experiment.tcp.get_key_value(next) else { break };
            chain.push(name);
            next = &spec.preset;
        }
        for name in chain.into_iter().rev() {
            let spec = &experiment.tcp[name];
            let at = at.key(name);
            let base = named(experiment, &tcps, &at.key("preset"), &spec.preset);
            let built = base.and_then(|base| build(&at, spec, (*base).clone()));
            tcps.insert(name, built.map(Arc::new));
        }
    }
    tcps
}

/// A TCP by its name.
pub(super) fn named(
    experiment: &Experiment,
    tcps: &Tcps<'_>,
    at: &At<'_>,
    name: &str,
) -> Option<Arc<Settings>> {
    if let Some(known) = tcps.get(name) {
        return known.clone();
    }
    if let Ok(preset) = name.parse::<Preset>() {
        return Some(Arc::new(preset.settings()));
    }
    let own = experiment.tcp.keys().map(String::as_str);
    let all = keys::listed(Preset::ALL.iter().map(|preset| preset.name()).chain(own));
    at.report(format!("there is no TCP {name:?}"), all);
    None
}

fn preset_names() -> String {
    keys::listed(Preset::ALL.iter().map(|preset| preset.name()))
}

fn build(at: &At<'_>, spec: &TcpSpec, mut settings: Settings) -> Option<Settings> {
    fn set<T>(to: &mut T, value: Option<T>) {
        if let Some(value) = value {
            *to = value;
        }
    }
    let growth = chosen(&at.key("growth"), spec.growth.as_deref(), settings.congestion_control);
    let recovery = chosen(&at.key("recovery"), spec.recovery.as_deref(), settings.recovery);
    let slow_start = chosen(&at.key("slow_start"), spec.slow_start.as_deref(), settings.slow_start);
    if spec.recovery.is_some() {
        settings = settings.with_recovery(recovery?);
    }
    settings.congestion_control = growth?;
    settings.slow_start = slow_start?;
    set(&mut settings.mss, spec.mss.map(|mss| u16::try_from(mss.0).unwrap_or(u16::MAX)));
    if let Some(bytes) = spec.buffers {
        settings = settings.with_buffers(bytes.0);
    }
    set(&mut settings.send_buffer, spec.send_buffer.map(|bytes| bytes.0));
    set(&mut settings.receive_buffer, spec.receive_buffer.map(|bytes| bytes.0));
    set(&mut settings.initial_window, spec.initial_window);
    settings.initial_ssthresh = spec.initial_ssthresh.or(settings.initial_ssthresh);
    set(&mut settings.timers.initial_rto, spec.initial_rto.map(|time| time.0));
    set(&mut settings.timers.min_rto, spec.min_rto.map(|time| time.0));
    set(&mut settings.timers.max_rto, spec.max_rto.map(|time| time.0));
    set(&mut settings.timers.granularity, spec.granularity.map(|time| time.0));
    set(&mut settings.timers.max_retransmissions, spec.max_retransmissions);
    set(&mut settings.timers.max_syn_retransmissions, spec.max_syn_retransmissions);
    set(&mut settings.timers.max_syn_ack_retransmissions, spec.max_syn_ack_retransmissions);
    set(&mut settings.timers.linear_syn_retransmissions, spec.linear_syn_retransmissions);
    settings.delayed_ack =
        spec.delayed_ack.map_or(settings.delayed_ack, |spec| delayed(spec, settings.delayed_ack));
    set(&mut settings.sack, spec.sack);
    set(&mut settings.timestamps, spec.timestamps);
    set(&mut settings.window_scaling, spec.window_scaling);
    set(&mut settings.ecn, spec.ecn);
    set(&mut settings.path_mtu_discovery, spec.path_mtu_discovery);
    set(&mut settings.tso, spec.tso);
    set(&mut settings.gro, spec.gro.map(|time| (!time.0.is_zero()).then_some(time.0)));
    set(&mut settings.limited_transmit, spec.limited_transmit);
    let checked = settings.check();
    let holds = checked.is_ok();
    let checked = checked.map_err(|error| SettingsError::Tcp { place: String::new(), error });
    at.check(checked, |key| key_of(key, spec).to_owned());
    holds.then_some(settings)
}

/// What is chosen by a name, or what it was; `None` with a mistake.
fn chosen<T>(at: &At<'_>, name: Option<&str>, usual: T) -> Option<T>
where
    T: FromStr<Err = UnknownName>,
{
    let Some(name) = name else { return Some(usual) };
    match name.parse() {
        Ok(chosen) => Some(chosen),
        Err(UnknownName { kind, given, allowed }) => {
            at.report(format!("{given:?} is no {kind}"), allowed.join(", "));
            None
        }
    }
}

fn delayed(spec: DelayedAckSpec, usual: Option<DelayedAck>) -> Option<DelayedAck> {
    if spec.every == 1 {
        return None;
    }
    let timeout = usual.map_or(Duration::from_millis(200), |usual| usual.timeout);
    Some(DelayedAck {
        timeout: spec.timeout.map_or(timeout, |time| time.0),
        ticks: usual.is_some_and(|usual| usual.ticks),
        every: spec.every,
        quick: usual.map_or(0, |usual| usual.quick),
        pushed: usual.is_some_and(|usual| usual.pushed),
        // A delay that the file gives is fixed.
        adaptive: spec.timeout.is_none() && usual.is_some_and(|usual| usual.adaptive),
    })
}

/// The file's key for one of a TCP's settings.
fn key_of<'k>(key: &'k str, spec: &TcpSpec) -> &'k str {
    match key {
        "send_buffer" if spec.send_buffer.is_none() && spec.buffers.is_some() => "buffers",
        "receive_buffer" if spec.receive_buffer.is_none() && spec.buffers.is_some() => "buffers",
        other => other.strip_prefix("timers.").unwrap_or(other),
    }
}
