//! What goes back to the client.

use super::table::Api;
use crate::connections::Held;
use crate::log::Piece;
use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::Encodable;

/// The end of a request.
pub(crate) enum Answer {
    /// A framed response in one buffer.
    Whole(BytesMut),
    /// A framed response with stored bytes in it, and what it holds in memory.
    Pieces(Vec<Piece>, Held),
    /// A framed response after which the connection closes, and why.
    Last(BytesMut, Refusal),
    /// A request that wants no answer was done.
    Nothing,
    /// There is no answer the client could read, or none it should wait for.
    Close(Refusal),
}

/// Why a request is not answered and its connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// Not even a header.
    #[error("the frame holds no request header")]
    NoHeader,
    /// Not in the table.
    #[error("request {key} version {version} is not served")]
    NotServed {
        /// Its key.
        key: i16,
        /// Its version.
        version: i16,
    },
    /// The frame does not hold what it claims.
    #[error(transparent)]
    Lie(#[from] super::guard::Lie),
    /// The body is not what its key and version say.
    #[error("the body cannot be read: {0}")]
    Body(String),
    /// The response does not fit its version: ours to mend.
    #[error("the answer cannot be written: {0}")]
    Answer(String),
    /// The store has users, and nobody has signed in.
    #[error("{0:?} from a client that has not signed in")]
    SignInWanted(ApiKey),
    /// A mechanism other than PLAIN.
    #[error("a client wants to sign in otherwise than by SASL PLAIN")]
    Mechanism,
    /// The password is wrong, must wait, or could not be looked at now.
    #[error("a sign-in was refused")]
    SignInRefused,
    /// Behind a request that ended the connection.
    #[error("the connection is signed out")]
    SignedOut,
    /// Dropped, or its password changed, since it signed in.
    #[error("the user that signed in is no more, or has another password")]
    UserEnded,
    /// KIP-368.
    #[error("the sign-in is too old, and was not done again")]
    SessionOver,
    /// A produce without acknowledgement failed; closing makes the client look again (as Kafka does).
    #[error("a produce with acks=0 failed")]
    Unacknowledged,
}

/// A response begun: room for the length, and the header.
pub(crate) fn begin(api: &Api, version: i16, correlation: i32, capacity: usize) -> BytesMut {
    let mut out = BytesMut::with_capacity(capacity.max(64));
    out.put_i32(0);
    out.put_i32(correlation);
    if api.response_header(version) >= 1 {
        out.put_u8(0);
    }
    out
}

/// Writes the length in front; `more` bytes follow outside the buffer.
pub(crate) fn finish(out: &mut BytesMut, more: usize) -> Result<(), Refusal> {
    let len = i32::try_from(out.len() - 4 + more).map_err(|e| Refusal::Answer(e.to_string()))?;
    out[..4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

/// A framed response.
pub(crate) fn encode<T: Encodable>(
    api: &Api,
    version: i16,
    correlation: i32,
    response: &T,
) -> Result<BytesMut, Refusal> {
    let mut out = begin(api, version, correlation, 512);
    response
        .encode(&mut out, version)
        .map_err(|e| Refusal::Answer(e.to_string()))?;
    finish(&mut out, 0)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::table::TABLE;
    use kafka_protocol::messages::ResponseHeader;

    #[test]
    fn the_header_is_the_codecs() {
        for api in TABLE {
            for version in api.decoded_from..=api.max {
                let mut expected = BytesMut::new();
                ResponseHeader::default()
                    .with_correlation_id(77)
                    .encode(&mut expected, api.key.response_header_version(version))
                    .unwrap();
                assert_eq!(begin(api, version, 77, 0)[4..], expected[..]);
            }
        }
    }
}
