//! SaslHandshake (17), SaslAuthenticate (36), and tokens that come without a request.

use crate::auth::{SignInError, Who};
use crate::kafka::call::Call;
use crate::kafka::plain;
use crate::kafka::reply::{Answer, Refusal, encode};
use crate::kafka::sign_in::Admission;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{
    ApiVersionsResponse, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use kafka_protocol::protocol::StrBytes;
use tokio::time::Instant;

/// The only mechanism: the store keeps Argon2id hashes, and SCRAM would need a second secret of every password.
const PLAIN: &str = "PLAIN";

/// Agrees on PLAIN. Anything else is told what there is, and the connection closes, as Kafka does.
pub(crate) fn handshake(call: &Call, request: &SaslHandshakeRequest) -> Result<Answer, Refusal> {
    let mechanisms = vec![StrBytes::from_static_str(PLAIN)];
    let response = SaslHandshakeResponse::default().with_mechanisms(mechanisms);
    if &*request.mechanism == PLAIN {
        call.peer.sign_in.agreed(call.version >= 1, Instant::now());
        return encode(call.api, call.version, call.correlation, &response).map(Answer::Whole);
    }
    call.peer.sign_in.failed();
    let response = response.with_error_code(ResponseError::UnsupportedSaslMechanism.code());
    let bytes = encode(call.api, call.version, call.correlation, &response)?;
    Ok(Answer::Last(bytes, Refusal::Mechanism))
}

/// Checks the token of a request.
pub(crate) async fn authenticate(call: &Call, request: SaslAuthenticateRequest) -> Result<Answer, Refusal> {
    let response = SaslAuthenticateResponse::default().with_error_message(None);
    match check(call, request.auth_bytes).await? {
        Ok(lifetime) => {
            let response = match call.version {
                1.. => response.with_session_lifetime_ms(lifetime),
                _ => response,
            };
            encode(call.api, call.version, call.correlation, &response).map(Answer::Whole)
        }
        Err(why) => {
            let response = response
                .with_error_code(ResponseError::SaslAuthenticationFailed.code())
                .with_error_message(Some(StrBytes::from_string(why)));
            let bytes = encode(call.api, call.version, call.correlation, &response)?;
            Ok(Answer::Last(bytes, Refusal::SignInRefused))
        }
    }
}

/// Checks a bare token (after a handshake of version 0). PLAIN's answer is empty; a refusal has none but the close.
pub(crate) async fn token(call: &Call, token: Bytes) -> Result<Answer, Refusal> {
    match check(call, token).await? {
        Ok(_) => {
            let mut empty = BytesMut::with_capacity(4);
            empty.put_i32(0);
            Ok(Answer::Whole(empty))
        }
        Err(_) => Err(Refusal::SignInRefused),
    }
}

/// How long the sign-in lasts in milliseconds, or the sentence that refuses it; it also says where the store could not look,
/// and that the client should come again.
async fn check(call: &Call, token: Bytes) -> Result<Result<i64, String>, Refusal> {
    let sign_in = &call.peer.sign_in;
    // Who guesses waits for each answer (Kafka's connection.failed.authentication.delay.ms); who was not looked at has
    // waited, or is one too many to be kept.
    let mut guessed = true;
    let outcome = match plain::parse(&token) {
        Err(bad) => Err(bad.to_string()),
        // An open store has nobody to ask; who signs in is as anonymous as who does not.
        Ok(_) if call.view().is_open() => Ok(Who::Anonymous),
        Ok(plain) => {
            let origin = call.peer.origin();
            let auth = &call.shared.auth;
            let again = matches!(sign_in.who(), Who::User(user) if &*user.name == plain.name);
            let signed_in = match again {
                true => auth.sign_in_again(plain.name, plain.password, &origin).await,
                false => auth.sign_in(plain.name, plain.password, &origin).await,
            };
            signed_in.map(Who::User).map_err(|error| {
                guessed = matches!(error, SignInError::Refused | SignInError::Throttled { .. });
                error.to_string()
            })
        }
    };
    drop(token);
    let outcome = outcome.and_then(|who| {
        sign_in
            .succeeded(who, Instant::now())
            .ok_or_else(|| "a connection stays with the user that it signed in as".to_owned())
    });
    if outcome.is_ok() && sign_in.is_user() {
        call.shared.watch.enter(&call.peer);
    }
    if outcome.is_err() {
        sign_in.failed();
        if guessed {
            tokio::select! {
                () = tokio::time::sleep(call.shared.config.refusal_pause) => {}
                () = call.shared.stopping.cancelled() => {}
            }
        }
    }
    Ok(outcome)
}

/// ILLEGAL_SASL_STATE (34) in the terms of the request.
pub(crate) fn illegal_state(call: &Call, admission: &Admission) -> Result<Answer, Refusal> {
    use kafka_protocol::messages::ApiKey;
    let code = ResponseError::IllegalSaslState.code();
    let bytes = match call.api.key {
        ApiKey::SaslHandshake => encode(
            call.api,
            call.version,
            call.correlation,
            &SaslHandshakeResponse::default().with_error_code(code),
        ),
        ApiKey::SaslAuthenticate => {
            let why = StrBytes::from_static_str("no handshake preceded this request, or the connection is signed in");
            let response = SaslAuthenticateResponse::default();
            let response = response.with_error_code(code).with_error_message(Some(why));
            encode(call.api, call.version, call.correlation, &response)
        }
        _ => encode(
            call.api,
            call.version,
            call.correlation,
            &ApiVersionsResponse::default().with_error_code(code),
        ),
    }?;
    Ok(match admission {
        Admission::IllegalStateAndClose => Answer::Last(bytes, Refusal::SignInWanted(call.api.key)),
        _ => Answer::Whole(bytes),
    })
}
