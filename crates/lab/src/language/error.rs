//! What is wrong with a condition, and where in it.

use std::fmt;
use std::ops::Range;

use thiserror::Error;

/// What is wrong with a condition.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ConditionError {
    /// The condition.
    pub condition: String,
    /// Where in it: bytes.
    pub at: Range<usize>,
    /// What is wrong there.
    pub message: String,
}

/// The same without the condition, as its parts report it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) at: Range<usize>,
    pub(super) message: String,
}

impl Problem {
    pub(super) fn new(at: &Range<usize>, message: impl Into<String>) -> Self {
        Problem { at: at.clone(), message: message.into() }
    }

    pub(super) fn within(self, condition: &str) -> ConditionError {
        ConditionError { condition: condition.to_owned(), at: self.at, message: self.message }
    }
}

impl fmt::Display for ConditionError {
    /// The message, and below it the line of the condition with a caret under what is wrong.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.at.start.min(self.condition.len());
        let line_start = self.condition[..start].rfind('\n').map_or(0, |end| end + 1);
        let line_end = self.condition[start..].find('\n').map_or(self.condition.len(), |end| start + end);
        let end = self.at.end.clamp(start, line_end);
        let before = self.condition[line_start..start].chars().count();
        let width = self.condition[start..end].chars().count().max(1);
        let line = &self.condition[line_start..line_end];
        write!(f, "{}\n  {line}\n  {:before$}{}", self.message, "", "^".repeat(width))
    }
}
