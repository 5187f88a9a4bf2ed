//! What is served: files, texts that are made when somebody asks, and what comes live.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;

use crate::access::{Token, is_at_home};
use crate::live::Live;

type Answer = Arc<dyn Fn() -> String + Send + Sync>;

enum Content {
    /// Its media type, and its contents.
    File(&'static str, Bytes),
    Json(Answer),
    Live(Live),
}

/// What is served, by its path.
pub struct Pages {
    policy: &'static str,
    contents: BTreeMap<&'static str, Content>,
}

impl Pages {
    /// Nothing yet. `policy` is what a page may do (Content-Security-Policy).
    pub fn new(policy: &'static str) -> Self {
        Pages { policy, contents: BTreeMap::new() }
    }

    /// Serves a file.
    #[must_use]
    pub fn file(self, path: &'static str, media: &'static str, contents: impl Into<Bytes>) -> Self {
        self.with(path, Content::File(media, contents.into()))
    }

    /// Serves what `answer` gives when somebody asks, as JSON.
    #[must_use]
    pub fn json(self, path: &'static str, answer: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.with(path, Content::Json(Arc::new(answer)))
    }

    /// Serves what comes live, as server-sent events.
    #[must_use]
    pub fn live(self, path: &'static str, live: Live) -> Self {
        self.with(path, Content::Live(live))
    }

    fn with(mut self, path: &'static str, content: Content) -> Self {
        self.contents.insert(path, content);
        self
    }

    pub(crate) fn router(self, token: Option<Token>) -> Router {
        Router::new().fallback(answer).with_state(Arc::new((self, token)))
    }

    fn answer(&self, token: Option<&Token>, request: &Request) -> Response {
        match token {
            Some(token) if !token.is_known(request.headers()) => {
                let ask = [(header::WWW_AUTHENTICATE, "Basic realm=\"trunkline\", charset=\"UTF-8\"")];
                return (StatusCode::UNAUTHORIZED, ask, "the password is the token\n").into_response();
            }
            None if !is_at_home(request.headers()) => {
                let text = "without a token, ask at localhost or at an address\n";
                return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
            }
            _ => {}
        }
        let Some(content) = self.contents.get(request.uri().path()) else {
            return (StatusCode::NOT_FOUND, "there is nothing here\n").into_response();
        };
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let allowed = [(header::ALLOW, "GET, HEAD")];
            return (StatusCode::METHOD_NOT_ALLOWED, allowed, "allowed: GET, HEAD\n").into_response();
        }
        match content {
            Content::File(media, contents) => {
                ([(header::CONTENT_TYPE, *media)], contents.clone()).into_response()
            }
            Content::Json(answer) => ([(header::CONTENT_TYPE, "application/json")], answer()).into_response(),
            Content::Live(live) => events(live, request.method()),
        }
    }
}

async fn answer(State(served): State<Arc<(Pages, Option<Token>)>>, request: Request) -> Response {
    let (pages, token) = &*served;
    with_headers(pages.policy, pages.answer(token.as_ref(), &request))
}

/// A page that loads what is beside it and nothing else, and that nobody puts into another page.
pub const OWN: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
                       form-action 'none'; frame-ancestors 'none'";

/// The same answer with what browsers are to know: what the page may do, and that nothing of it is kept, guessed or framed.
pub fn with_headers(policy: &'static str, mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Server-sent events (HTML, 9.2): each text is the data of one.
fn events(live: &Live, method: &Method) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    if method == Method::HEAD {
        return kind.into_response();
    }
    let Some(viewer) = live.join() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "as many look on as may\n").into_response();
    };
    let events = stream::unfold(viewer, |mut viewer| async {
        loop {
            viewer.changed().await.ok()?;
            let text = Arc::clone(&viewer.borrow_and_update());
            if !text.is_empty() {
                let event: String =
                    text.lines().flat_map(|line| ["data: ", line, "\n"]).chain(["\n"]).collect();
                return Some((Ok::<_, Infallible>(event), viewer));
            }
        }
    });
    (kind, Body::from_stream(events)).into_response()
}
