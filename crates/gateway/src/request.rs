//! Requests of clients: what a line on the control socket asks for. Crate `service` reads the lines.

pub use trunkline_service::request::{MAX_REQUEST_BYTES, Parsed, Protocol, parse};

use crate::control::Request;

/// The request in a line of the control socket.
///
/// # Errors
/// The mistake, and the allowed requests.
pub fn control(line: &str) -> Result<Request, String> {
    serde_json::from_str(line).map_err(|error| {
        format!("{error}; allowed: {{\"request\":\"status\"|\"flows\"|\"reload\"|\"down\"}}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_about_an_unknown_request_lists_all_known_ones() {
        let error = control("{\"request\":\"stauts\"}").unwrap_err();
        for request in [Request::Status, Request::Flows, Request::Reload, Request::Down] {
            let line = serde_json::to_string(&request).unwrap();
            assert_eq!(control(&line), Ok(request));
            let word = line.rsplit('"').nth(1).unwrap();
            assert!(error.contains(&format!("\"{word}\"")), "{word}: {error}");
        }
    }
}
