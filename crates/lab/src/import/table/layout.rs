//! How a table is written: what separates its columns, and whether a line names them.

use super::super::{ImportError, error, is_blank};
use super::{is_missing, number, time};

/// Lines by which the separator is chosen.
const SAMPLED: usize = 50;

/// What stands between the fields of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    /// One of these.
    Letter(char),
    /// Any number of spaces and tabs.
    Spaces,
}

impl Separator {
    /// In the order in which they are tried.
    const ALL: [Self; 5] =
        [Self::Letter('\t'), Self::Letter(';'), Self::Letter(','), Self::Letter('|'), Self::Spaces];

    /// The fields of a line. Quotes hide a separator; empty fields at the end are none.
    pub(super) fn fields(self, line: &str) -> Vec<String> {
        let mut fields = vec![String::new()];
        let mut quoted = false;
        for letter in line.trim().chars() {
            let ends = match self {
                Self::Letter(separator) => letter == separator,
                Self::Spaces => letter.is_whitespace(),
            };
            match fields.last_mut() {
                _ if letter == '"' => quoted = !quoted,
                _ if ends && !quoted => fields.push(String::new()),
                Some(last) => last.push(letter),
                None => {}
            }
        }
        for field in &mut fields {
            *field = field.trim().to_owned();
        }
        if self == Self::Spaces {
            fields.retain(|field| !field.is_empty());
            join_dates(&mut fields);
        }
        while fields.len() > 1 && fields.last().is_some_and(String::is_empty) {
            fields.pop();
        }
        fields
    }
}

/// A date and a time of day, or the names of both, are one field where spaces separate.
fn join_dates(fields: &mut Vec<String>) {
    let is_date = |field: &str| field.len() == 10 && field.matches(['-', '/']).count() == 2;
    let place = fields.windows(2).position(|pair| {
        is_date(&pair[0]) && pair[1].contains(':')
            || pair[0].eq_ignore_ascii_case("date") && pair[1].eq_ignore_ascii_case("time")
    });
    if let Some(place) = place {
        let time = fields.remove(place + 1);
        fields[place] = format!("{} {time}", fields[place]);
    }
}

/// A table whose form is known.
#[derive(Debug)]
pub(super) struct Layout<'t> {
    pub(super) separator: Separator,
    /// The line that names the columns, and these names.
    pub(super) header: Option<(u64, Vec<String>)>,
    /// The other lines with something on them, with their numbers.
    pub(super) rows: Vec<(u64, &'t str)>,
}

impl<'t> Layout<'t> {
    pub(super) fn of(text: &'t str) -> Result<Self, ImportError> {
        let lines: Vec<(u64, &str)> =
            (1_u64..).zip(text.lines()).filter(|(_, line)| !is_blank(line)).collect();
        let remark = |line: &'t str| line.trim_start().strip_prefix('#');
        let mut rows: Vec<(u64, &str)> =
            lines.iter().copied().filter(|(_, line)| remark(line).is_none()).collect();
        let Some((first, _)) = rows.first().copied() else {
            return Err(error(1, "has nothing but remarks; allowed: a header and rows of numbers"));
        };
        let separator = separator(&rows).ok_or_else(|| {
            error(first, "has one column; allowed: a time and a rate, separated by a comma, semicolon, tab or spaces; or whole milliseconds, as in a trace of mahimahi")
        })?;
        let fields = separator.fields(rows[0].1);
        let header = if fields.iter().any(|field| is_value(field)) {
            // A remark above the rows may name the columns.
            let above = lines.iter().rev().filter(|(number, _)| *number < first);
            let mut names =
                above.filter_map(|(number, line)| Some((*number, separator.fields(remark(line)?))));
            names.find(|(_, names)| names.len() == fields.len())
        } else {
            rows.remove(0);
            Some((first, fields))
        };
        Ok(Layout { separator, header, rows })
    }
}

fn is_value(field: &str) -> bool {
    number(field).is_some() || time::read(field, None).is_some()
}

/// The separator with which every row has as many fields, and most of them are numbers or times; none if no separator is in the first row.
fn separator(rows: &[(u64, &str)]) -> Option<Separator> {
    let sampled: Vec<&str> = rows.iter().take(SAMPLED).map(|(_, line)| *line).collect();
    let score = |separator: Separator| {
        let rows: Vec<Vec<String>> = sampled.iter().map(|line| separator.fields(line)).collect();
        let count = rows.last().map_or(0, Vec::len);
        // The first may be a header.
        let values = rows.iter().skip(usize::from(rows.len() > 1)).flatten();
        let (good, all) = values.fold((0, 0), |(good, all), field| {
            (good + usize::from(is_value(field) || is_missing(field)), all + 1)
        });
        let even = rows.iter().filter(|row| row.len() == count).count();
        (count >= 2).then(|| good as f64 / f64::from(all.max(1)) * even as f64)
    };
    let scored = Separator::ALL.into_iter().filter_map(|separator| Some((separator, score(separator)?)));
    scored.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(separator, _)| separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_separator_is_that_which_leaves_numbers() {
        use Separator::{Letter, Spaces};
        for (text, separator, fields) in [
            ("time_s,rate\n0,1\n", Letter(','), 2),
            ("time_s;rate\n0;16,5\n0,5;61,9\n", Letter(';'), 2),
            ("0,5 16,3\n0,6 16,3\n", Spaces, 2),
            ("0.0\t1.5\n0.5\t2\n", Letter('\t'), 2),
            ("  0   1.5  \n  0.5 2\n", Spaces, 2),
            ("0 | 1\n1 | 2\n", Letter('|'), 2),
            ("2030-01-02 10:00:00,5\n2030-01-02 10:00:01,6\n", Letter(','), 2),
            ("2030-01-02 10:00:00 5\n2030-01-02 10:00:01 6\n", Spaces, 2),
            ("t,r,place\n0,1,\"a, b\"\n1,2,\"c; d\"\n", Letter(','), 3),
            ("t,r,\n0,1,\n1,2,\n", Letter(','), 2),
        ] {
            let layout = Layout::of(text).expect(text);
            assert_eq!(layout.separator, separator, "{text}");
            assert!(layout.rows.iter().all(|(_, row)| separator.fields(row).len() == fields), "{text}");
        }
    }

    #[test]
    fn a_line_without_a_number_or_a_remark_above_the_rows_names_the_columns() {
        let header = |text| Layout::of(text).expect(text).header;
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(header("\n\ntime,rate\n0,1\n"), Some((3, names(&["time", "rate"]))));
        assert_eq!(
            header("# made by x\n# time_s rate_mbps\n0 1\n"),
            Some((2, names(&["time_s", "rate_mbps"])))
        );
        assert_eq!(header("0,1\n1,2\n"), None);
    }
}
