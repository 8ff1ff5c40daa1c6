//! Requests to registries.

use futures_util::future::{Either, select};
use url::Url;
use uv_client::{BaseClient, RetryState};

use super::error::NpmError;
use super::settings::{NpmSettings, redacted_url};
use crate::address_policy::check_target;
use crate::error::Cause;

/// Maximum number of redirects for one request.
const MAX_REDIRECTS: usize = 5;

/// HTTP client with the user's proxies, certificates, timeouts and retries.
pub(super) struct Client<'s> {
    inner: BaseClient,
    settings: &'s NpmSettings<'s>,
}

/// A request to a registry.
pub(super) struct RegistryQuery<'q> {
    /// Description of the requested object, for error messages.
    pub(super) what: &'q str,
    pub(super) registry: &'q Url,
    pub(super) url: &'q Url,
    pub(super) accept: &'q str,
    /// The ETag of the cached response.
    pub(super) etag: Option<&'q str>,
    /// Maximum size of the response in bytes.
    pub(super) max_size: u64,
}

/// The response to a request.
pub(super) enum RegistryResponse {
    /// The whole body, and its ETag.
    Body(Vec<u8>, Option<String>),
    /// The cached response is still valid.
    NotModified,
    /// The registry does not have the object.
    Nothing,
}

/// Failure of one attempt.
enum AttemptError {
    /// The connection broke during the transfer. Another attempt may succeed.
    Retryable(Cause),
    Permanent(NpmError),
}

impl<'s> Client<'s> {
    pub(super) fn new(settings: &'s NpmSettings<'s>) -> Result<Self, NpmError> {
        let inner =
            crate::fetch::plain_client(&settings.connection()?).map_err(|error| NpmError::Client(error.into()))?;
        Ok(Self { inner, settings })
    }

    /// Returns true if network access is disabled.
    pub(super) fn is_offline(&self) -> bool {
        self.inner.connectivity().is_offline()
    }

    /// Sends a request, and retries it if the connection breaks.
    pub(super) async fn execute(&self, query: &RegistryQuery<'_>) -> Result<RegistryResponse, NpmError> {
        if self.is_offline() {
            return Err(NpmError::Offline { what: query.what.to_owned() });
        }
        let mut retries = RetryState::start(self.inner.retry_policy(), query.url.clone());
        loop {
            match self.attempt(query).await {
                Ok(answer) => return Ok(answer),
                Err(AttemptError::Permanent(error)) => return Err(error),
                Err(AttemptError::Retryable(cause)) => match retries.should_retry(&*cause, 0) {
                    Some(pause) => retries.sleep_backoff(pause).await,
                    None => {
                        return Err(NpmError::Unreachable { registry: redacted_url(query.registry), source: cause });
                    }
                },
            }
        }
    }

    async fn attempt(&self, query: &RegistryQuery<'_>) -> Result<RegistryResponse, AttemptError> {
        let registry = || redacted_url(query.registry);
        let answer = |detail: String| {
            AttemptError::Permanent(NpmError::InvalidResponse {
                registry: registry(),
                what: query.what.to_owned(),
                detail,
            })
        };
        let mut url = query.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            if let Err(reason) = check_target(query.registry, &url).await {
                return Err(AttemptError::Permanent(NpmError::ForbiddenAddress {
                    registry: registry(),
                    address: redacted_url(&url),
                    reason,
                }));
            }
            // Credentials are looked up for each address anew: a redirect must not send a token to another host.
            let mut request = self.inner.for_host(&url.clone().into()).get(url.clone());
            request = request.header("accept", query.accept).header("user-agent", "codebox");
            if let Some(credentials) = self.settings.credentials(&url) {
                request = request.header("authorization", credentials);
            }
            if let Some(etag) = query.etag {
                request = request.header("if-none-match", etag);
            }
            let unreachable = |source| AttemptError::Permanent(NpmError::Unreachable { registry: registry(), source });
            let mut response = request.send().await.map_err(|error| unreachable(error.into()))?;
            let text =
                |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
            match response.status().as_u16() {
                200 => {
                    let etag = text("etag");
                    let mut body = Vec::new();
                    while let Some(bytes) =
                        response.chunk().await.map_err(|error| AttemptError::Retryable(error.into()))?
                    {
                        if (body.len() + bytes.len()) as u64 > query.max_size {
                            return Err(answer(format!("response is larger than {} bytes", query.max_size)));
                        }
                        body.extend_from_slice(&bytes);
                    }
                    return Ok(RegistryResponse::Body(body, etag));
                }
                304 if query.etag.is_some() => return Ok(RegistryResponse::NotModified),
                301 | 302 | 303 | 307 | 308 => {
                    let target = text("location").and_then(|target| url.join(&target).ok());
                    url = target.ok_or_else(|| answer("redirect without a valid location".to_owned()))?;
                }
                401 | 403 => {
                    let what = query.what.to_owned();
                    return Err(AttemptError::Permanent(NpmError::Denied { registry: registry(), what }));
                }
                404 | 410 => return Ok(RegistryResponse::Nothing),
                status => return Err(answer(format!("HTTP status {status}"))),
            }
        }
        Err(answer(format!("more than {MAX_REDIRECTS} redirects")))
    }
}

/// Runs a future within the time limit of the settings.
pub(super) async fn timeout<T>(
    settings: &NpmSettings<'_>,
    work: impl Future<Output = Result<T, NpmError>>,
) -> Result<T, NpmError> {
    match select(std::pin::pin!(work), std::pin::pin!(tokio::time::sleep(settings.timeout))).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => Err(NpmError::Timeout(settings.timeout)),
    }
}
