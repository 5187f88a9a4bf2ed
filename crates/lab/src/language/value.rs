//! Numbers with their intervals, and values over points.

/// A mean and the bounds of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Whether there is an interval; else its bounds are the mean.
    pub(super) known: bool,
}

impl Interval {
    pub(super) fn exactly(value: f64) -> Self {
        Interval { mean: value, low: value, high: value, known: true }
    }

    /// Of a mean and half of its interval, if it has one.
    pub(super) fn around(mean: f64, half: Option<f64>) -> Self {
        let (low, high) = half.map_or((mean, mean), |half| (mean - half, mean + half));
        Interval { mean, low, high, known: half.is_some() }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Interval {
            mean: self.mean + other.mean,
            low: self.low + other.low,
            high: self.high + other.high,
            known: self.known && other.known,
        }
    }

    pub(super) fn negative(self) -> Self {
        Interval { mean: -self.mean, low: -self.high, high: -self.low, known: self.known }
    }

    pub(super) fn times(self, other: Self) -> Self {
        let corners =
            [self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high];
        Interval { known: self.known && other.known, ..Interval::spanning(self.mean * other.mean, corners) }
    }

    /// The quotient; by an interval about 0 it may be anything. None of nothing by nothing.
    pub(super) fn over(self, other: Self) -> Option<Self> {
        let mean = self.mean / other.mean;
        let known = self.known && other.known;
        if mean.is_nan() {
            return None;
        }
        if other.low <= 0.0 && other.high >= 0.0 {
            // Nothing else is known of it; if the divisor is exactly 0, the quotient is exactly infinite.
            let exact = other.low >= other.high;
            let (low, high) = if exact { (mean, mean) } else { (f64::NEG_INFINITY, f64::INFINITY) };
            return Some(Interval { mean, low, high, known });
        }
        let corners =
            [self.low / other.low, self.low / other.high, self.high / other.low, self.high / other.high];
        Some(Interval { known, ..Interval::spanning(mean, corners) })
    }

    fn spanning(mean: f64, corners: [f64; 4]) -> Self {
        let low = corners.iter().copied().fold(mean, f64::min);
        Interval { mean, low, high: corners.iter().copied().fold(mean, f64::max), known: true }
    }

    pub(super) fn absolute(self) -> Self {
        if self.low >= 0.0 {
            self
        } else if self.high <= 0.0 {
            self.negative()
        } else {
            Interval { mean: self.mean.abs(), low: 0.0, high: self.high.max(-self.low), ..self }
        }
    }

    pub(super) fn half(self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// The axes that are open, by their place in the sweep, and which of their values.
pub(super) type Shape = Vec<(usize, Vec<usize>)>;

/// Values over all combinations of a shape's; the last axis varies fastest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Values<T> {
    pub(super) shape: Shape,
    pub(super) cells: Vec<T>,
}

impl<T: Copy> Values<T> {
    pub(super) fn one(value: T) -> Self {
        Values { shape: Shape::new(), cells: vec![value] }
    }

    /// Pairs them; one that has no axes goes with every value of the other.
    pub(super) fn pair<U: Copy, R>(
        &self,
        other: &Values<U>,
        mut with: impl FnMut(T, U) -> Option<R>,
    ) -> Option<Values<R>> {
        let shape = if self.shape.is_empty() { &other.shape } else { &self.shape };
        let count = self.cells.len().max(other.cells.len());
        let mut cells = Vec::with_capacity(count);
        for place in 0..count {
            let one = self.cells.get(place).or(self.cells.first())?;
            cells.push(with(*one, *other.cells.get(place).or(other.cells.first())?)?);
        }
        Some(Values { shape: shape.clone(), cells })
    }

    /// Reduces the values along an axis, or all of them. `by` has them in order.
    pub(super) fn reduce<R>(&self, axis: Option<usize>, by: impl Fn(&[T]) -> R) -> Values<R> {
        let Some(axis) = axis else {
            return Values { shape: Shape::new(), cells: vec![by(&self.cells)] };
        };
        let position = self.shape.iter().position(|(other, _)| *other == axis).unwrap_or(0);
        let len = self.shape.get(position).map_or(1, |(_, values)| values.len());
        let inner: usize = self.shape.iter().skip(position + 1).map(|(_, values)| values.len()).product();
        let outer = self.cells.len() / (len * inner).max(1);
        let mut shape = self.shape.clone();
        if position < shape.len() {
            shape.remove(position);
        }
        let mut cells = Vec::with_capacity(outer * inner);
        for (block, offset) in (0..outer).flat_map(|block| (0..inner).map(move |offset| (block, offset))) {
            let line: Vec<T> =
                (0..len).map(|step| self.cells[(block * len + step) * inner + offset]).collect();
            cells.push(by(&line));
        }
        Values { shape, cells }
    }
}

/// Every combination of a shape's values, in order: for each axis its value's place.
pub(super) fn combinations(shape: &Shape) -> Vec<Vec<(usize, usize)>> {
    let mut all = vec![Vec::new()];
    for (axis, values) in shape {
        let with = |before: &Vec<(usize, usize)>| {
            let before = before.clone();
            values.iter().map(move |value| [before.as_slice(), &[(*axis, *value)]].concat())
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}
