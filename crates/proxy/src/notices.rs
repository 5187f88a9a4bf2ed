//! Lines of the log about what any host can cause: the first at once, and one line for all others of each interval.

use std::time::Duration;

use trunkline_schema::FailMode;
use trunkline_units::Instant;

use crate::syn::Connection;

/// The interval of lines about one thing.
const INTERVAL: Duration = Duration::from_secs(60);

/// What happened to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incident {
    /// The way to its server leads back to the proxy.
    Loop,
    /// There was no place for it.
    Full,
    /// There were no descriptors, or no memory, for it.
    NoMeans,
    /// It was being opened, and gave way to another.
    Displaced,
}

const INCIDENTS: usize = 4;

#[derive(Debug, Clone, Copy)]
struct Tally {
    since: Instant,
    count: u64,
    last: Connection,
}

/// What has happened, and was not in the log yet.
#[derive(Debug)]
pub(crate) struct Notices {
    fail: FailMode,
    /// Of each [`Incident`], if it has happened within the last interval.
    tallies: [Option<Tally>; INCIDENTS],
}

impl Notices {
    /// `fail` is what becomes of connections without a place.
    pub(crate) fn new(fail: FailMode) -> Self {
        Notices { fail, tallies: [None; INCIDENTS] }
    }

    /// Something has happened. A line for the log, if one is due.
    pub(crate) fn handle(&mut self, now: Instant, what: Incident, connection: Connection) -> Option<String> {
        match &mut self.tallies[what as usize] {
            Some(tally) => {
                (tally.count, tally.last) = (tally.count + 1, connection);
                None
            }
            none => {
                *none = Some(Tally { since: now, count: 0, last: connection });
                Some(self.text(what, connection))
            }
        }
    }

    /// When lines may be due.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.tallies.iter().flatten().map(|tally| tally.since + INTERVAL).min()
    }

    /// A line about all that has happened within an interval that is over. Call it until there is none.
    pub(crate) fn poll_line(&mut self, now: Instant) -> Option<String> {
        for what in [Incident::Loop, Incident::Full, Incident::NoMeans, Incident::Displaced] {
            let over = |tally: &mut Tally| now.saturating_since(tally.since) >= INTERVAL;
            let Some(Tally { since, count, last }) = self.tallies[what as usize].take_if(over) else {
                continue;
            };
            if count > 0 {
                self.tallies[what as usize] = Some(Tally { since: now, count: 0, last });
                let seconds = now.saturating_since(since).as_secs_f64();
                let times = if count == 1 { "time" } else { "times" };
                return Some(format!(
                    "in {seconds:.0} s {count} more {times}; the last: {}",
                    self.text(what, last)
                ));
            }
        }
        None
    }

    fn text(&self, what: Incident, Connection { client, server }: Connection) -> String {
        let fate = match self.fail {
            FailMode::Open => "passes without the proxy",
            FailMode::Closed => "is refused",
        };
        match what {
            Incident::Loop => {
                format!("{server} leads back to the proxy: {client} is told that it is unreachable")
            }
            Incident::Full => {
                format!("all places for connections are taken: that of {client} to {server} {fate}")
            }
            Incident::NoMeans => {
                format!("descriptors or memory are short: the connection of {client} to {server} {fate}")
            }
            Incident::Displaced => format!(
                "all places for connections that are being opened are taken: one of {client}, who has most, gave way"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(client: u16) -> Connection {
        Connection { client: ([10, 0, 0, 1], client).into(), server: ([10, 0, 0, 2], 80).into() }
    }

    #[test]
    fn the_first_is_told_at_once_and_the_others_of_a_minute_together() {
        let mut notices = Notices::new(FailMode::Closed);
        let now = |second: u64| Instant::from_millis(1000 * second);
        let line = notices.handle(now(0), Incident::Full, connection(1)).expect("a line");
        assert_eq!(
            line,
            "all places for connections are taken: that of 10.0.0.1:1 to 10.0.0.2:80 is refused"
        );
        for client in 0..25_000 {
            assert_eq!(notices.handle(now(10), Incident::Full, connection(client)), None);
        }
        assert!(notices.handle(now(20), Incident::Loop, connection(2)).is_some(), "another thing");
        assert_eq!((notices.poll_line(now(59)), notices.next_timeout()), (None, Some(now(60))));
        let line = notices.poll_line(now(60)).expect("a line");
        assert!(line.starts_with("in 60 s 25000 more times; the last: all places"), "{line}");
        assert!(line.contains("10.0.0.1:24999"), "{line}");
        // A minute without any ends it.
        assert_eq!(notices.poll_line(now(60)), None);
        assert_eq!(notices.poll_line(now(120)), None);
        assert_eq!(notices.next_timeout(), None);
        assert!(notices.handle(now(121), Incident::Full, connection(3)).is_some());
    }
}
