//! The page for browsers: the network, what is reserved of its links, its sites and trunks. It only reads.

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use trunkline_pages::{OWN, STYLE, TABLES, with_headers};

use super::App;
use super::holders::Viewer;

/// Somebody whose browser asks for a password, which is a viewer's token.
struct Visitor;

impl FromRequestParts<Arc<App>> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Response> {
        let Err(refusal) = Viewer::from_request_parts(parts, app).await else { return Ok(Visitor) };
        let mut response = refusal.into_response();
        if response.status() == StatusCode::UNAUTHORIZED {
            let ask = HeaderValue::from_static("Basic realm=\"trunkline controller\", charset=\"UTF-8\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
        }
        Err(with_headers(OWN, response))
    }
}

pub(super) fn router() -> Router<Arc<App>> {
    let file = |media: &'static str, contents: &'static str| {
        get(move |_: Visitor| async move {
            with_headers(OWN, ([(header::CONTENT_TYPE, media)], contents).into_response())
        })
    };
    Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("page.html")))
        .route("/style.css", file("text/css", STYLE))
        .route("/tables.js", file("text/javascript", TABLES))
        .route("/page.js", file("text/javascript", include_str!("page.js")))
}
