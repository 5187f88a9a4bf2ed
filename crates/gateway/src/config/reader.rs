//! Reading a TOML document so that each mistake can be told with its place.
//!
//! A [`Section`] is a table of which keys are asked for one by one; whatever was never asked for is an
//! unknown key when it is [finished](Section::finish). A [`Field`] is a value with its place. Both report
//! mistakes to the one [`Problems`] of the file and go on, so that a file's mistakes come out together.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use trunkline_schema::Mistake;

/// The mistakes found in a file so far.
pub(super) struct Problems<'d> {
    file: &'d Path,
    text: &'d str,
    found: RefCell<Vec<Mistake>>,
}

impl<'d> Problems<'d> {
    pub(super) fn new(file: &'d Path, text: &'d str) -> Self {
        Self { file, text, found: RefCell::default() }
    }

    /// The place of a key; `span` is in octets of the text.
    pub(super) fn place(&'d self, key: impl Into<String>, span: Range<usize>) -> Place<'d> {
        Place { problems: self, key: key.into(), span }
    }

    /// What was found.
    pub(super) fn into_found(self) -> Vec<Mistake> {
        self.found.into_inner()
    }

    fn report(&self, place: &Place<'_>, problem: String, allowed: Option<String>) {
        let before = self.text.get(..place.span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        self.found.borrow_mut().push(Mistake {
            file: self.file.display().to_string(),
            place: Some((before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)),
            key: place.key.clone(),
            problem,
            allowed,
            origin: None,
        });
    }
}

/// Where something stands in a file.
#[derive(Clone)]
pub(super) struct Place<'d> {
    problems: &'d Problems<'d>,
    key: String,
    span: Range<usize>,
}

impl Place<'_> {
    /// Reports a mistake here.
    pub(super) fn report(&self, problem: impl Into<String>, allowed: impl Into<String>) {
        self.problems.report(self, problem.into(), Some(allowed.into()));
    }

    /// Reports a mistake here whose remedy is clear from the problem.
    pub(super) fn report_plain(&self, problem: impl Into<String>) {
        self.problems.report(self, problem.into(), None);
    }

    /// The key with the tables it is in.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    fn within(&self, key: &str, span: Range<usize>) -> Self {
        let key = if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) };
        self.problems.place(key, span)
    }
}

/// A table whose keys are asked for one by one.
pub(super) struct Section<'d> {
    place: Place<'d>,
    entries: &'d DeTable<'d>,
    known: Vec<&'static str>,
}

impl<'d> Section<'d> {
    pub(super) fn new(place: Place<'d>, entries: &'d DeTable<'d>) -> Self {
        Self { place, entries, known: Vec::new() }
    }

    pub(super) fn place(&self) -> &Place<'d> {
        &self.place
    }

    /// Whether it has no keys at all.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of a key, if it is there.
    pub(super) fn field(&mut self, key: &'static str) -> Option<Field<'d>> {
        self.known.push(key);
        let value = self.entries.get(key)?;
        Some(Field { place: self.place.within(key, value.span()), value: value.get_ref() })
    }

    /// The value of a key that must be there.
    pub(super) fn required(&mut self, key: &'static str, allowed: &str) -> Option<Field<'d>> {
        let field = self.field(key);
        if field.is_none() {
            self.place.within(key, self.place.span.clone()).report("is missing", allowed);
        }
        field
    }

    /// The table of a key, if it is there.
    pub(super) fn section(&mut self, key: &'static str) -> Option<Section<'d>> {
        self.field(key)?.section()
    }

    /// The tables `[[key]]`, each known by its name if it has one, else by its number; `None` without any.
    pub(super) fn sections(&mut self, key: &'static str) -> Option<Vec<Section<'d>>> {
        self.field(key)?.sections("a list of tables")
    }

    /// Reports the keys nobody asked for.
    pub(super) fn finish(self) {
        for (key, _) in self.entries {
            if !self.known.contains(&key.get_ref().as_ref()) {
                let place = self.place.within(key.get_ref(), key.span());
                place.report("unknown key", self.known.join(", "));
            }
        }
    }
}

/// A value and where it stands.
pub(super) struct Field<'d> {
    place: Place<'d>,
    value: &'d DeValue<'d>,
}

impl<'d> Field<'d> {
    pub(super) fn place(&self) -> &Place<'d> {
        &self.place
    }

    pub(super) fn is_integer(&self) -> bool {
        self.value.is_integer()
    }

    pub(super) fn is_text(&self) -> bool {
        self.value.is_str()
    }

    pub(super) fn text(&self, allowed: &str) -> Option<&'d str> {
        let text = self.value.as_str();
        if text.is_none() {
            self.wrong_type(allowed);
        }
        text
    }

    /// What `parse` makes of the text, or its complaint.
    pub(super) fn parse<T>(
        &self,
        allowed: &str,
        parse: impl FnOnce(&'d str) -> Result<T, String>,
    ) -> Option<T> {
        parse(self.text(allowed)?).map_err(|problem| self.place.report(problem, allowed)).ok()
    }

    /// One of the words of a list.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let allowed: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        self.parse(&allowed.join(", "), |text| {
            let found = words.iter().find(|(word, _)| *word == text);
            found.map(|&(_, value)| value).ok_or_else(|| format!("unknown value {text:?}"))
        })
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        let value = self.value.as_bool();
        if value.is_none() {
            self.wrong_type("true or false");
        }
        value
    }

    pub(super) fn integer<T>(&self, range: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<i128> + Into<i128> + Copy,
    {
        let (low, high): (i128, i128) = ((*range.start()).into(), (*range.end()).into());
        let allowed = format!("a whole number, {low} to {high}");
        let Some(integer) = self.value.as_integer() else {
            self.wrong_type(&allowed);
            return None;
        };
        let value = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
        let fitting = value.filter(|value| (low..=high).contains(value)).and_then(|v| T::try_from(v).ok());
        if fitting.is_none() {
            self.place.report(format!("{integer} is out of range"), allowed);
        }
        fitting
    }

    /// A number, whole or not, that `fits`.
    pub(super) fn number(&self, allowed: &str, fits: impl FnOnce(f64) -> bool) -> Option<f64> {
        let text = match self.value {
            DeValue::Float(float) => float.as_str(),
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            _ => {
                self.wrong_type(allowed);
                return None;
            }
        };
        let value = text.parse().ok().filter(|value| fits(*value));
        if value.is_none() {
            self.place.report(format!("{text} is out of range"), allowed);
        }
        value
    }

    /// The tables of a list, each known by its name if it has one, else by its number.
    pub(super) fn sections(self, allowed: &str) -> Option<Vec<Section<'d>>> {
        let tables = self.list(allowed)?;
        Some(tables.into_iter().enumerate().filter_map(|(index, table)| table.named_section(index)).collect())
    }

    /// The values of a list.
    pub(super) fn list(self, allowed: &str) -> Option<Vec<Field<'d>>> {
        let Some(values) = self.value.as_array() else {
            self.wrong_type(allowed);
            return None;
        };
        Some(values.iter().map(|value| self.element(value)).collect())
    }

    /// The values of a list, or the one value that stands for a list of one.
    pub(super) fn one_or_more(self) -> Vec<Field<'d>> {
        match self.value.as_array() {
            Some(values) => values.iter().map(|value| self.element(value)).collect(),
            None => vec![self],
        }
    }

    /// The table this is.
    pub(super) fn section(self) -> Option<Section<'d>> {
        let Some(entries) = self.value.as_table() else {
            self.wrong_type("a table");
            return None;
        };
        Some(Section::new(self.place, entries))
    }

    fn named_section(self, index: usize) -> Option<Section<'d>> {
        let mut section = self.section()?;
        let name = section.entries.get("name").and_then(|name| name.get_ref().as_str());
        section.place.key = match name {
            Some(name) if !name.is_empty() => format!("{}.{name}", section.place.key),
            _ => format!("{}[{index}]", section.place.key),
        };
        Some(section)
    }

    fn element(&self, value: &'d Spanned<DeValue<'d>>) -> Field<'d> {
        let place = Place { span: value.span(), ..self.place.clone() };
        Field { place, value: value.get_ref() }
    }

    fn wrong_type(&self, allowed: &str) {
        let what = self.value.type_str();
        let article = if what.starts_with(['a', 'i']) { "an" } else { "a" };
        self.place.report(format!("is {article} {what}"), allowed);
    }
}
