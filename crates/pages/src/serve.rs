//! HTTP over TLS or without, until the process is asked to end.

use std::future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum_server::tls_rustls::RustlsConfig;
use hyper_util::rt::TokioTimer;
use rustls::ServerConfig;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::access::{Access, AccessError, Token};
use crate::pages::Pages;

/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(10);
/// How long requests for pages may take after the process was asked to end. What comes live has no end of its own.
const GRACE: Duration = Duration::from_millis(300);
/// How long who is sent something may not acknowledge it, ms: whoever has gone leaves his place.
const SILENCE_MS: u32 = 30_000;

/// Serves until the process is asked to end (SIGINT, SIGTERM, SIGHUP), or until what goes on beside it ends. Requests may then take for so long.
///
/// # Errors
/// The machine refuses something.
pub fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: Router,
    beside: impl Future<Output = ()> + Send + 'static,
    grace: Duration,
) -> io::Result<()> {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // What is accepted inherits it.
    rustix::net::sockopt::set_tcp_user_timeout(listener.as_fd(), SILENCE_MS)?;
    runtime.block_on(async {
        let handle = axum_server::Handle::new();
        let mut ends = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ];
        let ended = handle.clone();
        tokio::spawn(async move {
            let [interrupt, terminate, hangup] = &mut ends;
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
                () = beside => {}
            }
            ended.graceful_shutdown(Some(grace));
        });
        match tls {
            Some(tls) => {
                let config = RustlsConfig::from_config(tls);
                let server = bounded(axum_server::from_tcp_rustls(listener, config)?, handle);
                server.serve(router.into_make_service()).await
            }
            None => bounded(axum_server::from_tcp(listener)?, handle).serve(router.into_make_service()).await,
        }
    })?;
    runtime.shutdown_timeout(grace);
    Ok(())
}

/// The same, with bounds on how long it takes part.
fn bounded<A>(
    server: axum_server::Server<SocketAddr, A>,
    handle: axum_server::Handle<SocketAddr>,
) -> axum_server::Server<SocketAddr, A> {
    let mut server = server.handle(handle);
    server.http_builder().http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
    server
}

/// Pages that are about to be served: it listens already.
pub struct Server {
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    token: Option<Token>,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// The address is taken, or others could see what is served.
    pub fn bind(access: &Access) -> Result<Self, AccessError> {
        let (tls, token) = access.read()?;
        let listener = TcpListener::bind(access.listen)
            .map_err(|error| AccessError::Listen { listen: access.listen, error })?;
        Ok(Server { listener, tls, token })
    }

    /// Where a browser finds it.
    ///
    /// # Errors
    /// The machine does not say.
    pub fn url(&self) -> io::Result<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}/", self.listener.local_addr()?))
    }

    /// Serves until the process is asked to end (SIGINT, SIGTERM, SIGHUP).
    ///
    /// # Errors
    /// The machine refuses something.
    pub fn run(self, pages: Pages) -> io::Result<()> {
        serve(self.listener, self.tls, pages.router(self.token), future::pending(), GRACE)
    }
}
