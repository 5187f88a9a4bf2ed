//! Queue disciplines.
