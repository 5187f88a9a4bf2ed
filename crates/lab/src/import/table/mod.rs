//! Tables: a row for each moment, whose values hold until the next one.
//!
//! With a header the names of the columns say what they are and in which unit ([`column`]); a value that is not there leaves what held before.
//! Without a header two columns are seconds and Mbit/s, as in the traces of Pensieve (Mao et al., SIGCOMM 2017).

mod column;
mod layout;
mod time;

use super::{ImportError, MAX_STEPS, Recording, Step, error, micros, of_all, rate_of};
use column::{MAX_SECONDS, Meaning, Quantity, is_canonical};
use layout::{Layout, Separator};

/// Columns without names, where there are two.
const HEADLESS: [&str; 2] = ["time_s", "rate_mbps"];
/// What is said of a table that does not say what a link needs.
const ALLOWED: &str =
    "allowed: a time (time_s) and a rate with its unit (rate_mbps, kbit/s, …), delay_ms or loss";

/// A column that is read.
#[derive(Debug, Clone, PartialEq)]
struct Column {
    place: usize,
    name: String,
    meaning: Meaning,
}

/// The columns that are read.
#[derive(Debug)]
struct Columns {
    time: Column,
    /// A date beside a time of day.
    date: Option<usize>,
    values: Vec<Column>,
}

pub(super) fn read(text: &str) -> Result<(Recording, Vec<String>), ImportError> {
    let Layout { separator, header, rows } = Layout::of(text)?;
    let mut notes = Vec::new();
    let (line, names) = if let Some(named) = header {
        named
    } else {
        let (line, first) = rows[0];
        let count = separator.fields(first).len();
        if count != HEADLESS.len() {
            return Err(error(
                line,
                format!(
                    "has {count} columns without names; allowed: two (seconds, Mbit/s), or a line above that names them, such as time_s,rate_mbps"
                ),
            ));
        }
        notes.push("no header: read as time in s and rate in Mbit/s".to_owned());
        (line, HEADLESS.map(str::to_owned).to_vec())
    };
    let columns = Columns::of(&names, line)?;
    let ignored: Vec<&str> = (0..)
        .zip(&names)
        .filter(|(place, _)| !columns.reads(*place))
        .map(|(_, name)| name.as_str())
        .collect();
    if !ignored.is_empty() {
        notes.push(format!("not read: {}", ignored.join(", ")));
    }
    let table = Table { separator, columns, names: names.len(), header: line };
    let recording = table.recording(&rows, &mut notes)?;
    Ok((recording, notes))
}

impl Columns {
    fn of(names: &[String], line: u64) -> Result<Self, ImportError> {
        let known: Vec<Column> = (0..)
            .zip(names)
            .filter_map(|(place, name)| {
                Some(Column { place, name: name.clone(), meaning: Meaning::of(name)? })
            })
            .collect();
        // Of several with the same meaning the one with the documented name.
        let of = |quantity: Quantity| -> Vec<&Column> {
            let all: Vec<&Column> =
                known.iter().filter(|column| column.meaning.quantity == quantity).collect();
            let named: Vec<&Column> =
                all.iter().copied().filter(|column| is_canonical(&column.name)).collect();
            if named.is_empty() { all } else { named }
        };
        let has = || names.join(", ");
        let is_date = |column: &&&Column| column.name.eq_ignore_ascii_case("date");
        let times = of(Quantity::Time);
        let Some(time) = times.iter().find(|column| !is_date(column)).or(times.first()).copied().cloned()
        else {
            return Err(error(line, format!("no column is a time: {}; {ALLOWED}", has())));
        };
        let mut values = Vec::new();
        for quantity in [Quantity::Rate, Quantity::Delay, Quantity::Loss] {
            match of(quantity).as_slice() {
                [] => {}
                [only] => values.push((*only).clone()),
                [one, other, ..] => {
                    return Err(error(
                        line,
                        format!(
                            "has both {} and {}; allowed: one of them, or one that is called {}",
                            one.name,
                            other.name,
                            match quantity {
                                Quantity::Rate => "rate_mbps, rate_kbps or rate_bps",
                                Quantity::Delay => "delay_ms",
                                Quantity::Time | Quantity::Loss => "loss",
                            }
                        ),
                    ));
                }
            }
        }
        if values.is_empty() {
            return Err(error(
                line,
                format!("no column is a rate with its unit, a delay or a loss: {}; {ALLOWED}", has()),
            ));
        }
        let date = names.iter().position(|name| name.eq_ignore_ascii_case("date"));
        Ok(Columns { time, date, values })
    }

    fn reads(&self, place: usize) -> bool {
        self.time.place == place
            || self.date == Some(place)
            || self.values.iter().any(|column| column.place == place)
    }
}

/// What is known of a table before its rows are read.
struct Table {
    separator: Separator,
    columns: Columns,
    /// Columns.
    names: usize,
    /// The line that names them.
    header: u64,
}

impl Table {
    fn recording(&self, rows: &[(u64, &str)], notes: &mut Vec<String>) -> Result<Recording, ImportError> {
        let mut steps: Vec<Step> = Vec::new();
        let (mut first, mut empty) = (None, Vec::new());
        for &(line, row) in rows {
            let fields = self.separator.fields(row);
            if fields.len() > self.names {
                return Err(error(
                    line,
                    format!(
                        "has {} fields, and line {} {}; allowed: the same number, and a decimal comma only between quotes or beside another separator",
                        fields.len(),
                        self.header,
                        self.names
                    ),
                ));
            }
            let Some(mut step) = self.values(&fields, line)? else {
                empty.push(line);
                continue;
            };
            let (cell, time) = self.time(&fields, line)?;
            let since = time - *first.get_or_insert(time);
            step.at = micros(since.clamp(0.0, MAX_SECONDS));
            if since < 0.0 || steps.last().is_some_and(|last| step.at <= last.at) {
                return Err(error(
                    line,
                    format!(
                        "{} {cell} is not after the row above; allowed: in order of time, one row for each",
                        self.columns.time.name
                    ),
                ));
            }
            if since > MAX_SECONDS {
                return Err(error(
                    line,
                    format!(
                        "{} {cell} is {since} s after the first row; allowed: {MAX_SECONDS} s",
                        self.columns.time.name
                    ),
                ));
            }
            if steps.len() == MAX_STEPS {
                return Err(error(
                    line,
                    format!("more than {MAX_STEPS} rows; allowed: so many, so cut the table or take means"),
                ));
            }
            steps.push(step);
        }
        if let (count @ 1.., Some(line)) = (empty.len(), empty.first()) {
            notes.push(format!(
                "rows without a value: {count}, the first in line {line}; what held before holds on"
            ));
        }
        let [.., before, last] = steps.as_slice() else {
            return Err(of_all("fewer than two rows with values; allowed: two and more"));
        };
        // The last row lasts as long as the one before it.
        let length = last.at + last.at.saturating_sub(before.at);
        Ok(Recording::of_steps(steps, length))
    }

    /// The time of a row, and how the file has it.
    fn time(&self, fields: &[String], line: u64) -> Result<(String, f64), ImportError> {
        let Columns { time, date, .. } = &self.columns;
        let of = |place: usize| fields.get(place).cloned().unwrap_or_default();
        let mut cell = of(time.place);
        if let Some(date) = date.filter(|date| *date != time.place && cell.contains(':')) {
            cell = format!("{} {cell}", of(date));
        }
        match time::read(&cell, time.meaning.factor).filter(|seconds| seconds.is_finite()) {
            Some(seconds) => Ok((cell, seconds)),
            None => Err(error(
                line,
                format!(
                    "{} is {cell:?}; allowed: a number, or a time such as 2030-01-02T10:00:00.5",
                    time.name
                ),
            )),
        }
    }

    /// What a row sets, at no time yet; none if that is nothing.
    fn values(&self, fields: &[String], line: u64) -> Result<Option<Step>, ImportError> {
        let mut step = Step { at: std::time::Duration::ZERO, rate: None, delay: None, loss: None };
        for Column { place, name, meaning } in &self.columns.values {
            let cell = fields.get(*place).map_or("", String::as_str);
            if is_missing(cell) {
                continue;
            }
            let value =
                number(cell).ok_or_else(|| error(line, format!("{name} is {cell:?}; allowed: a number")))?;
            if !(0.0..=meaning.most()).contains(&value) {
                return Err(error(line, format!("{name} is {cell}; allowed: 0 to {}", meaning.most())));
            }
            let value = value * meaning.factor.unwrap_or(1.0);
            match meaning.quantity {
                Quantity::Rate => step.rate = Some(rate_of(value)),
                Quantity::Delay => step.delay = Some(micros(value)),
                Quantity::Loss => step.loss = Some(value),
                Quantity::Time => {}
            }
        }
        let sets = step.rate.is_some() || step.delay.is_some() || step.loss.is_some();
        Ok(sets.then_some(step))
    }
}

/// Whether a cell stands for a value that is not there.
fn is_missing(cell: &str) -> bool {
    ["", "-", "nan", "na", "n/a", "null", "none"].contains(&cell.to_lowercase().as_str())
}

/// A number, with a decimal point or a decimal comma.
fn number(cell: &str) -> Option<f64> {
    let commas = cell.matches(',').count();
    let text = if commas == 1 && !cell.contains('.') { cell.replace(',', ".") } else { cell.to_owned() };
    // What Rust reads beyond numbers, such as "infinity", is none here.
    let is_plain = text.chars().all(|letter| letter.is_ascii_digit() || "+-.eE".contains(letter));
    text.parse().ok().filter(|number: &f64| is_plain && number.is_finite())
}
