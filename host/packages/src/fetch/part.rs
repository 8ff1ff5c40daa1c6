//! Files of an index of which only parts are wanted.

use async_http_range_reader::AsyncHttpRangeReader;
use http::Method;
use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest_middleware::reqwest::Request;
use uv_redacted::DisplaySafeUrl;

use super::client::Registry;
use super::landing::LARGEST;

/// The file at an address, to be read in parts. Nothing where its server does not let it be, or does not say how long it is.
pub(crate) async fn in_parts(url: &DisplaySafeUrl, registry: &Registry) -> Option<AsyncHttpRangeReader> {
    // Packed once more on the way, its parts would be others.
    let as_it_is = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("identity"))]);
    let client = registry.client.cached_client().uncached();
    let mut asked = Request::new(Method::HEAD, (**url).clone());
    *asked.headers_mut() = as_it_is.clone();
    let told = client.execute(asked).await.ok()?.error_for_status().ok()?;
    // Where it led to: parts are asked for without following anything.
    let place = DisplaySafeUrl::from_url(told.url().clone());
    let client = client.for_host(&place).clone();
    let file = AsyncHttpRangeReader::from_head_response(client, told, place.into(), as_it_is).await.ok()?;
    (file.len() <= LARGEST).then_some(file)
}
