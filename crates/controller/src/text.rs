//! A plan as text.

use std::fmt;

use trunkline_schema::count;
use trunkline_units::Rate;

use crate::plan::{Both, Change, Plan, PlannedLink, PlannedTrunk, Refused, Resource, Short};

/// Refused trunks that are explained one by one.
const MAX_EXPLAINED: usize = 50;

impl fmt::Display for Plan {
    /// What is carried and what is refused, then trunks, then what is left of links.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = self.refused().count();
        let carried = self.trunks.len() - refused;
        writeln!(f, "{} carried, {refused} refused", count(carried, "trunk", "trunks"))?;
        if !self.removed.is_empty() {
            writeln!(f, "no longer there: {}", self.removed.join(", "))?;
        }
        for (trunk, why) in self.refused().take(MAX_EXPLAINED) {
            writeln!(f, "\n{} ({}) is refused{}", trunk.name, trunk.sites.join(" - "), reason(trunk, why))?;
        }
        if refused > MAX_EXPLAINED {
            writeln!(f, "\nand {} more are refused; --json has all", refused - MAX_EXPLAINED)?;
        }
        let carried = self.trunks.iter().filter(|trunk| trunk.refused.is_none());
        rows(f, ["trunk", "sites", "guarantee", "change", "way"], carried.map(carried_row))?;
        rows(f, ["link", "reservable", "reserved", "full"], self.links.iter().map(link_row))
    }
}

fn carried_row(trunk: &PlannedTrunk) -> [String; 5] {
    let change = match trunk.change {
        Change::New => "new",
        Change::Moved => "moved",
        Change::Kept | Change::Refused | Change::Lost => "",
    };
    let backup =
        trunk.backup.as_ref().map_or_else(String::new, |links| format!("; backup {}", links.join(", ")));
    [
        trunk.name.clone(),
        trunk.sites.join(" - "),
        rates(trunk.guarantee),
        change.to_owned(),
        format!("{}{backup}", trunk.way.join(", ")),
    ]
}

fn link_row(link: &PlannedLink) -> [String; 4] {
    let share = |reserved: u64, there: u64| if there == 0 { 0.0 } else { reserved as f64 / there as f64 };
    let fullest = share(link.reserved.forth, link.reservable.forth)
        .max(share(link.reserved.back, link.reservable.back));
    let full = format!("{:.0} %", fullest * 100.0);
    [link.name.clone(), rates(link.reservable), rates(link.reserved), full]
}

/// `: uplink x has 2 Mbit/s left …, 3 Mbit/s would fit`.
fn reason(trunk: &PlannedTrunk, why: &Refused) -> String {
    let gave_way =
        why.gave_way_to.as_ref().map_or_else(String::new, |other| format!(", having given way to {other}"));
    let fits = match why.fits {
        Some(fits) => format!("{} would fit", rates(fits)),
        None => "no lower rate would fit".to_owned(),
    };
    if why.short.is_empty() {
        let what = if trunk.asks_backup {
            "no two ways that share no link join the sites"
        } else {
            "no way joins the sites"
        };
        return format!("{gave_way}: {what}");
    }
    let is_both = |one: &Short| {
        why.short.iter().any(|other| {
            (&other.link, &other.from, other.resource, other.missing)
                == (&one.link, &one.to, one.resource, one.missing)
        })
    };
    let mut short: Vec<String> =
        why.short.iter().map(|one| format!("\n  {}", lacking(one, is_both(one)))).collect();
    short.dedup();
    format!("{gave_way}: of {} {fits}{}", rates(trunk.guarantee), short.concat())
}

/// What a link lacks, in one direction or in both.
fn lacking(short: &Short, both: bool) -> String {
    let Short { link, from, to, left, missing, .. } = short;
    let way = if both { "both ways".to_owned() } else { format!("from {from} to {to}") };
    match short.resource {
        Resource::Rate => format!("{link}, {way}: {} left, {} missing", bits(*left), bits(*missing)),
        Resource::Window => {
            format!("{link}, {way}: windows of five packets need {}", bits(left + missing))
        }
    }
}

fn bits(bits: u64) -> Rate {
    Rate::from_bits_per_second(bits)
}

/// `20 Mbit/s`, or `20 Mbit/s and back 5 Mbit/s`.
fn rates(rates: Both) -> String {
    let Both { forth, back } = rates;
    if forth == back { bits(forth).to_string() } else { format!("{} and back {}", bits(forth), bits(back)) }
}

/// A table whose columns are as wide as they need; nothing without rows.
fn rows<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    heads: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> fmt::Result {
    let rows: Vec<[String; N]> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    let heads = heads.map(str::to_owned);
    let width = |column: usize| {
        let cells = std::iter::once(&heads).chain(&rows).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    writeln!(f)?;
    for row in std::iter::once(&heads).chain(&rows) {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(f, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}
