//! A Kafka client of raw bytes: frames over a socket, bodies by the codec.

use crate::process::{Encrypted, PATIENCE};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiKey, RequestHeader, ResponseHeader, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    SaslHandshakeResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// One connection.
pub struct Wire {
    stream: Box<dyn Stream>,
    next: i32,
}

trait Stream: Read + Write + Send {}

impl Stream for TcpStream {}

impl Stream for Encrypted {}

impl Wire {
    /// Connects to a port of this machine.
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the node listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("timeout");
        stream.set_nodelay(true).expect("nodelay");
        Self {
            stream: Box::new(stream),
            next: 1,
        }
    }

    /// Goes on with a connection under TLS.
    pub fn over(stream: Encrypted) -> Self {
        Self {
            stream: Box::new(stream),
            next: 1,
        }
    }

    /// Sends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the node takes bytes");
        self.stream.flush().expect("the node takes bytes");
    }

    /// Sends bytes with their length in front.
    pub fn frame(&mut self, content: &[u8]) {
        let mut framed = BytesMut::with_capacity(content.len() + 4);
        framed.put_i32(content.len() as i32);
        framed.put_slice(content);
        self.raw(&framed);
    }

    /// Sends a request and gives its correlation id.
    pub fn send<Q: Encodable>(&mut self, key: ApiKey, version: i16, request: &Q) -> i32 {
        let correlation = self.next;
        self.next += 1;
        let mut out = BytesMut::new();
        RequestHeader::default()
            .with_request_api_key(key as i16)
            .with_request_api_version(version)
            .with_correlation_id(correlation)
            .with_client_id(Some(StrBytes::from_static_str("wire")))
            .encode(&mut out, key.request_header_version(version))
            .expect("a header");
        request.encode(&mut out, version).expect("a request");
        self.frame(&out);
        correlation
    }

    /// The next frame's content; `None`: the node closed the connection.
    pub fn next(&mut self) -> Option<Bytes> {
        let mut length = [0; 4];
        self.fill(&mut length)?;
        let mut content = vec![0; i32::from_be_bytes(length) as usize];
        self.fill(&mut content).expect("a whole frame");
        Some(content.into())
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(buffer) {
            Ok(()) => Some(()),
            Err(e) if matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => None,
            Err(e) => panic!("no answer in time: {e}"),
        }
    }

    /// Whether the node closed the connection without a further answer.
    pub fn is_closed(&mut self) -> bool {
        self.next().is_none()
    }

    /// The next answer, which must be to `correlation` and hold nothing else.
    pub fn receive<R: Decodable>(&mut self, key: ApiKey, version: i16, correlation: i32) -> R {
        let answer = self.receive_or_close(key, version, correlation);
        answer.unwrap_or_else(|| panic!("{key:?} v{version}: closed"))
    }

    /// As [`Wire::receive`]; `None`: the node closed the connection instead.
    pub fn receive_or_close<R: Decodable>(&mut self, key: ApiKey, version: i16, correlation: i32) -> Option<R> {
        let mut content = self.next()?;
        assert_eq!(content.clone().get_i32(), correlation, "answers come in order");
        ResponseHeader::decode(&mut content, key.response_header_version(version)).expect("a header");
        let response = R::decode(&mut content, version).unwrap_or_else(|e| panic!("{key:?} v{version}: {e}"));
        assert!(content.is_empty(), "{key:?} v{version}: {} bytes left", content.len());
        Some(response)
    }

    /// Asks and waits for the answer.
    pub fn call<Q: Encodable, R: Decodable>(&mut self, key: ApiKey, version: i16, request: &Q) -> R {
        let correlation = self.send(key, version, request);
        self.receive(key, version, correlation)
    }

    /// As [`Wire::call`]; `None`: the node closed the connection instead of answering.
    pub fn ask<Q: Encodable, R: Decodable>(&mut self, key: ApiKey, version: i16, request: &Q) -> Option<R> {
        let correlation = self.send(key, version, request);
        self.receive_or_close(key, version, correlation)
    }

    /// Connects and signs in by SASL PLAIN.
    pub fn signed_in(port: u16, user: &str, password: &str) -> Self {
        let mut wire = Self::connect(port);
        let answer = wire.sign_in(user, password);
        assert_eq!((answer.error_code, answer.error_message), (0, None), "{user}");
        wire
    }

    /// Signs in by SASL PLAIN: the answer to the token.
    pub fn sign_in(&mut self, user: &str, password: &str) -> SaslAuthenticateResponse {
        let handshake = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"));
        let agreed: SaslHandshakeResponse = self.call(ApiKey::SaslHandshake, 1, &handshake);
        assert_eq!(agreed.error_code, 0);
        let token = Bytes::from(format!("\0{user}\0{password}"));
        let request = SaslAuthenticateRequest::default().with_auth_bytes(token);
        self.call(ApiKey::SaslAuthenticate, 2, &request)
    }
}
