//! `POST /script`.

use super::taken::Taker;
use super::{MAX_BODY, Shared, answer, sign_in};
use crate::auth::Caller;
use crate::ql::{self, Error, ErrorKind, Parameters};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(60);
/// How long the body of somebody who may not send one is read and thrown away, so that its sender gets to read why.
const REFUSED_TIME: Duration = Duration::from_secs(10);
/// Bytes of a body that is too large which are read and thrown away, so that its sender gets to read the answer.
const DRAIN: usize = 64 * 1024 * 1024;

pub(super) async fn script(
    State(shared): State<Arc<Shared>>,
    Extension(taker): Extension<Taker>,
    request: Request,
) -> Response {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    // Before the body: nobody's body takes memory.
    let caller = match sign_in::caller(&shared, &parts).await {
        Ok(caller) => caller,
        Err(refusal) => {
            shared.metrics.script(refusal.status(), started.elapsed());
            if !parts.headers.contains_key(header::EXPECT) {
                // However it ends, the refusal is what there is to say.
                let _ = tokio::time::timeout(REFUSED_TIME, throw_away(body)).await;
            }
            return refusal;
        }
    };
    let response = match tokio::time::timeout(BODY_TIME, room_and_body(&shared.body_kib, &parts.headers, body)).await {
        Ok(Ok((body, _room))) => run(&shared, caller, &parts.headers, body).await,
        Ok(Err(refusal)) => refusal,
        Err(_) => answer::failure(
            StatusCode::REQUEST_TIMEOUT,
            "the script did not arrive in time",
            "invalid",
        ),
    };
    shared.metrics.script(response.status(), started.elapsed());
    taker.pay(response).await
}

/// Waits for room, then reads the body.
async fn room_and_body(
    kib: &Arc<Semaphore>,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, tokio::sync::OwnedSemaphorePermit), Response> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let size = announced.unwrap_or(MAX_BODY).min(MAX_BODY);
    let permits = u32::try_from(size / 1024 + 1)
        .unwrap_or(u32::MAX)
        .min((MAX_BODY / 1024) as u32);
    let unavailable = |_| answer::failure(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping", "unavailable");
    let room = kib.clone().acquire_many_owned(permits).await.map_err(unavailable)?;
    Ok((read(body, size).await?, room))
}

async fn read(mut body: Body, size: usize) -> Result<Bytes, Response> {
    // Memory is taken as bytes arrive, not as they are announced.
    let mut script = BytesMut::with_capacity(size.min(64 * 1024));
    let mut arrived = 0usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| answer::failure(StatusCode::BAD_REQUEST, "the body ended early", "invalid"))?;
        let Some(data) = frame.data_ref() else { continue };
        arrived = arrived.saturating_add(data.len());
        if arrived <= MAX_BODY {
            script.extend_from_slice(data);
        } else {
            script = BytesMut::new();
        }
        if arrived > DRAIN {
            break;
        }
    }
    if arrived > MAX_BODY {
        let sentence = format!("a script may have {MAX_BODY} bytes at most");
        return Err(answer::failure(StatusCode::PAYLOAD_TOO_LARGE, &sentence, "invalid"));
    }
    Ok(script.freeze())
}

/// Reads as much as a body may have, and keeps nothing.
async fn throw_away(mut body: Body) {
    let mut left = MAX_BODY;
    while let Some(Ok(frame)) = body.frame().await {
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

async fn run(shared: &Arc<Shared>, caller: Caller, headers: &HeaderMap, body: Bytes) -> Response {
    let text = wants_text(headers);
    let (script, parameters) = match unwrap(body) {
        Ok(unwrapped) => unwrapped,
        Err(error) => return answer::outcomes(Err(error), text),
    };
    let _running = shared.metrics.running();
    let scripts = shared.scripts.clone();
    // On a task of its own: a script goes on to its end though its sender hangs up.
    let running = tokio::spawn(async move { scripts.execute(caller, script, parameters).await });
    let result = running.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a script ended early");
        Err(ErrorKind::Internal("the script ended early".to_owned()).into())
    });
    if let Err(error) = &result
        && error.code() == ql::Code::Internal
    {
        tracing::error!(%error, "a script failed");
    }
    answer::outcomes(result, text)
}

/// Whether the client would rather have TessariQL than JSON.
fn wants_text(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let first = accepted.flat_map(|value| value.split(',')).find_map(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "text/plain" | "text/*" => Some(true),
            "application/json" | "application/*" => Some(false),
            _ => None,
        }
    });
    first.unwrap_or(false)
}

/// A script as JSON carries it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapped {
    script: String,
    /// Literals in TessariQL, by the name of the parameter.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
}

/// Takes the script out of a body. No script begins with a brace, so what does is JSON whatever its type says.
fn unwrap(body: Bytes) -> Result<(Bytes, Parameters), Error> {
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Ok((body, Parameters::new()));
    }
    let wrapped: Wrapped = serde_json::from_slice(&body)
        .map_err(|error| ErrorKind::InvalidValue(format!("the body is not a script in JSON: {error}")))?;
    let mut parameters = Parameters::new();
    for (name, source) in wrapped.parameters {
        if !ql::is_identifier(&name) {
            return Err(ErrorKind::InvalidValue(format!("{name:?} is not a parameter's name")).into());
        }
        let value = ql::parse_literal(&source)
            .map_err(|error| ErrorKind::InvalidValue(format!("the parameter ${name}: {error}")))?;
        parameters.insert(name, value);
    }
    Ok((wrapped.script.into(), parameters))
}
