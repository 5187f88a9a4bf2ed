//! What is shown while it runs: a panel that is redrawn in place, or a line each second.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};

use super::measurement::{EdgeBacklog, Phase, RequestState, Sample, Tally};
use super::parameters::{PACKET_BYTES, Parameters};
use super::scenario::TICK;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const BAR_CELLS: usize = 10;
const SPARK_CELLS: usize = 20;
/// A request that takes so long fills the bar.
const REQUEST_FULL_MS: f64 = 2000.0;
/// What a person does not mind, and what nobody would call interactive.
const GOOD_MS: f64 = 400.0;
const BAD_MS: f64 = 1000.0;

/// Where progress goes, and in what form.
pub(super) struct Live {
    out: Box<dyn Write>,
    form: Form,
    /// Lines of the panel that is on the screen.
    drawn: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Redrawn in place, in colour or not.
    Panel { colour: bool },
    /// A line each second.
    Lines,
}

impl Live {
    /// On standard output: a panel if it is a terminal that can do so.
    pub(super) fn on_stdout() -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let form = if io::stdout().is_terminal() && !dumb {
            Form::Panel { colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
        } else {
            Form::Lines
        };
        Self { out: Box::new(io::stdout()), form, drawn: 0 }
    }

    /// Lines on standard error, since standard output is for the result.
    pub(super) fn on_stderr() -> Self {
        Self { out: Box::new(io::stderr()), form: Form::Lines, drawn: 0 }
    }

    /// A line that stays. Nobody may be listening any more: the demo goes on, and its result still counts.
    pub(super) fn say(&mut self, text: &str) {
        self.drawn = 0;
        let _ = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
    }

    /// What is being done until the first sample comes.
    pub(super) fn announce(&mut self, phase: Phase, doing: &str) {
        match self.form {
            Form::Panel { colour } => {
                let lines = [heading(phase, doing, Paint { colour })];
                self.draw(&lines);
            }
            Form::Lines => self.say(&format!("{}: {doing}", phase.title())),
        }
    }

    /// The latest of `samples` and how it came to that.
    pub(super) fn show(&mut self, phase: Phase, samples: &[Sample], parameters: &Parameters) {
        let Some(last) = samples.last() else { return };
        match self.form {
            Form::Panel { colour } => self.draw(&panel(phase, samples, parameters, Paint { colour })),
            Form::Lines => {
                let ticks_a_second = (1.0 / TICK.as_secs_f64()).round() as usize;
                if samples.len().is_multiple_of(ticks_a_second) {
                    self.say(&line(phase, last));
                }
            }
        }
    }

    /// Leaves the panel where it is; what follows goes below it.
    pub(super) fn keep(&mut self) {
        if matches!(self.form, Form::Panel { .. }) {
            self.say("");
        }
    }

    fn draw(&mut self, lines: &[String]) {
        let mut frame = String::new();
        if self.drawn > 0 {
            let _ = write!(frame, "\x1b[{}A", self.drawn);
        }
        // Without wrapping, a narrow window shows less instead of a mess.
        frame.push_str("\x1b[?7l");
        for line in lines {
            let _ = writeln!(frame, "\r{line}\x1b[K");
        }
        frame.push_str("\x1b[J\x1b[?7h");
        self.drawn = lines.len();
        let _ = self.out.write_all(frame.as_bytes()).and_then(|()| self.out.flush());
    }
}

#[derive(Debug, Clone, Copy)]
struct Paint {
    colour: bool,
}

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

const BOLD: &str = "1";
const DIM: &str = "2";
const BLUE: &str = "34";
const YELLOW: &str = "33";
const RED: &str = "31";
const GREEN: &str = "32";

fn heading(phase: Phase, what: &str, paint: Paint) -> String {
    let (number, how) = match phase {
        Phase::Before => (1, "plain routing"),
        Phase::After => (2, "an encrypted lane for each class"),
    };
    let title = paint.with(BOLD, &format!("{number}/2 {}", phase.title()));
    format!("{title}, {how}: {what}")
}

fn panel(phase: Phase, samples: &[Sample], parameters: &Parameters, paint: Paint) -> Vec<String> {
    let last = samples.last().copied().unwrap_or_default();
    let phase_time = parameters.lead_in() + parameters.measured();
    let samples_in_a_phase = (phase_time.as_secs_f64() / TICK.as_secs_f64()).ceil() as usize;
    let row = |name: &str,
               value: String,
               colour: &str,
               of: &dyn Fn(&Sample) -> Option<f64>,
               full: f64,
               note: String| {
        let now = bar(of(&last).unwrap_or(0.0) / full);
        let history: Vec<f64> = samples.iter().filter_map(|sample| Some(of(sample)? / full)).collect();
        let history = sparkline(&history, samples_in_a_phase);
        format!(
            "  {name:<15}{value:>13}  {}  {}  {}",
            paint.with(colour, &now),
            paint.with(colour, &history),
            paint.with(DIM, &note)
        )
    };
    let rate = parameters.rate_mbit;
    let mbit = |value: f64| format!("{value:.2} Mbit/s");
    let (request, request_colour) = match last.request {
        RequestState::Idle => ("-".to_owned(), GREEN),
        RequestState::Answered(ms) | RequestState::Waiting(ms) => {
            let colour = if ms < GOOD_MS {
                GREEN
            } else if ms < BAD_MS {
                YELLOW
            } else {
                RED
            };
            (milliseconds(ms), colour)
        }
    };
    let waiting = matches!(last.request, RequestState::Waiting(ms) if ms >= BAD_MS);
    let waiting = if waiting { "no answer yet" } else { "" };
    let queue_full = |packets| parameters.drain_ms(packets * PACKET_BYTES);
    let edge = |of: fn(EdgeBacklog) -> f64| move |sample: &Sample| sample.edge_ms.map(of);
    let edge_row = |name: &str, of: fn(EdgeBacklog) -> f64, colour: &str, packets: u64, note: String| {
        let value = last.edge_ms.map_or("-".to_owned(), |backlog| milliseconds(of(backlog)));
        row(name, value, colour, &edge(of), queue_full(packets), note)
    };
    let dropped = |percent: f64| format!("{percent:.1} % dropped");
    let edge_drops =
        |tally: Tally| if phase == Phase::After { dropped(tally.percent()) } else { String::new() };
    vec![
        heading(phase, &clock(last.at_s, parameters), paint),
        row("TCP goodput", mbit(last.tcp_mbit), BLUE, &|s| Some(s.tcp_mbit), rate, String::new()),
        row("UDP goodput", mbit(last.udp_mbit), YELLOW, &|s| Some(s.udp_mbit), rate, String::new()),
        row("request", request, request_colour, &|s| s.request.ms(), REQUEST_FULL_MS, waiting.to_owned()),
        row(
            "core queue",
            milliseconds(last.core_ms),
            RED,
            &|s| Some(s.core_ms),
            queue_full(parameters.core_queue_packets),
            dropped(last.drops.core.percent()),
        ),
        edge_row(
            "edge queue tcp",
            |edge| edge.tcp,
            BLUE,
            parameters.edge_queue_tcp_packets,
            edge_drops(last.drops.edge_tcp),
        ),
        edge_row(
            "edge queue udp",
            |edge| edge.udp,
            YELLOW,
            parameters.edge_queue_udp_packets,
            edge_drops(last.drops.edge_udp),
        ),
        format!("  {:<15}{:>13}", "transfers", format!("{} done", last.transfers)),
    ]
}

fn clock(at_s: f64, parameters: &Parameters) -> String {
    if at_s < 0.0 {
        format!("TCP alone, flood in {:.0} s", -at_s)
    } else {
        format!("{:.0} of {} s under the flood", at_s, parameters.seconds)
    }
}

fn line(phase: Phase, sample: &Sample) -> String {
    let request = match sample.request {
        RequestState::Idle => "-".to_owned(),
        RequestState::Answered(ms) => milliseconds(ms),
        RequestState::Waiting(ms) => format!("waiting for {}", milliseconds(ms)),
    };
    let edge = sample.edge_ms.map_or(String::new(), |edge| {
        format!("  edge {:.0}+{:.0} ms {:.1} % dropped", edge.tcp, edge.udp, sample.drops.edge().percent())
    });
    format!(
        "{}: {:>3.0} s  TCP {:.2}  UDP {:.2} Mbit/s  {} transfers  request {request}  core {:.0} ms {:.1} % dropped{edge}",
        phase.title(),
        sample.at_s,
        sample.tcp_mbit,
        sample.udp_mbit,
        sample.transfers,
        sample.core_ms,
        sample.drops.core.percent(),
    )
}

fn milliseconds(ms: f64) -> String {
    if ms < 10_000.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1e3) }
}

/// A bar of [`BAR_CELLS`], filled to an eighth of a cell.
fn bar(share: f64) -> String {
    const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * (BAR_CELLS * 8) as f64).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if let Some(part) = (eighths % 8).checked_sub(1) {
        bar.push(EIGHTHS[part]);
    }
    let cells = eighths.div_ceil(8);
    bar.push_str(&" ".repeat(BAR_CELLS - cells));
    bar
}

/// The course of a phase of which `shares` are the samples so far and `total` will be all.
fn sparkline(shares: &[f64], total: usize) -> String {
    let group = total.div_ceil(SPARK_CELLS).max(1);
    let cell = |group: &[f64]| {
        let mean = group.iter().sum::<f64>() / group.len() as f64;
        let level = (mean.clamp(0.0, 1.0) * BLOCKS.len() as f64).ceil() as usize;
        BLOCKS[level.saturating_sub(1)]
    };
    let mut line: String = shares.chunks(group).take(SPARK_CELLS).map(cell).collect();
    line.push_str(&" ".repeat(SPARK_CELLS - line.chars().count()));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_the_same_width_however_full() {
        for share in [-1.0, 0.0, 0.01, 0.5, 0.99, 1.0, 7.0] {
            assert_eq!(bar(share).chars().count(), BAR_CELLS, "{share}");
        }
        assert_eq!(bar(1.0), "█".repeat(BAR_CELLS));
        assert_eq!(bar(0.55).trim_end(), "█████▌");
    }

    #[test]
    fn a_sparkline_fills_as_the_phase_goes_on() {
        assert_eq!(sparkline(&[0.0, 0.5, 1.0], SPARK_CELLS).trim_end(), "▁▄█");
        assert_eq!(sparkline(&[0.0, 1.0, 1.0], 2 * SPARK_CELLS).trim_end(), "▄█");
        assert_eq!(sparkline(&[1.0; 60], 60), "█".repeat(SPARK_CELLS));
        assert_eq!(sparkline(&[], 0), " ".repeat(SPARK_CELLS));
    }

    #[test]
    fn no_line_of_the_panel_is_wider_than_a_terminal() {
        let sample = Sample {
            at_s: 12.0,
            request: RequestState::Waiting(123_456.0),
            edge_ms: Some(EdgeBacklog { tcp: 100.0, udp: 100.0 }),
            ..Sample::default()
        };
        let arguments = crate::cli::DemoArguments {
            seconds: 600,
            rate: trunkline_units::Rate::from_mbit(100.0),
            html: None,
            json: false,
        };
        let parameters = Parameters::new(&arguments).expect("parameters");
        for line in panel(Phase::After, &[sample; 50], &parameters, Paint { colour: false }) {
            assert!(line.trim_end().chars().count() <= 82, "{line}");
        }
    }
}
