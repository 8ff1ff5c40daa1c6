//! One exchange: a connection, a request and its response.

use std::error::Error as _;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use codebox_egress::{EgressError, HostSecrets, Mask, TlsOffer, Transport};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::body::RequestBody;
use super::idle::Origin;
use super::{Event, ExchangeContext, RequestHead, ResponseHead};
use crate::guest::net::reply::Reply;
use crate::guest::net::socket::HOLD_TIME;

/// Headers that control the connection, which only the host sets.
const RESERVED_HEADERS: [&str; 8] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

/// The protocol that is offered during the TLS handshake.
const ALPN: &str = "http/1.1";

/// Maximum bytes of a response's head and of each direction's buffer.
const MAX_BUFFER_SIZE: usize = 64 << 10;

/// Maximum bytes of a body that is sent over a reused connection. If the server has just closed that connection, the
/// body is sent again, so it is held until the response arrives.
const MAX_RESENDABLE_BODY: usize = 64 << 10;

/// Maximum number of headers of a response, which seldom has more than a hundred.
const MAX_HEADERS: usize = 2000;

/// Runs an exchange and sends its events. The request's body is `complete`, or follows in `pieces`.
pub(super) async fn run(
    context: Arc<ExchangeContext>,
    head: RequestHead,
    complete: Bytes,
    pieces: Option<mpsc::UnboundedReceiver<Bytes>>,
    event_sender: mpsc::Sender<Event>,
) {
    // The receiver is dropped if the guest has aborted the exchange.
    let _sent = match exchange(&context, &head, complete, pieces, &event_sender).await {
        Ok(()) => event_sender.send(Event::End).await,
        Err(reply) => event_sender.send(Event::Failed(reply)).await,
    };
}

async fn exchange(
    context: &ExchangeContext,
    head: &RequestHead,
    complete: Bytes,
    pieces: Option<mpsc::UnboundedReceiver<Bytes>>,
    event_sender: &mpsc::Sender<Event>,
) -> Result<(), Reply> {
    let (origin, target) = origin(&head.url)?;
    let transport = if origin.tls { Transport::Tls } else { Transport::Plain };
    let secrets = context.secrets.for_host(&origin.host, transport);
    let request = |body| build_request(head, &target, &origin, secrets.as_ref(), body);
    let kept = if pieces.is_some() || complete.len() > MAX_RESENDABLE_BODY { None } else { context.idle.take(&origin) };
    let answered = match kept {
        Some(mut sender) => match sender.send_request(request(RequestBody::Complete(complete.clone()))?).await {
            Ok(response) => Some((sender, response)),
            // The server closed the connection just then, before or possibly after it read the request.
            Err(error) if error.is_canceled() || (error.is_incomplete_message() && is_safe_method(&head.method)) => {
                None
            }
            Err(error) => return Err(failure(&error)),
        },
        None => None,
    };
    let (mut sender, response) = match answered {
        Some(answered) => answered,
        None => {
            let mut sender = connect(context, &origin).await?;
            let body = match pieces {
                Some(pieces) => RequestBody::Streamed { pieces, remaining: head.length },
                None => RequestBody::Complete(complete),
            };
            let response = sender.send_request(request(body)?).await.map_err(|error| failure(&error))?;
            (sender, response)
        }
    };
    let mask = secrets.as_ref().map(HostSecrets::mask).unwrap_or_default();
    receive(response, mask, event_sender).await?;
    if sender.ready().await.is_ok() {
        context.idle.put(origin, sender);
    }
    Ok(())
}

/// Sends the response's events, without secrets, piece by piece, as fast as the guest receives them.
async fn receive(
    response: Response<Incoming>,
    mut mask: Mask,
    event_sender: &mpsc::Sender<Event>,
) -> Result<(), Reply> {
    let (parts, mut body) = response.into_parts();
    let text = |value: &HeaderValue| match std::str::from_utf8(&mask.mask_text(value.as_bytes())) {
        Ok(text) if text.is_ascii() => text.to_owned(),
        _ => mask.mask_text(value.as_bytes()).iter().map(|byte| char::from(*byte)).collect(),
    };
    let head = ResponseHead {
        status: parts.status.as_u16(),
        text: parts.extensions.get::<hyper::ext::ReasonPhrase>().map_or_else(
            || parts.status.canonical_reason().unwrap_or_default().to_owned(),
            |reason| String::from_utf8_lossy(&mask.mask_text(reason.as_bytes())).into_owned(),
        ),
        headers: parts.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect(),
    };
    let _sent = event_sender.send(Event::Head(head)).await;
    let mut held = Vec::new();
    loop {
        let frame = match held.is_empty() {
            true => Ok(body.frame().await),
            false => timeout(HOLD_TIME, body.frame()).await,
        };
        let data = match frame {
            // A part of a value is held no longer.
            Err(_late) => mask.take_all(&mut held).into(),
            Ok(None) => break,
            Ok(Some(frame)) => match frame.map_err(|error| failure(&error))?.into_data() {
                Ok(data) if mask.is_empty() => data,
                Ok(data) => {
                    held.extend_from_slice(&data);
                    mask.take_complete(&mut held).into()
                }
                Err(_) => continue,
            },
        };
        send_data(event_sender, data).await;
    }
    send_data(event_sender, mask.take_all(&mut held).into()).await;
    Ok(())
}

async fn send_data(event_sender: &mpsc::Sender<Event>, data: Bytes) {
    if !data.is_empty() {
        let _sent = event_sender.send(Event::Data(data)).await;
    }
}

async fn connect(context: &ExchangeContext, origin: &Origin) -> Result<SendRequest<RequestBody>, Reply> {
    let Origin { tls, host, port } = origin;
    let refused = |error: EgressError| Reply::from_egress(&error);
    let connection = context.egress.connect(host, *port).await.map_err(refused)?;
    if !tls {
        return start_http(context, connection).await;
    }
    let roots = context.egress.roots().ok_or_else(Reply::missing_roots)?;
    let offer = TlsOffer { alpn: &[ALPN], ..TlsOffer::default() };
    let connection = connection.start_tls(host, roots, &offer).await.map_err(refused)?;
    start_http(context, connection).await
}

/// Starts HTTP on a connection.
async fn start_http(
    context: &ExchangeContext,
    connection: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<SendRequest<RequestBody>, Reply> {
    let mut http = Builder::new();
    http.max_buf_size(MAX_BUFFER_SIZE).max_headers(MAX_HEADERS);
    let (sender, driver) = http.handshake(TokioIo::new(connection)).await.map_err(|error| failure(&error))?;
    let driven = async {
        // The exchanges on the connection report its errors.
        let _ended = driver.await;
    };
    let _taken = context.work.send(Box::pin(driven));
    Ok(sender)
}

/// Returns true if a request with this method may be sent twice.
fn is_safe_method(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS")
}

/// Splits a URL into the server and the request target.
fn origin(url: &str) -> Result<(Origin, Uri), Reply> {
    let malformed = || Reply::failed("other", "EINVAL", "the URL is malformed");
    let uri: Uri = url.parse().map_err(|_| malformed())?;
    let tls = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(Reply::failed("scheme", "EINVAL", "only http and https can be fetched")),
    };
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(malformed)?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let target = target.parse().map_err(|_| malformed())?;
    Ok((Origin { tls, host, port }, target))
}

fn build_request(
    head: &RequestHead,
    target: &Uri,
    origin: &Origin,
    secrets: Option<&HostSecrets>,
    body: RequestBody,
) -> Result<Request<RequestBody>, Reply> {
    let malformed = |what: &str| Reply::failed("other", "EINVAL", &format!("the request's {what} is malformed"));
    let is_empty = body.is_end_stream();
    let mut request = Request::new(body);
    *request.method_mut() = head.method.parse().map_err(|_| malformed("method"))?;
    *request.uri_mut() = target.clone();
    let headers = request.headers_mut();
    for (name, value) in &head.headers {
        if RESERVED_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            continue;
        }
        let name: HeaderName = name.parse().map_err(|_| malformed("header"))?;
        // JavaScript represents each byte of a header as one code unit of a string.
        let value: Option<Vec<u8>> = value.chars().map(|unit| u8::try_from(unit).ok()).collect();
        let mut value = value.ok_or_else(|| malformed("header"))?;
        if let Some(secrets) = secrets
            && let Some((replaced, _)) = secrets.replace(&value).map_err(|error| Reply::from_secret(&error))?
        {
            value = replaced;
        }
        let value = HeaderValue::from_bytes(&value).map_err(|_| malformed("header"))?;
        headers.append(name, value);
    }
    if is_empty && !matches!(head.method.as_str(), "GET" | "HEAD") {
        headers.insert("content-length", HeaderValue::from_static("0"));
    }
    let bracketed = if origin.host.contains(':') { format!("[{}]", origin.host) } else { origin.host.clone() };
    let default_port = if origin.tls { 443 } else { 80 };
    let host = if origin.port == default_port { bracketed } else { format!("{bracketed}:{}", origin.port) };
    headers.insert("host", HeaderValue::from_str(&host).map_err(|_| malformed("host"))?);
    Ok(request)
}

/// Converts an error of the HTTP client to a reply, with the cause if it is known.
fn failure(error: &hyper::Error) -> Reply {
    let closed = || Reply::failed("closed", "ECONNRESET", "other side closed");
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(error) = inner.downcast_ref::<io::Error>() {
            return match error.kind() {
                // The connection was closed before the end of the body.
                io::ErrorKind::UnexpectedEof => closed(),
                // The kinds that hyper uses for a body with malformed chunks.
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                    Reply::failed("protocol", "EPROTO", &error.to_string())
                }
                _ => Reply::from_io(error),
            };
        }
        source = inner.source();
    }
    if error.is_incomplete_message() || error.is_canceled() {
        return closed();
    }
    Reply::failed("protocol", "EPROTO", &error.to_string())
}
