//! Time, rates and seeded random streams.
