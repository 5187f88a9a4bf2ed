//! The distribution of ratios to the baseline, and what explains it.

use indexmap::IndexMap;
use serde::Serialize;

use super::{Options, Runs};
use crate::document::Document;
use crate::experiment::{Better, Bound, Measure, SurveySpec};
use crate::explain::{Influence, influence};
use crate::plan::Setting;
use crate::results::UnknownAnswer;

/// Quantiles that are reported.
const QUANTILES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];
/// Groups of a property that is a number with many values.
const GROUPS: usize = 3;
/// The most values of a property of which each is a group.
const MAX_CHOICES: usize = 8;

/// What came of a survey.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Survey {
    /// The experiment's id.
    pub experiment: String,
    /// Its title.
    pub title: String,
    /// The engine.
    pub engine: String,
    /// The version that made the runs.
    pub version: String,
    /// The seed.
    pub seed: u32,
    /// Samples that were asked for.
    pub asked: u32,
    /// Samples of which all variants have a run.
    pub complete: usize,
    /// What is sampled.
    pub properties: Vec<Property>,
    /// Each measure of each variant but the baseline.
    pub comparisons: Vec<Comparison>,
    /// How the bounds came out, of each variant.
    pub bounds: Vec<BoundOutcome>,
    /// All samples, in their order.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

/// Something that is sampled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Property {
    /// Its name.
    pub name: String,
    /// Of what.
    pub plausible: String,
}

/// A sample with its runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// Its number.
    pub sample: u32,
    /// The value of each property.
    pub properties: IndexMap<String, String>,
    /// By measure, the metric of each variant; none if it has no value.
    pub values: IndexMap<String, IndexMap<String, Option<f64>>>,
    /// By variant, each measure's ratio to the baseline's; null where it is infinite.
    pub ratios: IndexMap<String, IndexMap<String, f64>>,
}

/// A measure of a variant against the baseline's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The measure.
    pub measure: String,
    /// The metric.
    pub metric: String,
    /// Which way is better.
    pub better: Better,
    /// The variant.
    pub variant: String,
    /// Samples that have a ratio.
    pub samples: usize,
    /// The minimum, quantiles (5, 25, 50, 75, 95 %) and the maximum.
    pub quantiles: Vec<f64>,
    /// How many samples are below or above a value.
    pub parts: Vec<Thresholds>,
    /// The worst samples, the worst first.
    pub worst: Vec<u32>,
    /// Properties that it depends on, as rank correlations with the ratio.
    pub influences: Vec<Influence>,
    /// By property, how often the first part is there in groups of its values.
    pub groups: IndexMap<String, Vec<Group>>,
}

/// Samples below or above a value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Thresholds {
    /// Below this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<f64>,
    /// Above this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<f64>,
    /// How many.
    pub samples: usize,
    /// Their part of all.
    pub part: f64,
}

/// Samples whose property has one of some values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The values: one, or the first and the last.
    pub values: String,
    /// Samples.
    pub samples: usize,
    /// How many of them are in each part.
    pub parts: Vec<usize>,
    /// The worst ratio.
    pub worst: f64,
}

/// How a bound came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BoundOutcome {
    /// The bound.
    #[serde(flatten)]
    pub bound: Bound,
    /// The variant.
    pub variant: String,
    /// How many samples are beyond its value.
    pub samples: usize,
    /// Their part of all.
    pub part: f64,
    /// Whether it holds.
    pub holds: bool,
}

impl Thresholds {
    fn of(below: Option<f64>, above: Option<f64>, ratios: impl Iterator<Item = f64>) -> Self {
        let (mut samples, mut all) = (0, 0_usize);
        for ratio in ratios {
            all += 1;
            samples += usize::from(is_beyond(below, above, ratio));
        }
        Thresholds { below, above, samples, part: samples as f64 / all.max(1) as f64 }
    }
}

fn is_beyond(below: Option<f64>, above: Option<f64>, ratio: f64) -> bool {
    below.is_some_and(|below| ratio < below) || above.is_some_and(|above| ratio > above)
}

/// The values that samples are counted below and above, the first for groups.
const fn thresholds(better: Better) -> [(Option<f64>, Option<f64>); 3] {
    match better {
        Better::More => [(Some(0.9), None), (Some(0.7), None), (None, Some(1.1))],
        Better::Less => [(None, Some(1.0)), (None, Some(1.5)), (None, Some(3.0))],
    }
}

/// A variant's metric to the baseline's. What has no value is the worst there can be: nothing arrived, no request was answered.
fn ratio(better: Better, value: Option<f64>, baseline: Option<f64>) -> Option<f64> {
    let worst = match better {
        Better::More => 0.0,
        Better::Less => f64::INFINITY,
    };
    match (value, baseline) {
        (None, None) => None,
        (None, Some(_)) => Some(worst),
        (Some(_), None) => Some(if better == Better::Less { 0.0 } else { f64::INFINITY }),
        // Both nothing: the same.
        (Some(value), Some(baseline)) if value.total_cmp(&baseline).is_eq() => Some(1.0),
        (Some(value), Some(baseline)) => Some(value / baseline),
    }
}

/// What runs of samples say.
pub(super) fn survey(
    document: &Document,
    spec: &SurveySpec,
    settings: &[Setting],
    runs: &Runs,
    options: &Options,
) -> Survey {
    let experiment = document.experiment();
    let unknowns = document.about(&document.space());
    let variants = document.axis(&spec.axis);
    let of = |setting: &Setting| sample(setting, spec, &unknowns, &variants, runs);
    let samples: Vec<Sample> = settings.iter().filter_map(of).collect();
    let others = || variants.iter().filter(|variant| **variant != spec.baseline);
    let mut comparisons = Vec::new();
    let mut bounds = Vec::new();
    for variant in others() {
        for (name, measure) in &spec.measures {
            let of = Of { unknowns: &unknowns, settings, samples: &samples, variant, name, measure };
            comparisons.push(of.compare(options.worst));
            let own = spec.bounds.iter().filter(|bound| bound.measure == *name);
            bounds.extend(own.map(|bound| of.bound(bound)));
        }
    }
    Survey {
        experiment: experiment.id.clone(),
        title: experiment.title.clone(),
        engine: options.engine.name().to_owned(),
        version: crate::VERSION.to_owned(),
        seed: options.seed,
        asked: options.samples,
        complete: samples.len(),
        properties: unknowns
            .iter()
            .map(|one| Property { name: one.name.clone(), plausible: one.plausible.clone() })
            .collect(),
        comparisons,
        bounds,
        samples,
    }
}

/// A sample of which each variant has a run.
fn sample(
    setting: &Setting,
    spec: &SurveySpec,
    unknowns: &[UnknownAnswer],
    variants: &[String],
    runs: &Runs,
) -> Option<Sample> {
    let runs = runs.get(&setting.number)?;
    let metric = |variant: &String, measure: &Measure| -> Option<Option<f64>> {
        Some(runs.get(variant)?.outcome.metrics.get(&measure.metric).copied())
    };
    let mut values = IndexMap::new();
    for (name, measure) in &spec.measures {
        let of = |variant: &String| Some((variant.clone(), metric(variant, measure)?));
        values.insert(name.clone(), variants.iter().map(of).collect::<Option<IndexMap<_, _>>>()?);
    }
    let ratios = variants.iter().filter(|variant| **variant != spec.baseline).map(|variant| {
        let of = |(name, measure): (&String, &Measure)| {
            let ratio = ratio(measure.better, values[name][variant], values[name][&spec.baseline]);
            ratio.map(|ratio| (name.clone(), ratio))
        };
        (variant.clone(), spec.measures.iter().filter_map(of).collect())
    });
    let ratios = ratios.collect();
    let drawn = unknowns.iter().zip(&setting.drawn);
    let properties = drawn.map(|(unknown, drawn)| (unknown.name.clone(), drawn.value.clone())).collect();
    Some(Sample { sample: setting.number, properties, values, ratios })
}

/// A measure of a variant over samples.
struct Of<'a> {
    unknowns: &'a [UnknownAnswer],
    settings: &'a [Setting],
    samples: &'a [Sample],
    variant: &'a str,
    name: &'a str,
    measure: &'a Measure,
}

impl Of<'_> {
    fn ratios(&self) -> impl Iterator<Item = (&Setting, f64)> {
        let ratio = |sample: &Sample| sample.ratios.get(self.variant)?.get(self.name).copied();
        let of = move |sample: &Sample| Some((&self.settings[sample_place(sample)], ratio(sample)?));
        self.samples.iter().filter_map(of)
    }

    fn compare(&self, worst: usize) -> Comparison {
        let mut sorted: Vec<(&Setting, f64)> = self.ratios().collect();
        sorted.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        let at = |quantile: f64| {
            // The smallest value that so many are not above.
            let place = (quantile * sorted.len() as f64).ceil() as usize;
            sorted.get(place.max(1) - 1).map(|(_, ratio)| *ratio)
        };
        let quantiles = [0.0].into_iter().chain(QUANTILES).chain([1.0]).filter_map(at).collect();
        let thresholds = thresholds(self.measure.better);
        let parts = thresholds
            .map(|(below, above)| Thresholds::of(below, above, sorted.iter().map(|(_, ratio)| *ratio)));
        let numbers = sorted.iter().map(|(setting, _)| setting.number);
        let worst = match self.measure.better {
            Better::More => numbers.take(worst).collect(),
            Better::Less => numbers.rev().take(worst).collect(),
        };
        let groups = self.unknowns.iter().enumerate();
        let groups = groups.map(|(place, unknown)| (unknown.name.clone(), self.groups(place, &sorted)));
        Comparison {
            measure: self.name.to_owned(),
            metric: self.measure.metric.clone(),
            better: self.measure.better,
            variant: self.variant.to_owned(),
            samples: sorted.len(),
            quantiles,
            parts: parts.to_vec(),
            worst,
            influences: influence::of(self.unknowns, &sorted),
            groups: groups.collect(),
        }
    }

    /// Samples by the values of a property: each value, or as many below as above.
    fn groups(&self, place: usize, ratios: &[(&Setting, f64)]) -> Vec<Group> {
        let mut sorted: Vec<(f64, &str, f64)> = ratios
            .iter()
            .map(|(setting, ratio)| {
                let drawn = &setting.drawn[place];
                (drawn.position, drawn.value.as_str(), *ratio)
            })
            .collect();
        sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
        let runs: Vec<&[_]> = sorted.chunk_by(|one, other| one.0.total_cmp(&other.0).is_eq()).collect();
        let lengths: Vec<usize> = runs.iter().map(|run| run.len()).collect();
        let mut left = &sorted[..];
        let mut groups = Vec::new();
        for length in group_lengths(&lengths) {
            let (group, rest) = left.split_at(length);
            groups.extend(self.group(group));
            left = rest;
        }
        groups
    }

    fn group(&self, chunk: &[(f64, &str, f64)]) -> Option<Group> {
        let [(_, first, _), .., (_, last, _)] = chunk else {
            let [(_, only, ratio)] = chunk else { return None };
            return Some(self.group_of((*only).to_owned(), &[*ratio]));
        };
        let ratios: Vec<f64> = chunk.iter().map(|(_, _, ratio)| *ratio).collect();
        let values = if first == last { (*first).to_owned() } else { format!("{first} to {last}") };
        Some(self.group_of(values, &ratios))
    }

    fn group_of(&self, values: String, ratios: &[f64]) -> Group {
        let parts = thresholds(self.measure.better);
        let parts = parts
            .map(|(below, above)| ratios.iter().filter(|ratio| is_beyond(below, above, **ratio)).count());
        let worst = match self.measure.better {
            Better::More => ratios.iter().copied().fold(f64::INFINITY, f64::min),
            Better::Less => ratios.iter().copied().fold(0.0, f64::max),
        };
        Group { values, samples: ratios.len(), parts: parts.to_vec(), worst }
    }

    fn bound(&self, bound: &Bound) -> BoundOutcome {
        let ratios = self.ratios().map(|(_, ratio)| ratio);
        let Thresholds { samples, part, .. } = Thresholds::of(bound.below, bound.above, ratios);
        BoundOutcome {
            bound: bound.clone(),
            variant: self.variant.to_owned(),
            samples,
            part,
            holds: part <= bound.at_most.0,
        }
    }
}

/// How many samples are in each group, if so many have each value, in order. Those with one value are in one group: each value is one if
/// there are few. Otherwise a value that many samples have is one, and what is between such ones is divided.
fn group_lengths(values: &[usize]) -> Vec<usize> {
    if values.len() <= MAX_CHOICES {
        return values.to_vec();
    }
    let enough = values.iter().sum::<usize>().div_ceil(GROUPS);
    let (mut lengths, mut open) = (Vec::new(), 0);
    for samples in values {
        if *samples >= enough {
            lengths.extend([open, *samples]);
            open = 0;
        } else {
            open += samples;
            if open >= enough {
                lengths.push(std::mem::take(&mut open));
            }
        }
    }
    lengths.push(open);
    lengths.retain(|length| *length > 0);
    lengths
}

/// Its place among all settings.
const fn sample_place(sample: &Sample) -> usize {
    sample.sample as usize - 1
}

impl Survey {
    /// The worst samples of all measures, in their order.
    pub fn worst(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.comparisons.iter().flat_map(|one| &one.worst).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The name of a sample's file.
    pub fn file(&self, number: u32) -> String {
        format!("sample-{number}.toml")
    }

    /// A sample in words: its ratios, and its properties.
    pub fn about(&self, number: u32) -> Vec<String> {
        let Some(sample) = self.samples.iter().find(|sample| sample.sample == number) else {
            return Vec::new();
        };
        let join = |all: Vec<String>| all.join(", ");
        let ratios = sample.ratios.iter().map(|(variant, ratios)| {
            let ratios = ratios.iter().map(|(name, ratio)| format!("{name} {ratio:.3}"));
            format!("{variant} to the baseline: {}", join(ratios.collect()))
        });
        let properties = sample.properties.iter().map(|(name, value)| format!("{name} {value}"));
        vec![join(ratios.collect()), join(properties.collect())]
    }

    /// Whether all bounds hold.
    pub fn holds(&self) -> bool {
        self.bounds.iter().all(|bound| bound.holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_with_one_value_are_in_one_group() {
        assert_eq!(group_lengths(&[5, 3]), [5, 3], "few values");
        assert_eq!(group_lengths(&[1; 30]), [10, 10, 10]);
        // Half of them have none of it.
        let none = [&[50][..], &[1; 50]].concat();
        assert_eq!(group_lengths(&none), [50, 34, 16]);
        let none = [&[1; 20][..], &[80], &[1; 20]].concat();
        assert_eq!(group_lengths(&none), [20, 80, 20]);
        assert_eq!(group_lengths(&none).iter().sum::<usize>(), 120);
    }
}
