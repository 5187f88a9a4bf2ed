//! What people and their programs ask: documents, plans, revisions, invitations, how the network is.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use trunkline_schema::MAX_FILE;
use trunkline_sites::{Configuration, ConfiguredPeer, PeerReport, Report, now};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoParams, Modify, OpenApi, ToSchema};

use super::asked::{Parameters, Text};
use super::fleet::{FleetStatus, RolloutStatus, ShortTrunk, SiteStatus};
use super::holders::{Admin, Viewer};
use super::refusal::{Problem, Refusal};
use super::{App, gateways, metrics, page};
use crate::changes::changes;
use crate::document::Document;
use crate::plan::{Plan, plan};
use crate::store::{Author, Entry, Event, Proposal, Revision, Steps, Store};

/// What a body may have at most, bytes, where it is no document.
const MAX_BODY: usize = 256 << 10;
/// Events in an answer, and revisions.
const MAX_EVENTS: u32 = 1000;
const MAX_REVISIONS: u64 = 100;
/// How long an invitation holds unless it is said, and at most, seconds.
const EXPIRES_S: u64 = 24 * 3600;
const MAX_EXPIRES_S: u64 = 7 * 24 * 3600;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Trunkline controller",
        description = "Trunks with a guaranteed rate between many sites. Rates are in bit/s, times in seconds since 1970.",
        license(name = "Apache-2.0 OR MIT")
    ),
    paths(
        document, planned, preview, apply, rollout, revisions, events, status, invite, expel, prometheus,
        gateways::enrol, gateways::poll
    ),
    components(schemas(
        Problem, Report, PeerReport, RolloutStatus, SiteStatus, ShortTrunk, Entry, Applied, Preview,
        Configuration, ConfiguredPeer
    )),
    modifiers(&Bearer)
)]
struct Described;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// The description of the interface (`OpenAPI` 3.1), as JSON.
pub fn openapi() -> String {
    Described::openapi().to_pretty_json().expect("a description")
}

pub(super) fn router(app: Arc<App>) -> Router {
    let documents = Router::new()
        .route("/v1/plan", post(preview).get(planned))
        .route("/v1/apply", post(apply))
        .layer(DefaultBodyLimit::max(MAX_FILE as usize));
    let others = Router::new()
        .route("/v1/document", get(document))
        .route("/v1/revisions", get(revisions))
        .route("/v1/rollout", post(rollout))
        .route("/v1/events", get(events))
        .route("/v1/status", get(status))
        .route("/v1/sites/{site}/invitation", post(invite))
        .route("/v1/sites/{site}", delete(expel))
        .route("/v1/enrol", post(gateways::enrol))
        .route("/v1/poll", post(gateways::poll))
        .route("/metrics", get(prometheus))
        .route("/openapi.json", get(description))
        .layer(DefaultBodyLimit::max(MAX_BODY));
    documents
        .merge(others)
        .merge(page::router())
        .method_not_allowed_fallback(another_method)
        .fallback(nothing)
        .with_state(app)
}

async fn another_method() -> Refusal {
    let text = "not by this method; GET /openapi.json says what there is";
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, text)
}

async fn nothing() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is nothing here; GET /openapi.json says what there is")
}

async fn description() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi()).into_response()
}

/// Which revision.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Its number; the latest.
    revision: Option<u64>,
}

/// How a document is applied.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct How {
    /// The revision that the document was made from; 0: none.
    from: u64,
    /// Why.
    #[serde(default)]
    note: String,
    /// Whether it is applied even if trunks are refused.
    #[serde(default)]
    partly: bool,
    /// In which steps sites get it: percent of the trunks that change, as 1,10,50; all at once.
    steps: Option<String>,
    /// How long a step may take, seconds; 60.
    step_s: Option<u64>,
}

/// How a roll-out ends.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum End {
    /// All sites get it now.
    Finish,
    /// What was there before returns.
    Back,
}

/// How a roll-out is to end.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Ending {
    /// How.
    #[param(inline)]
    end: End,
}

/// How long an invitation holds.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Expiry {
    /// Seconds, at most 604800; 86400.
    expires_s: Option<u64>,
}

/// After which revision or event.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct After {
    /// Its number; 0: from the first.
    #[serde(default)]
    after: u64,
}

/// What a document would do.
#[derive(Debug, Serialize, ToSchema)]
struct Preview {
    /// The revision that it is compared with; 0: none.
    revision: u64,
    /// What is different in the document.
    changed: Vec<String>,
    /// The plan, as `trunkline controller plan --json` prints it.
    #[schema(value_type = Object)]
    plan: Plan,
}

/// A revision that was made.
#[derive(Debug, Serialize, ToSchema)]
struct Applied {
    /// Its number.
    revision: u64,
    /// Its plan, as `trunkline controller plan --json` prints it.
    #[schema(value_type = Object)]
    plan: Plan,
}

/// The network's document, as it was applied.
#[utoipa::path(get, path = "/v1/document", tag = "people", params(Which), security(("token" = [])), responses(
    (status = 200, body = String, content_type = "application/toml", description = "its revision is in the header `revision`"),
    (status = 404, body = Problem),
))]
async fn document(
    State(app): State<Arc<App>>,
    _: Viewer,
    Parameters(which): Parameters<Which>,
) -> Result<Response, Refusal> {
    let revision = found(&app, which).await?;
    let headers =
        [("content-type", "application/toml".to_owned()), ("revision", revision.number.to_string())];
    Ok((headers, revision.document).into_response())
}

/// The plan of a revision: its trunks, and what is reserved of its links.
#[utoipa::path(get, path = "/v1/plan", tag = "people", params(Which), security(("token" = [])), responses(
    (status = 200, body = Object, description = "as `trunkline controller plan --json` prints it"),
    (status = 404, body = Problem),
))]
async fn planned(
    State(app): State<Arc<App>>,
    _: Viewer,
    Parameters(which): Parameters<Which>,
) -> Result<Json<Plan>, Refusal> {
    // That of the latest one is in memory, and pages ask for it.
    let latest = match which.revision {
        None => app.fleet().latest().map(|latest| latest.plan.clone()),
        Some(_) => None,
    };
    match latest {
        Some(plan) => Ok(Json(plan)),
        None => found(&app, which).await.map(|revision| Json(revision.plan)),
    }
}

/// A revision that there is.
async fn found(app: &Arc<App>, Which { revision }: Which) -> Result<Revision, Refusal> {
    let found = app.with_store(move |store| match revision {
        Some(number) => store.revision(number).map(Some),
        None => store.latest(),
    });
    found.await?.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "no document was applied yet"))
}

/// What a document would do. It changes nothing.
#[utoipa::path(post, path = "/v1/plan", tag = "people", request_body(content = String, content_type = "application/toml"),
    security(("token" = [])), responses((status = 200, body = Preview), (status = 422, body = Problem)))]
async fn preview(State(app): State<Arc<App>>, _: Viewer, Text(text): Text) -> Result<Json<Preview>, Refusal> {
    let latest = app.with_store(Store::latest).await?;
    let planned = tokio::task::spawn_blocking(move || {
        let document = Document::parse("the document", &text).map_err(crate::store::StoreError::Document)?;
        let before = latest.as_ref();
        Ok(Preview {
            revision: before.map_or(0, |latest| latest.number),
            changed: changes(before.map_or("", |latest| &latest.document), &text),
            plan: plan(&document, before.map(|latest| &latest.plan)),
        })
    });
    planned
        .await
        .map_err(|_| Refusal::broken())?
        .map(Json)
        .map_err(|error: crate::store::StoreError| error.into())
}

/// Applies a document: all of its sites get what it means for them.
#[utoipa::path(post, path = "/v1/apply", tag = "people", params(How),
    request_body(content = String, content_type = "application/toml"), security(("token" = [])), responses(
    (status = 200, body = Applied),
    (status = 409, body = Problem, description = "somebody else has applied another one since; `changed` says what is different"),
    (status = 422, body = Problem, description = "it has mistakes, or trunks are refused, and `plan` says which"),
))]
async fn apply(
    State(app): State<Arc<App>>,
    Admin(by): Admin,
    Parameters(How { from, note, partly, steps, step_s }): Parameters<How>,
    Text(text): Text,
) -> Result<Json<Applied>, Refusal> {
    let steps = steps.map(|text| {
        let steps: Steps = text.parse()?;
        match step_s {
            Some(step_s) => steps.within(Duration::from_secs(step_s)),
            None => Ok(steps),
        }
    });
    let steps: Result<_, String> = steps.transpose();
    let steps = steps.map_err(|error| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, error))?;
    let applied = app.with_store(move |store| {
        store.apply(&Proposal {
            name: "the document",
            text: &text,
            from,
            by: &by,
            note: &note,
            at: now(),
            partly,
            steps: steps.as_ref(),
        })
    });
    let Revision { number, plan, .. } = applied.await?;
    Ok(Json(Applied { revision: number, plan }))
}

/// Ends a roll-out in steps before its time. The answer is the latest revision.
#[utoipa::path(post, path = "/v1/rollout", tag = "people", params(Ending), security(("token" = [])), responses(
    (status = 200, body = u64), (status = 409, body = Problem, description = "none runs")))]
async fn rollout(
    State(app): State<Arc<App>>,
    Admin(by): Admin,
    Parameters(Ending { end }): Parameters<Ending>,
) -> Result<Json<u64>, Refusal> {
    let ended = app.with_store(move |store| {
        let author = Author { by: &by, at: now() };
        match end {
            End::Finish => store.finish(author),
            End::Back => store.roll_back(author, "asked to").map(|revision| revision.number),
        }
    });
    ended.await.map(Json)
}

/// The revisions: at most 100.
#[utoipa::path(get, path = "/v1/revisions", tag = "people", params(After), security(("token" = [])), responses((status = 200, body = [Entry])))]
async fn revisions(
    State(app): State<Arc<App>>,
    _: Viewer,
    Parameters(After { after }): Parameters<After>,
) -> Result<Json<Vec<Entry>>, Refusal> {
    // Each has its whole plan, which is read for two numbers.
    let entries = app.with_store(move |store| {
        let last = store.latest_number()?.min(after.saturating_add(MAX_REVISIONS));
        (after.saturating_add(1)..=last).map(|number| store.revision(number).map(|it| it.entry())).collect()
    });
    entries.await.map(Json)
}

/// What was changed, by whom: at most 1000 changes.
#[utoipa::path(get, path = "/v1/events", tag = "people", params(After), security(("token" = [])), responses((status = 200, body = [Event])))]
async fn events(
    State(app): State<Arc<App>>,
    _: Viewer,
    Parameters(After { after }): Parameters<After>,
) -> Result<Json<Vec<Event>>, Refusal> {
    app.with_store(move |store| store.events(after, MAX_EVENTS)).await.map(Json)
}

/// How the network and its sites are.
#[utoipa::path(get, path = "/v1/status", tag = "people", security(("token" = [])), responses((status = 200, body = FleetStatus)))]
async fn status(State(app): State<Arc<App>>, _: Viewer) -> Json<FleetStatus> {
    Json(app.fleet().status())
}

/// Invites a site to enrol: a line of text for `trunkline enrol`, which holds once.
#[utoipa::path(post, path = "/v1/sites/{site}/invitation", tag = "people", params(("site" = String, Path), Expiry),
    security(("token" = [])), responses((status = 200, body = String), (status = 404, body = Problem)))]
async fn invite(
    State(app): State<Arc<App>>,
    Admin(by): Admin,
    Path(site): Path<String>,
    Parameters(Expiry { expires_s }): Parameters<Expiry>,
) -> Result<String, Refusal> {
    if !app.fleet().has_site(&site) {
        return Err(Refusal::new(StatusCode::NOT_FOUND, format!("the document has no site {site}")));
    }
    let lasts = expires_s.unwrap_or(EXPIRES_S).min(MAX_EXPIRES_S);
    let at = now();
    let invitation = app.identity.invitation(&site, at + lasts).map_err(|_| Refusal::broken())?;
    let secret = invitation.secret.clone();
    app.with_store(move |store| store.invite(Author { by: &by, at }, &site, &secret, at + lasts)).await?;
    Ok(invitation.to_text() + "\n")
}

/// Forgets a site that has enrolled: its token is none any more, and the others no longer have it as a peer.
#[utoipa::path(delete, path = "/v1/sites/{site}", tag = "people", params(("site" = String, Path)),
    security(("token" = [])), responses((status = 204), (status = 404, body = Problem)))]
async fn expel(
    State(app): State<Arc<App>>,
    Admin(by): Admin,
    Path(site): Path<String>,
) -> Result<StatusCode, Refusal> {
    app.with_store(move |store| store.expel(Author { by: &by, at: now() }, &site)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Metrics for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "people", security(("token" = [])), responses((status = 200, body = String)))]
async fn prometheus(State(app): State<Arc<App>>, _: Viewer) -> Response {
    let status = app.fleet().status();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], metrics::text(&status)).into_response()
}
