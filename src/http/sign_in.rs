//! Who sends a request: `Authorization: Basic`, or `Bearer` with a token of `POST /session`.
//!
//! A store without users is everybody's, whatever a request carries.

use super::{Shared, answer};
use crate::auth::{Caller, Origin, SignInError, Surface, Who, standing};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::net::SocketAddr;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The client's address, as an extension of each request.
#[derive(Clone, Copy)]
pub(super) struct Remote(pub(super) SocketAddr);

/// What a request brought to sign in with.
enum Credentials {
    None,
    Basic(Zeroizing<Vec<u8>>),
    Bearer(Zeroizing<String>),
    /// Anything else; nobody can sign in that way.
    Unknown,
}

fn credentials(headers: &HeaderMap) -> Credentials {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Credentials::None;
    };
    let Some((scheme, rest)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
        return Credentials::Unknown;
    };
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Credentials::Bearer(Zeroizing::new(rest.to_owned()));
    }
    match scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(rest)) {
        Some(Ok(pair)) => Credentials::Basic(Zeroizing::new(pair)),
        _ => Credentials::Unknown,
    }
}

fn origin(request: &axum::http::request::Parts) -> Origin {
    Origin {
        surface: Surface::Http,
        remote: request.extensions.get::<Remote>().map(|remote| remote.0),
    }
}

/// Who sends this request, or the refusal to answer it with.
pub(super) async fn caller(shared: &Shared, request: &axum::http::request::Parts) -> Result<Caller, Response> {
    let origin = origin(request);
    if shared.auth.view().is_open() {
        let who = Who::Anonymous;
        return Ok(Caller { who, origin });
    }
    let who = match credentials(&request.headers) {
        Credentials::Basic(pair) => basic(shared, &pair, &origin).await?,
        Credentials::Bearer(token) => match shared.auth.session(&token) {
            Some(principal) => Who::User(principal),
            None => return Err(unauthenticated("the session has ended; sign in again")),
        },
        Credentials::None => return Err(unauthenticated("sign in first")),
        Credentials::Unknown => return Err(unauthenticated("sign in with Basic, or Bearer and a token")),
    };
    match standing(&shared.auth.view(), &who) {
        Ok(_) => Ok(Caller { who, origin }),
        Err(ended) => Err(unauthenticated(&ended.to_string())),
    }
}

/// `name:password` (RFC 7617: the name has no colon, the password may).
async fn basic(shared: &Shared, pair: &[u8], origin: &Origin) -> Result<Who, Response> {
    let split = pair.iter().position(|byte| *byte == b':');
    let Some((name, password)) = split.map(|at| (&pair[..at], &pair[at + 1..])) else {
        return Err(unauthenticated("Basic takes name:password"));
    };
    let name = String::from_utf8_lossy(name);
    let signed_in = shared.auth.sign_in(&name, password, origin).await;
    signed_in.map(Who::User).map_err(|error| refusal(&error))
}

/// `POST /session`: a token for a name and a password.
pub(super) async fn open(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    #[derive(serde::Serialize)]
    struct Opened<'a> {
        token: &'a str,
        user: &'a str,
        expires: String,
    }
    let (request, _) = request.into_parts();
    let Credentials::Basic(pair) = credentials(&request.headers) else {
        return unauthenticated("a session is opened with Basic");
    };
    let who = match basic(&shared, &pair, &origin(&request)).await {
        Ok(who) => who,
        Err(refusal) => return refusal,
    };
    let Who::User(principal) = who else {
        return unauthenticated("sign in first");
    };
    let user = principal.name.clone();
    let session = shared.auth.open_session(principal);
    let expires = jiff::Timestamp::from_millisecond(session.expires_ms).unwrap_or(jiff::Timestamp::MAX);
    let mut response = answer::json(
        StatusCode::OK,
        &Opened {
            token: &session.token,
            user: &user,
            expires: expires.to_string(),
        },
    );
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// `DELETE /session`: its token is worth nothing from now on.
pub(super) async fn end(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    match credentials(&headers) {
        Credentials::Bearer(token) if shared.auth.end_session(&token) => answer::status(StatusCode::OK, "ended"),
        _ => unauthenticated("there is no such session"),
    }
}

fn refusal(error: &SignInError) -> Response {
    let sentence = error.to_string();
    let mut response = match error {
        SignInError::Refused => return unauthenticated(&sentence),
        SignInError::Throttled { .. } | SignInError::Crowded => {
            answer::failure(StatusCode::TOO_MANY_REQUESTS, &sentence, "throttled")
        }
        SignInError::Busy | SignInError::Unavailable(_) => {
            answer::failure(StatusCode::SERVICE_UNAVAILABLE, &sentence, "unavailable")
        }
    };
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn unauthenticated(sentence: &str) -> Response {
    answer::with_challenge(answer::failure(StatusCode::UNAUTHORIZED, sentence, "unauthenticated"))
}
