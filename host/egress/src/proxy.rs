//! An HTTP proxy for one connection of a guest: `CONNECT host:port`, and requests with an absolute `http://` URI.
//!
//! It keeps no state between requests and follows no redirects, so every target is requested and checked separately.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::ext::ReasonPhrase;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use hyper::http::uri::{Authority, Scheme};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Uri, upgrade};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::connection::Connection;
use crate::egress::Egress;
use crate::error::EgressError;
use crate::relay::relay;

type Body = BoxBody<Bytes, hyper::Error>;

/// The hop-by-hop headers, which are not forwarded.
const HOP_BY_HOP_HEADERS: [&str; 8] = [
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The largest head in bytes, and the size of the buffer for a slow reader.
const MAX_HEAD_SIZE: usize = 64 << 10;

/// The largest number of headers in a head. There are rarely more than a hundred.
const MAX_HEADERS: usize = 2000;

/// The time for which a guest may keep a connection to the proxy without a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves a guest that uses a proxy over `stream`, until either side is done.
///
/// A guest that does not speak HTTP receives an HTTP error, and the connection ends. For a tunnel, `delivered` is
/// called as by [`relay`](relay()): when all data of the guest has been sent.
pub async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    egress: Egress,
    delivered: impl FnOnce() + Send,
) {
    let tunnel = Arc::new(Mutex::new(None));
    let handle_request = service_fn(|request| {
        let (egress, tunnel) = (egress.clone(), Arc::clone(&tunnel));
        async move { Ok::<_, Infallible>(handle_request(request, &egress, &tunnel).await) }
    });
    let mut http = server::Builder::new();
    // A guest that has closed its sending direction may still expect the response.
    http.preserve_header_case(true).half_close(true).max_buf_size(MAX_HEAD_SIZE).max_headers(MAX_HEADERS);
    http.timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT);
    // An aborted connection of a guest is not an error of the proxy.
    let _ = http.serve_connection(TokioIo::new(stream), handle_request).with_upgrades().await;
    let opened = tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((guest, remote)) = opened {
        let guest: OnUpgrade = guest;
        if let Ok(guest) = guest.await {
            relay(TokioIo::new(guest), remote, delivered).await;
        }
    }
}

type Tunnel = Mutex<Option<(OnUpgrade, Connection)>>;

async fn handle_request(mut request: Request<Incoming>, egress: &Egress, tunnel: &Tunnel) -> Response<Body> {
    if request.method() == Method::CONNECT {
        let target = request.uri().authority().and_then(|authority| Some((host_of(authority), authority.port_u16()?)));
        let Some((host, port)) = target else {
            return error_response(StatusCode::BAD_REQUEST, "expected CONNECT HOST:PORT");
        };
        return match egress.connect(&host, port).await {
            Ok(connection) => {
                let opened = (upgrade::on(&mut request), connection);
                *tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
                Response::new(empty())
            }
            Err(error) => refusal(&host, port, &error),
        };
    }
    let plain = request.uri().scheme() == Some(&Scheme::HTTP);
    let Some(authority) = request.uri().authority().cloned().filter(|_| plain) else {
        return error_response(
            StatusCode::BAD_REQUEST,
            "this is a proxy: use CONNECT HOST:PORT or an absolute http:// URL",
        );
    };
    let (host, port) = (host_of(&authority), authority.port_u16().unwrap_or(80));
    match egress.connect(&host, port).await {
        Ok(connection) => forward_request(request, &authority, connection).await,
        Err(error) => refusal(&host, port, &error),
    }
}

/// Returns the host of an authority without user, port and brackets.
fn host_of(authority: &Authority) -> String {
    let host = authority.host();
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host).to_owned()
}

/// Forwards a request over a new HTTP client connection and streams the response back.
async fn forward_request(
    mut request: Request<Incoming>,
    authority: &Authority,
    connection: Connection,
) -> Response<Body> {
    let failed =
        |error: &dyn std::error::Error| error_response(StatusCode::BAD_GATEWAY, &format!("{authority}: {error}"));
    let mut http = client::Builder::new();
    http.preserve_header_case(true).max_buf_size(MAX_HEAD_SIZE).max_headers(MAX_HEADERS);
    let established = http.handshake(TokioIo::new(connection)).await;
    let (mut sender, line) = match established {
        Ok(established) => established,
        Err(error) => return failed(&error),
    };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    // A URI without a path may still have a query.
    let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
    let (Ok(path), Ok(host)) = (path.parse::<Uri>(), HeaderValue::from_str(without_user(authority))) else {
        return error_response(StatusCode::BAD_REQUEST, "invalid target address");
    };
    *request.uri_mut() = path;
    strip_hop_by_hop_headers(request.headers_mut());
    // The `Host` header names the host that was checked.
    request.headers_mut().insert(HOST, host);
    // The task ends with the response body, or is aborted when its reader is dropped.
    let line = AbortOnDrop(tokio::spawn(line));
    match sender.send_request(request).await {
        Ok(mut response) => {
            strip_hop_by_hop_headers(response.headers_mut());
            response.map(|body| ResponseBody { body, _task: line }.boxed())
        }
        Err(error) => failed(&error),
    }
}

fn without_user(authority: &Authority) -> &str {
    let text = authority.as_str();
    text.rsplit_once('@').map_or(text, |(_user, rest)| rest)
}

fn strip_hop_by_hop_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    headers.remove(CONNECTION);
    // `Transfer-Encoding` overrides `Content-Length`. Without the former, the latter alone would truncate the body.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    for name in HOP_BY_HOP_HEADERS {
        headers.remove(name);
    }
}

/// A response body, and the task of its connection.
struct ResponseBody {
    body: Incoming,
    _task: AbortOnDrop,
}

/// A task that is aborted when the handle is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<Result<(), hyper::Error>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, hyper::Error>>> {
        std::pin::Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

fn refusal(host: &str, port: u16, error: &EgressError) -> Response<Body> {
    let shown = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    match error {
        // The address to which a name resolved is only for the user who started the job.
        EgressError::Refused(refusal) => error_response(StatusCode::FORBIDDEN, &format!("{shown}: {}", refusal.reason)),
        EgressError::Failed { source, .. } | EgressError::Tls { source, .. } => {
            error_response(StatusCode::BAD_GATEWAY, &format!("{shown}: {source}"))
        }
    }
}

/// Returns a response of the proxy itself. The message is also the reason phrase, for clients that show only the status
/// line.
fn error_response(status: StatusCode, why: &str) -> Response<Body> {
    let line = format!("codebox: {why}");
    let mut response =
        Response::new(Full::new(Bytes::from(format!("{line}\n"))).map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    if let Ok(phrase) = ReasonPhrase::try_from(line.into_bytes()) {
        response.extensions_mut().insert(phrase);
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn empty() -> Body {
    Full::new(Bytes::new()).map_err(|never| match never {}).boxed()
}
