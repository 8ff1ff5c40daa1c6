//! Requests to registries.

use futures_util::future::{Either, select};
use url::Url;
use uv_client::{BaseClient, RetryState};

use super::error::NpmError;
use super::settings::{NpmSettings, plain};
use crate::error::Cause;
use crate::reach::may_follow;

/// Maximum number of redirects for one request.
const REDIRECTS: usize = 5;

/// HTTP client with the user's proxies, certificates, timeouts and retries.
pub(super) struct Client<'s> {
    inner: BaseClient,
    settings: &'s NpmSettings<'s>,
}

/// A request to a registry.
pub(super) struct Question<'q> {
    /// Description of the requested object, for error messages.
    pub(super) what: &'q str,
    pub(super) registry: &'q Url,
    pub(super) url: &'q Url,
    pub(super) accept: &'q str,
    /// The ETag of the cached response.
    pub(super) etag: Option<&'q str>,
    /// Maximum size of the response in bytes.
    pub(super) most: u64,
}

/// The response to a request.
pub(super) enum Answer {
    /// The whole body, and its ETag.
    Body(Vec<u8>, Option<String>),
    /// The cached response is still valid.
    Unchanged,
    /// The registry does not have the object.
    Nothing,
}

/// Failure of one attempt.
enum Failure {
    /// The connection broke during the transfer. Another attempt may succeed.
    Broken(Cause),
    Final(NpmError),
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
    pub(super) async fn ask(&self, question: &Question<'_>) -> Result<Answer, NpmError> {
        if self.is_offline() {
            return Err(NpmError::Offline { what: question.what.to_owned() });
        }
        let mut retries = RetryState::start(self.inner.retry_policy(), question.url.clone());
        loop {
            match self.attempt(question).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Broken(cause)) => match retries.should_retry(&*cause, 0) {
                    Some(pause) => retries.sleep_backoff(pause).await,
                    None => return Err(NpmError::Unreachable { registry: plain(question.registry), source: cause }),
                },
            }
        }
    }

    async fn attempt(&self, question: &Question<'_>) -> Result<Answer, Failure> {
        let registry = || plain(question.registry);
        let answer = |detail: String| {
            Failure::Final(NpmError::Answer { registry: registry(), what: question.what.to_owned(), detail })
        };
        let mut url = question.url.clone();
        for _ in 0..=REDIRECTS {
            if let Err(why) = may_follow(question.registry, &url).await {
                return Err(Failure::Final(NpmError::Astray { registry: registry(), address: plain(&url), why }));
            }
            // Credentials are looked up for each address anew: a redirect must not send a token to another host.
            let mut request = self.inner.for_host(&url.clone().into()).get(url.clone());
            request = request.header("accept", question.accept).header("user-agent", "codebox");
            if let Some(credentials) = self.settings.credentials(&url) {
                request = request.header("authorization", credentials);
            }
            if let Some(etag) = question.etag {
                request = request.header("if-none-match", etag);
            }
            let unreachable = |source| Failure::Final(NpmError::Unreachable { registry: registry(), source });
            let mut response = request.send().await.map_err(|error| unreachable(error.into()))?;
            let text =
                |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
            match response.status().as_u16() {
                200 => {
                    let etag = text("etag");
                    let mut body = Vec::new();
                    while let Some(bytes) = response.chunk().await.map_err(|error| Failure::Broken(error.into()))? {
                        if (body.len() + bytes.len()) as u64 > question.most {
                            return Err(answer(format!("response is larger than {} bytes", question.most)));
                        }
                        body.extend_from_slice(&bytes);
                    }
                    return Ok(Answer::Body(body, etag));
                }
                304 if question.etag.is_some() => return Ok(Answer::Unchanged),
                301 | 302 | 303 | 307 | 308 => {
                    let to = text("location").and_then(|to| url.join(&to).ok());
                    url = to.ok_or_else(|| answer("redirect without a valid location".to_owned()))?;
                }
                401 | 403 => {
                    let what = question.what.to_owned();
                    return Err(Failure::Final(NpmError::Denied { registry: registry(), what }));
                }
                404 | 410 => return Ok(Answer::Nothing),
                status => return Err(answer(format!("HTTP status {status}"))),
            }
        }
        Err(answer(format!("more than {REDIRECTS} redirects")))
    }
}

/// Runs a future within the time limit of the settings.
pub(super) async fn within<T>(
    settings: &NpmSettings<'_>,
    work: impl Future<Output = Result<T, NpmError>>,
) -> Result<T, NpmError> {
    match select(std::pin::pin!(work), std::pin::pin!(tokio::time::sleep(settings.within))).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => Err(NpmError::Late(settings.within)),
    }
}
