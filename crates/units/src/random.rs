//! Random numbers of other distributions than the uniform one, and the functions that they need. They use only
//! additions, multiplications, divisions and square roots, which IEEE 754 rounds the same way everywhere. The
//! library's logarithms do not have that property.

use crate::Rng;

const LN_2: f64 = std::f64::consts::LN_2;

/// Natural logarithm of a positive, normal number; within 1e-15 of its size or of 1.
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff).cast_signed() - 1023;
    let mut mantissa = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)), with an argument of at most 0.172.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let series = (0..13).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    2.0 * z * series + exponent as f64 * LN_2
}

/// e to the `x`: zero below -708, and infinite above 709.
pub fn exp(x: f64) -> f64 {
    if x < -708.0 {
        return 0.0;
    }
    if x > 709.0 {
        return f64::INFINITY;
    }
    let turns = (x / LN_2).round();
    let rest = x - turns * LN_2;
    let series = (1..=18).rev().fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    series * f64::from_bits(((turns as i64 + 1023) as u64) << 52)
}

/// `base` to the `exponent`, for a positive base.
pub fn power(base: f64, exponent: f64) -> f64 {
    exp(exponent * ln(base))
}

/// In (0, 1]: a number whose logarithm exists.
fn above_zero(rng: &mut Rng) -> f64 {
    1.0 - rng.uniform()
}

/// Exponentially distributed.
pub fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * ln(above_zero(rng))
}

/// Pareto distributed: at least `min`, and more than x with probability `(min / x)^shape`. Its mean is
/// `min × shape / (shape - 1)` if the shape is above 1, and infinite otherwise.
pub fn pareto(rng: &mut Rng, min: f64, shape: f64) -> f64 {
    min * power(above_zero(rng), -1.0 / shape)
}

/// Normally distributed, mean 0, variance 1 (Marsaglia's polar method).
pub fn normal(rng: &mut Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * rng.uniform() - 1.0, 2.0 * rng.uniform() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * ln(square) / square).sqrt();
        }
    }
}

/// Its logarithm is normal with this mean and standard deviation.
pub fn log_normal(rng: &mut Rng, mean: f64, deviation: f64) -> f64 {
    exp(mean + deviation * normal(rng))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the library's functions are what ours are compared with")]
mod tests {
    use super::*;

    #[test]
    fn logarithm_and_exponential_are_those_of_the_library() {
        let mut rng = Rng::new(1, "functions");
        for _ in 0..10_000 {
            let x = 1e-9 + rng.uniform() * 10_f64.powi(rng.below(12) as i32);
            assert!((ln(x) - x.ln()).abs() <= 4e-15 * x.ln().abs().max(1.0), "ln {x}");
            let y = rng.uniform() * 60.0 - 30.0;
            assert!((exp(y) / y.exp() - 1.0).abs() < 2e-14, "exp {y}");
        }
    }

    #[test]
    fn what_no_number_can_hold_is_zero_or_infinite() {
        assert_eq!((exp(-1e6), exp(-708.1), exp(709.1), exp(1e6)), (0.0, 0.0, f64::INFINITY, f64::INFINITY));
        assert!((exp(-707.9) / (-707.9_f64).exp() - 1.0).abs() < 1e-12);
        assert!((exp(708.9) / 708.9_f64.exp() - 1.0).abs() < 1e-12);
        // A heavy tail, as far as one draw in 2^53 takes it.
        assert!(power(2.0_f64.powi(-53), -1.0 / 0.05).is_infinite());
        assert!(power(1e-300, 1.0 / 0.382) == 0.0);
    }

    #[test]
    fn means_and_tails_are_those_of_the_distributions() {
        let mut rng = Rng::new(2, "shapes");
        let n = 200_000;
        let mut mean =
            |draw: &dyn Fn(&mut Rng) -> f64| (0..n).map(|_| draw(&mut rng)).sum::<f64>() / f64::from(n);
        let near =
            |value: f64, wanted: f64| assert!((value / wanted - 1.0).abs() < 0.02, "{value}, not {wanted}");
        near(mean(&|rng| exponential(rng, 3.0)), 3.0);
        near(mean(&|rng| exponential(rng, 3.0).powi(2)), 18.0);
        near(mean(&|rng| pareto(rng, 2.0, 3.0)), 3.0);
        near(mean(&|rng| f64::from(u8::from(pareto(rng, 1.0, 1.2) > 10.0))), 10_f64.powf(-1.2));
        near(mean(&|rng| normal(rng).powi(2)), 1.0);
        near(mean(&|rng| log_normal(rng, 1.0, 0.5)), (1.0_f64 + 0.125).exp());
    }
}
