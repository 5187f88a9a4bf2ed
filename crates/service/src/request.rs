//! Parses requests of clients: a line on the control socket, or the head of an HTTP request for metrics.
//!
//! The result depends on the bytes and not on how the network segmented them. A request takes at most
//! [`MAX_REQUEST_BYTES`] of memory.

/// The maximum length of a request, its end included.
pub const MAX_REQUEST_BYTES: usize = 4096;
/// The maximum number of header fields of an HTTP request.
const MAX_HEADERS: usize = 32;

/// The methods of HTTP that are answered, as a field `Allow` names them (RFC 9110 §9.1 requires both of every server).
pub const METHODS: &str = "GET, HEAD";

/// The protocol of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// One line of JSON.
    Control,
    /// HTTP/1.1, GET and HEAD.
    Http,
}

/// The result of parsing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// The request is incomplete.
    Incomplete,
    /// A complete request: the line, or the path of a GET.
    Complete(String),
    /// A complete HEAD request: the path.
    Head(String),
    /// A complete HTTP request with a method other than those in [`METHODS`].
    OtherMethod,
    /// No valid request can begin like this, or it is too long.
    Malformed,
}

/// Parses the data that a client has sent so far.
pub fn parse(language: Protocol, input: &[u8]) -> Parsed {
    let head = &input[..input.len().min(MAX_REQUEST_BYTES)];
    let parsed = match language {
        Protocol::Control => line(head),
        Protocol::Http => http(head),
    };
    match parsed {
        Parsed::Incomplete if input.len() >= MAX_REQUEST_BYTES => Parsed::Malformed,
        parsed => parsed,
    }
}

fn line(head: &[u8]) -> Parsed {
    match head.iter().position(|byte| *byte == b'\n') {
        Some(end) => Parsed::Complete(String::from_utf8_lossy(&head[..end]).into_owned()),
        None => Parsed::Incomplete,
    }
}

fn http(head: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => Parsed::Incomplete,
        Ok(httparse::Status::Complete(_)) => match (request.method, request.path) {
            (Some("GET"), Some(target)) => Parsed::Complete(path(target).to_owned()),
            (Some("HEAD"), Some(target)) => Parsed::Head(path(target).to_owned()),
            _ => Parsed::OtherMethod,
        },
        Err(_) => Parsed::Malformed,
    }
}

/// The path of a request's target. A query is no part of it (RFC 3986 §3.4), and a proxy may ask with the whole address (RFC 9112
/// §3.2.2).
fn path(target: &str) -> &str {
    let target = target.split(['?', '#']).next().unwrap_or(target);
    match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_once_it_is_whole() {
        let http = |said: &str| parse(Protocol::Http, said.as_bytes());
        assert_eq!(http("GET /metrics HTTP/1.1\r\n"), Parsed::Incomplete);
        assert_eq!(http("GET /metrics HTTP/1.1\r\n\r\n"), Parsed::Complete("/metrics".to_owned()));
        assert_eq!(http("POST / HTTP/1.1\r\n\r\n"), Parsed::OtherMethod);
        assert_eq!(http("\u{1}"), Parsed::Malformed);
        let control = |said: &str| parse(Protocol::Control, said.as_bytes());
        assert_eq!(control("{\"request\""), Parsed::Incomplete);
        assert_eq!(control("{}\nmore"), Parsed::Complete("{}".to_owned()));
    }

    #[test]
    fn a_query_and_the_name_of_the_host_are_no_part_of_the_path() {
        let path =
            |target: &str| match parse(Protocol::Http, format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes()) {
                Parsed::Complete(path) => path,
                other => panic!("{target}: {other:?}"),
            };
        for target in
            ["/metrics", "/metrics?", "/metrics?collect=all&x=/", "http://a:9460/metrics?x", "/metrics#x"]
        {
            assert_eq!(path(target), "/metrics", "{target}");
        }
        for target in ["/", "/?x", "http://a", "http://a/", "http://a?x"] {
            assert_eq!(path(target), "/", "{target}");
        }
        assert_eq!(path("*"), "*");
        let head = parse(Protocol::Http, b"HEAD /metrics?x HTTP/1.1\r\n\r\n");
        assert_eq!(head, Parsed::Head("/metrics".to_owned()));
    }

    #[test]
    fn the_limit_holds_however_the_bytes_were_cut() {
        for language in [Protocol::Control, Protocol::Http] {
            let endless = b"G".repeat(2 * MAX_REQUEST_BYTES);
            assert_eq!(parse(language, &endless[..MAX_REQUEST_BYTES - 1]), Parsed::Incomplete);
            assert_eq!(parse(language, &endless[..MAX_REQUEST_BYTES]), Parsed::Malformed);
        }
        let mut late = vec![b' '; MAX_REQUEST_BYTES];
        late.push(b'\n');
        assert_eq!(parse(Protocol::Control, &late), Parsed::Malformed, "it ends behind the limit");
        assert_eq!(parse(Protocol::Control, &late[1..]), Parsed::Complete(" ".repeat(MAX_REQUEST_BYTES - 1)));
    }
}
