//! The periods of quotas: days, weeks and months by the calendar, in UTC.

use chrono::{Datelike as _, Days, Months, NaiveDate};

/// How long a period is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Each {
    /// From midnight to midnight.
    Day,
    /// Seven days.
    Week,
    /// A month of the calendar.
    #[default]
    Month,
}

impl std::fmt::Display for Each {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Each::Day => "day",
            Each::Week => "week",
            Each::Month => "month",
        })
    }
}

/// Periods that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// How long each is.
    pub each: Each,
    /// The day on which it begins: of the week, 1 is Monday, or of the month, 28 at most; of no meaning for a day.
    pub from: u8,
}

impl Period {
    /// The days on which a period of this length may begin.
    pub const fn days(each: Each) -> std::ops::RangeInclusive<u8> {
        match each {
            Each::Day => 1..=1,
            Each::Week => 1..=7,
            // Each month has them.
            Each::Month => 1..=28,
        }
    }

    /// The first day of the period in which a day is.
    pub(crate) fn first_day(self, day: NaiveDate) -> NaiveDate {
        let back = |days: u32| day.checked_sub_days(Days::new(days.into()));
        let first = match self.each {
            Each::Day => Some(day),
            Each::Week => back((day.weekday().number_from_monday() + 7 - u32::from(self.from)) % 7),
            Each::Month if day.day() >= u32::from(self.from) => day.with_day(self.from.into()),
            Each::Month => {
                day.with_day(self.from.into()).and_then(|later| later.checked_sub_months(Months::new(1)))
            }
        };
        first.unwrap_or(day)
    }

    /// The first day of the next period.
    pub(crate) fn next_day(self, day: NaiveDate) -> NaiveDate {
        let first = self.first_day(day);
        let next = match self.each {
            Each::Day => first.checked_add_days(Days::new(1)),
            Each::Week => first.checked_add_days(Days::new(7)),
            Each::Month => first.checked_add_months(Months::new(1)),
        };
        next.unwrap_or(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    #[test]
    fn a_period_begins_on_its_day_and_ends_before_the_next_one() {
        for (each, from, day, first, next) in [
            (Each::Day, 1, "2026-11-30", "2026-11-30", "2026-12-01"),
            // The 30 November 2026 is a Monday.
            (Each::Week, 1, "2026-11-30", "2026-11-30", "2026-12-07"),
            (Each::Week, 1, "2026-12-06", "2026-11-30", "2026-12-07"),
            (Each::Week, 3, "2026-12-01", "2026-11-25", "2026-12-02"),
            (Each::Month, 1, "2026-11-30", "2026-11-01", "2026-12-01"),
            (Each::Month, 5, "2026-11-04", "2026-10-05", "2026-11-05"),
            (Each::Month, 5, "2026-11-05", "2026-11-05", "2026-12-05"),
            (Each::Month, 28, "2027-03-01", "2027-02-28", "2027-03-28"),
            (Each::Month, 15, "2027-01-02", "2026-12-15", "2027-01-15"),
        ] {
            let period = Period { each, from };
            let days = (period.first_day(date(day)), period.next_day(date(day)));
            assert_eq!(days, (date(first), date(next)), "{each:?} from {from}, {day}");
        }
    }

    #[test]
    fn each_day_is_in_one_period_and_periods_leave_no_gap() {
        for each in [Each::Day, Each::Week, Each::Month] {
            for from in Period::days(each) {
                let period = Period { each, from };
                let mut first = period.first_day(date("2027-12-30"));
                let end = date("2029-03-02");
                while first < end {
                    let next = period.next_day(first);
                    assert!(next > first);
                    for day in first.iter_days().take_while(|day| *day < next) {
                        let found = (period.first_day(day), period.next_day(day));
                        assert_eq!(found, (first, next), "{each:?} from {from}, {day}");
                    }
                    first = next;
                }
            }
        }
    }
}
