//! Advice in plain words.

use std::fmt::Write;

use super::{Advice, Evidence, Finding, GroupAim, Trial, TrialOutcome};
use crate::number::{fixed, show, signed, spread};
use crate::results::Estimate;

/// What gains and losses are in.
const SCALE: &str = "What was tried, each against the best before it. Its gain is the sum, over groups, of the logarithm of what counts for each: 0.1 is a tenth \
                     more for one group, or half of that for two (± half of the 95 % interval):";

impl Advice {
    /// What is gained and lost against direct routing, what to choose, and the evidence.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n\n{}\n\n", self.title, self.against_direct());
        text += &self.verdict();
        if !self.left_out.is_empty() {
            let axes = self.left_out.join(", ");
            let _ = write!(text, "\n\nThis is of the values that the file has without its sweep ({axes}).");
        }
        if self.encrypted {
            text += "\n\nLanes were tried encrypted, as a gateway ships them, though the file has encryption = \"none\".";
        }
        let _ = write!(text, "\n\n{SCALE}\n\n");
        for (number, finding) in self.findings.iter().enumerate() {
            text += &if number == 0 { finding.first() } else { finding.sentence() };
            text.push('\n');
        }
        text += "\nWhat counts, of each group:\n\n";
        for one in &self.aims {
            let _ = writeln!(text, "  {}: {}", one.group, one.aim.words());
        }
        let _ = write!(
            text,
            "\nWithout a trunk and with {}, by seeds that nothing was chosen by (mean ± half of the 95 % interval):\n\n{}",
            if self.trunk { "what is advised" } else { "the best that was tried" },
            self.table()
        );
        let _ = writeln!(text, "\n{} runs.", self.runs);
        if self.trunk {
            let _ = write!(
                text,
                "\nFor the experiment's file, in place of its trunks:\n\n{}",
                self.experiment_toml
            );
            let _ = write!(text, "\nFor the gateways, at the end of their files:\n\n{}", self.gateway_toml);
        }
        text
    }

    /// What counts first for each group, beside what it has without a trunk.
    fn against_direct(&self) -> String {
        let of = |one: &GroupAim| {
            let metric = format!("{}.{}", one.group, one.aim.metrics()[0]);
            let evidence = self.evidence.iter().find(|evidence| evidence.metric == metric)?;
            Some(format!("{metric} {}", evidence.ratio().unwrap_or_else(|| evidence.sentence())))
        };
        let groups: Vec<String> = self.aims.iter().filter_map(of).collect();
        let what = if self.trunk { "What is advised" } else { "The best trunk that was tried" };
        format!("{what} against direct routing: {}.", groups.join(", "))
    }

    fn verdict(&self) -> String {
        match self.gain.outcome {
            TrialOutcome::Better => {}
            TrialOutcome::Worse | TrialOutcome::Same => {
                return "Choose no trunk: none of those tried serves this network better than none does."
                    .to_owned();
            }
            TrialOutcome::Unclear => {
                return format!(
                    "No advice: the best that was tried gains {} over no trunk, which so many runs cannot tell from nothing. More \
                     --runs or a longer duration may.",
                    self.gain.number()
                );
            }
        }
        let chosen: Vec<&str> =
            self.findings.iter().skip(1).filter(|one| one.is_choice()).map(|one| &*one.choice).collect();
        let what = if chosen.is_empty() {
            "the trunk as it is written".to_owned()
        } else {
            format!("the trunk, with {}", chosen.join("; "))
        };
        let mut text = format!("Choose: {what}.");
        for (head, better) in [("Better than without a trunk:", true), ("Worse than without a trunk:", false)]
        {
            let of_these: Vec<&Evidence> =
                self.evidence.iter().filter(|one| one.certain && one.better == better).collect();
            if of_these.is_empty() {
                continue;
            }
            let width = of_these.iter().map(|one| one.metric.chars().count()).max().unwrap_or(0);
            let _ = write!(text, "\n\n{head}\n");
            for one in of_these {
                let _ = write!(text, "\n  {:width$}  {}", one.metric, one.sentence());
            }
        }
        text
    }

    fn table(&self) -> String {
        let row = |one: &Evidence| {
            let unit = &*one.unit;
            let sure = if one.certain { "" } else { " (none beyond chance)" };
            let difference = format!("{}{sure}", spread(&one.difference, unit));
            [one.metric.clone(), spread(&one.without, unit), spread(&one.with, unit), difference]
        };
        let head = ["", "no trunk", if self.trunk { "as advised" } else { "best tried" }, "difference"];
        let rows: Vec<[String; 4]> =
            std::iter::once(head.map(str::to_owned)).chain(self.evidence.iter().map(row)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2].map(width);
        let line = |row: &[String; 4]| {
            let [metric, without, with, difference] = row;
            let line = format!(
                "  {metric:0$}  {without:>1$}  {with:>2$}  {difference}",
                widths[0], widths[1], widths[2]
            );
            format!("{}\n", line.trim_end())
        };
        rows.iter().map(line).collect()
    }
}

impl Finding {
    /// Something else than before is advised.
    fn is_choice(&self) -> bool {
        self.choice != self.before
    }

    /// Of the trunk as it is written.
    fn first(&self) -> String {
        let text = match self.tried.first().map(|trial| trial.outcome) {
            Some(TrialOutcome::Better) => "it is better",
            Some(TrialOutcome::Worse) => "it is worse",
            Some(TrialOutcome::Unclear) => "the runs do not tell",
            Some(TrialOutcome::Same) | None => "it makes no difference",
        };
        format!("- {}: {text}.{}", self.setting, self.trials())
    }

    fn sentence(&self) -> String {
        let all = |outcome| self.tried.iter().all(|trial| trial.outcome == outcome);
        let text = if self.is_choice() {
            format!("choose {}", self.choice)
        } else if all(TrialOutcome::Same) {
            format!("it makes no difference; {}", self.choice)
        } else {
            format!("keep {}", self.choice)
        };
        format!("- {}: {text}.{}", self.setting, self.trials())
    }

    fn trials(&self) -> String {
        self.tried
            .iter()
            .map(|trial| format!("\n    {:<14}  {:<7}  {}", trial.number(), trial.word(), trial.name))
            .collect::<Vec<_>>()
            .concat()
    }
}

impl Trial {
    fn number(&self) -> String {
        let half = self.gain.ci95.map(|half| format!(" ± {}", fixed(half, 2))).unwrap_or_default();
        format!("{}{half}", signed(self.gain.mean, 2))
    }

    const fn word(&self) -> &'static str {
        match self.outcome {
            TrialOutcome::Better => "better",
            TrialOutcome::Worse => "worse",
            TrialOutcome::Same => "same",
            TrialOutcome::Unclear => "unclear",
        }
    }
}

impl Evidence {
    /// `1.03 times`, of what is no share and not nothing.
    fn ratio(&self) -> Option<String> {
        let is_amount = self.unit != "1" && self.without.mean > 0.0;
        is_amount.then(|| format!("{} times", fixed(self.with.mean / self.without.mean, 2)))
    }

    fn sentence(&self) -> String {
        let show = |estimate: &Estimate| show(estimate.mean, &self.unit);
        format!("{} instead of {}", show(&self.with), show(&self.without))
    }
}
