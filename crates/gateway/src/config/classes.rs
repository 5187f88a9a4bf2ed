//! `classes`: a preset by its word, or `[[classes]]` one by one, and what holds between them.

use trunkline_units::{Rate, meant_rate};

use super::lane_groups::{self, Ride, Said};
use super::presets::{self, PRESETS, Preset};
use super::reader::{Field, Place, Section};
use super::{
    AdmissionConfig, ClassConfig, LaneGroupConfig, LanesConfig, MAX_CLASSES, MAX_LANES_PER_GROUP, MAX_WEIGHT,
    Over, queue, rules, values,
};
use crate::handshake::is_lane_group_name;

const NAME: &str = "1 to 32 of a-z 0-9 _ -";
/// The word for refusing in `flows.over`, which therefore names no class.
const REFUSE: &str = "refuse";
const OVER: &str = "\"refuse\" or the name of another class";
const MAX_FLOWS: u32 = 1_000_000;
/// A packet of full size still takes less than two seconds.
const MIN_RATE: Rate = Rate::from_bits_per_second(8_000);
const RATE: &str = "8kbit to 1000gbit: a number with kbit, mbit or gbit, such as \"10mbit\"";
const MAX_RATE: Rate = Rate::from_bits_per_second(1_000_000_000_000);

/// The classes of a site and the lanes they ride on; of a file that names none, the default ones.
pub(super) fn parse(site: &mut Section<'_>, lanes: &LanesConfig) -> (Vec<ClassConfig>, Vec<LaneGroupConfig>) {
    let Some(field) = site.field("classes") else { return presets::classes(Preset::default(), lanes) };
    if field.is_text() {
        return presets::classes(field.word(&PRESETS).unwrap_or_default(), lanes);
    }
    let words: Vec<_> = PRESETS.iter().map(|(word, _)| format!("{word:?}")).collect();
    let Some(sections) = field.sections(&format!("a list of tables, or {}", words.join(", "))) else {
        return presets::classes(Preset::default(), lanes);
    };
    if sections.is_empty() {
        site.place()
            .report("classes is an empty list", "at least one class, or no classes for the default ones");
    }
    if let Some(extra) = sections.get(MAX_CLASSES) {
        extra.place().report("is one class too many", format!("at most {MAX_CLASSES} classes"));
    }
    let count = sections.len();
    let mut drafts: Vec<Draft<'_>> = Vec::new();
    for (index, section) in sections.into_iter().enumerate() {
        let place = section.place().clone();
        let draft = draft(section);
        let name = &draft.class.name;
        if !name.is_empty() && drafts.iter().any(|other| other.class.name == *name) {
            place.report_plain(format!("{name:?} is the name of two classes"));
        }
        check_catch_all(&place, draft.class.rules.is_empty(), index + 1 == count);
        drafts.push(draft);
    }
    let (groups, memberships) = lane_groups::join(drafts.iter().map(|draft| &draft.ride), lanes);
    for (draft, lane_group) in drafts.iter_mut().zip(memberships) {
        draft.class.lane_group = lane_group;
    }
    link_overflows(&mut drafts);
    (drafts.into_iter().map(|draft| draft.class).collect(), groups)
}

/// A class as it stands alone; which class it overflows to and whom it shares lanes with is known once all
/// are read.
struct Draft<'d> {
    class: ClassConfig,
    ride: Ride<'d>,
    /// The name of the class that takes the flows it has no place for, if there is one.
    over: Option<Said<'d, String>>,
}

/// The last class, and no other, takes everything.
fn check_catch_all(place: &Place<'_>, takes_all: bool, last: bool) {
    match (takes_all, last) {
        (true, false) => place.report(
            "takes every packet, so that later classes never get one",
            "a class without match as the last one only",
        ),
        (false, true) => {
            place.report("is the last class but does not take every packet", "no match in the last class");
        }
        _ => {}
    }
}

fn draft(mut section: Section<'_>) -> Draft<'_> {
    let place = section.place().clone();
    let name = section.required("name", NAME).and_then(|field| {
        let name = field.parse(NAME, class_name)?;
        if name == REFUSE {
            field.place().report("is the word for refusing in flows.over", "another name");
        }
        Some(name)
    });
    let rules = section.field("match").map(rules::parse).unwrap_or_default();
    let default_queue = presets::queue(&rules);
    let queue =
        section.section("queue").map_or(default_queue, |section| queue::parse(section, default_queue));
    let lane = section.field("lane").and_then(|field| field.parse(NAME, class_name));
    let ride = Ride {
        lane: lane.or_else(|| name.clone()).unwrap_or_else(|| place.key().to_owned()),
        class: name.clone().unwrap_or_default(),
        count: Said::of(section.field("lanes"), |field| field.integer(1..=MAX_LANES_PER_GROUP)),
        congestion_control: Said::of(section.field("congestion_control"), |field| {
            field.parse(values::CONGESTION_CONTROL, values::congestion_control)
        }),
        dscp: Said::of(section.field("dscp"), rules::code_point),
        place: place.clone(),
    };
    let weight = section.field("weight").and_then(|field| field.integer(1..=MAX_WEIGHT));
    let guarantee = section.field("guarantee").and_then(|field| rate(&field));
    let ceiling = section.field("ceiling").and_then(|field| rate(&field));
    if let (Some(guarantee), Some(ceiling)) = (guarantee, ceiling)
        && guarantee > ceiling
    {
        place.report(
            format!("guarantee {guarantee} is above ceiling {ceiling}"),
            "a guarantee of at most the ceiling",
        );
    }
    let mut switch = |key| section.field(key).and_then(|field| field.boolean());
    let (priority, repeat_filter, header_compression) =
        (switch("priority"), switch("repeat_filter"), switch("header_compression"));
    let (admission, over) = section.section("flows").map_or((None, None), flows);
    section.finish();
    let class = ClassConfig {
        name: name.unwrap_or_default(),
        rules,
        queue,
        lane_group: 0,
        weight: weight.unwrap_or(1),
        guarantee,
        ceiling,
        priority: priority.unwrap_or(false),
        admission,
        repeat_filter: repeat_filter.unwrap_or(true),
        header_compression: header_compression.unwrap_or(true),
    };
    Draft { class, ride, over }
}

fn class_name(text: &str) -> Result<String, String> {
    if is_lane_group_name(text) { Ok(text.to_owned()) } else { Err(format!("{text:?} is no name")) }
}

fn rate(field: &Field<'_>) -> Option<Rate> {
    field.parse(RATE, |text| match text.parse::<Rate>() {
        Ok(rate) if (MIN_RATE..=MAX_RATE).contains(&rate) => Ok(rate),
        Ok(rate) => Err(format!("{rate} is out of range")),
        Err(_) => Err(match meant_rate(text) {
            Some(meant) => format!("{text:?} is no rate: write {meant:?}"),
            None => format!("{text:?} is no rate"),
        }),
    })
}

/// The bound on a class's flows, and the class named for those beyond.
fn flows(mut section: Section<'_>) -> (Option<AdmissionConfig>, Option<Said<'_, String>>) {
    let limit = section
        .required("limit", &format!("a whole number, 1 to {MAX_FLOWS}"))
        .and_then(|field| field.integer(1..=MAX_FLOWS));
    let over = Said::of(section.field("over"), |field| field.parse(OVER, class_name));
    section.finish();
    let admission = limit.map(|limit| AdmissionConfig { limit, over: Over::Refuse });
    (admission, over.filter(|over| over.value != REFUSE))
}

/// Finds the classes that flows overflow to. Such a class may have a limit, but passes no flow on: there are no chains
/// and no cycles.
fn link_overflows(drafts: &mut [Draft<'_>]) {
    let mut targets = Vec::new();
    for (from, draft) in drafts.iter().enumerate() {
        let Some(over) = &draft.over else { continue };
        let found = drafts.iter().position(|other| other.class.name == over.value);
        match found {
            None => over.place.report(format!("there is no class {:?}", over.value), OVER),
            Some(to) if to == from => over.place.report("is the class itself", OVER),
            Some(to) => {
                if let Some(next) = &drafts[to].over {
                    over.place.report(
                        format!("class {:?} passes flows on itself, to {:?}", over.value, next.value),
                        "\"refuse\" or a class whose own flows are unlimited or refused",
                    );
                }
                targets.push((from, to));
            }
        }
    }
    for (from, to) in targets {
        if let Some(admission) = &mut drafts[from].class.admission {
            admission.over = Over::Class(to);
        }
    }
}
