//! The forms of answers.

use crate::ql::exec::Outcome;
use crate::ql::{Code, Error};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::fmt::Write;

/// The status that goes with a code.
pub(super) fn status_of(code: Code) -> StatusCode {
    match code {
        Code::Invalid => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Forbidden => StatusCode::FORBIDDEN,
        Code::Throttled => StatusCode::TOO_MANY_REQUESTS,
        Code::Retry | Code::Conflict => StatusCode::CONFLICT,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// What a script came to.
pub(super) fn outcomes(result: Result<Vec<Outcome>, Error>, text: bool) -> Response {
    #[derive(Serialize)]
    struct Results<'a> {
        results: &'a [Outcome],
    }
    match result {
        Ok(outcomes) if text => {
            let mut out = String::new();
            for outcome in &outcomes {
                // Writing to a string cannot fail.
                let _ = write!(out, "{outcome}");
            }
            let plain = HeaderValue::from_static("text/plain; charset=utf-8");
            ([(header::CONTENT_TYPE, plain)], out).into_response()
        }
        Ok(outcomes) => json(StatusCode::OK, &Results { results: &outcomes }),
        Err(error) => {
            let code = error.code();
            let response = failure(status_of(code), &error.to_string(), code.as_str());
            match code {
                Code::Unauthenticated => with_challenge(response),
                _ => response,
            }
        }
    }
}

/// With the header that says how to sign in.
pub(super) fn with_challenge(mut response: Response) -> Response {
    let basic = HeaderValue::from_static("Basic realm=\"tessaridb\", charset=\"UTF-8\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, basic);
    response
}

#[derive(Serialize)]
struct Failure<'a> {
    error: &'a str,
    code: &'a str,
}

/// Any failure.
pub(super) fn failure(status: StatusCode, error: &str, code: &str) -> Response {
    json(status, &Failure { error, code })
}

/// The body of a failure, for where there is no response to put it in.
pub(super) fn failure_body(error: &str, code: &str) -> String {
    serde_json::to_string(&Failure { error, code }).unwrap_or_default()
}

/// `{"status": ..}`.
pub(super) fn status(status: StatusCode, word: &str) -> Response {
    json(status, &serde_json::json!({ "status": word }))
}

/// A value as JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let json = HeaderValue::from_static("application/json");
    match serde_json::to_vec(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, json)], body).into_response(),
        // Every value has string keys and finite parts, so this does not happen.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
