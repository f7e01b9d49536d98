//! Signing in on the Kafka port, byte by byte.

use crate::process::Process;
use crate::wire::Wire;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use std::time::Duration;

const PASSWORD: &str = "correct horse";

/// A closed store with the user `billing`.
fn node(arguments: &[&str]) -> Process {
    let process = Process::start(arguments);
    process.script(&format!("DEFINE USER owner ROLE owner PASSWORD '{PASSWORD}'"));
    for user in ["billing", "other"] {
        process.script_as(
            "owner",
            PASSWORD,
            &format!("DEFINE USER {user} ROLE viewer PASSWORD '{PASSWORD}'"),
        );
    }
    process
}

pub(crate) fn handshake(wire: &mut Wire, version: i16, mechanism: &str) -> (i16, Vec<String>) {
    let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_string(mechanism.to_owned()));
    let answer: SaslHandshakeResponse = wire.call(ApiKey::SaslHandshake, version, &request);
    let mechanisms = answer.mechanisms.iter().map(|m| m.to_string());
    (answer.error_code, mechanisms.collect())
}

pub(crate) fn token(authorization: &str, name: &str, password: &str) -> Bytes {
    Bytes::from(format!("{authorization}\0{name}\0{password}"))
}

pub(crate) fn authenticate(wire: &mut Wire, version: i16, token: Bytes) -> SaslAuthenticateResponse {
    let request = SaslAuthenticateRequest::default().with_auth_bytes(token);
    wire.call(ApiKey::SaslAuthenticate, version, &request)
}

/// Whether the connection may ask for metadata.
fn is_in(wire: &mut Wire) -> bool {
    let request = MetadataRequest::default().with_topics(None);
    let answer: Option<MetadataResponse> = wire.ask(ApiKey::Metadata, 9, &request);
    answer.is_some()
}

#[test]
fn tokens_come_in_requests_after_a_handshake_of_version_1() {
    let node = node(&[]);
    for version in 0..=2 {
        for authorization in ["", "billing"] {
            let mut wire = Wire::connect(node.kafka);
            assert_eq!(handshake(&mut wire, 1, "PLAIN"), (0, vec!["PLAIN".to_owned()]));
            let answer = authenticate(&mut wire, version, token(authorization, "billing", PASSWORD));
            assert_eq!((answer.error_code, answer.error_message), (0, None));
            assert_eq!((answer.auth_bytes.len(), answer.session_lifetime_ms), (0, 0));
            assert!(is_in(&mut wire));
        }
    }
}

#[test]
fn tokens_come_bare_after_a_handshake_of_version_0() {
    let node = node(&[]);
    let mut wire = Wire::connect(node.kafka);
    assert_eq!(handshake(&mut wire, 0, "PLAIN"), (0, vec!["PLAIN".to_owned()]));
    wire.frame(&token("", "billing", PASSWORD));
    assert_eq!(wire.next().as_deref(), Some(&[][..]));
    assert!(is_in(&mut wire));

    for wrong in [
        token("", "billing", "wrong"),
        token("", "nobody", PASSWORD),
        Bytes::from_static(b"billing"),
    ] {
        let mut wire = Wire::connect(node.kafka);
        handshake(&mut wire, 0, "PLAIN");
        wire.frame(&wrong);
        // There is no form for a refusal.
        assert!(wire.is_closed());
    }
    // A request in place of the token is a token, and a wrong one.
    let mut wire = Wire::connect(node.kafka);
    handshake(&mut wire, 0, "PLAIN");
    wire.send(
        ApiKey::SaslAuthenticate,
        0,
        &SaslAuthenticateRequest::default().with_auth_bytes(token("", "billing", PASSWORD)),
    );
    assert!(wire.is_closed());
}

#[test]
fn another_mechanism_is_told_of_plain_and_closed() {
    let node = node(&[]);
    for version in 0..=1 {
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "plain", ""] {
            let mut wire = Wire::connect(node.kafka);
            assert_eq!(
                handshake(&mut wire, version, mechanism),
                (33, vec!["PLAIN".to_owned()]),
                "{mechanism}"
            );
            assert!(wire.is_closed());
        }
    }
}

#[test]
fn a_refused_token_is_answered_and_closed() {
    let node = node(&[]);
    let mut said = Vec::new();
    for wrong in [
        token("", "billing", "wrong"),
        token("", "nobody_at_all", PASSWORD),
        token("owner", "billing", PASSWORD),
        token("", "billing", ""),
        token("", "", PASSWORD),
        Bytes::from_static(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"),
        Bytes::new(),
    ] {
        for version in [0, 1, 2] {
            if version > 0 && said.len() > 3 {
                break;
            }
            let mut wire = Wire::connect(node.kafka);
            handshake(&mut wire, 1, "PLAIN");
            let answer = authenticate(&mut wire, version, wrong.clone());
            assert_eq!(answer.error_code, 58, "{wrong:?}");
            let why = answer.error_message.expect("a sentence").to_string();
            assert!(!why.contains(PASSWORD) && !why.contains("wrong\0"), "{why}");
            said.push(why);
            assert!(wire.is_closed(), "{wrong:?}");
        }
    }
    let log = node.log();
    assert!(!log.contains(PASSWORD), "{log}");
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_told_alike_and_wait_alike() {
    let node = node(&[]);
    let refuse = |user: &str| {
        let mut wire = Wire::connect(node.kafka);
        let answer = wire.sign_in(user, "wrong");
        assert!(wire.is_closed());
        (answer.error_code, answer.error_message.expect("a sentence").to_string())
    };
    for attempt in 0..3 {
        assert_eq!(refuse("billing"), refuse("nobody_at_all"), "{attempt}");
    }
    // The right password has to wait now as well.
    let mut wire = Wire::connect(node.kafka);
    let answer = wire.sign_in("billing", PASSWORD);
    assert_eq!(answer.error_code, 58);
    let why = answer.error_message.expect("a sentence").to_string();
    assert!(why.contains("later") || why.contains("again"), "{why}");
    assert!(wire.is_closed());
    // Others do not.
    let mut other = Wire::signed_in(node.kafka, "other", PASSWORD);
    assert!(is_in(&mut other));
}

#[test]
fn before_sign_in_only_api_versions_and_sasl_are_answered() {
    let node = node(&[]);
    let versions = ApiVersionsRequest::default();
    // A version that nobody knows is answered as ever, and does not count.
    let mut wire = Wire::connect(node.kafka);
    let mut unknown = BytesMut::new();
    unknown.put_i16(ApiKey::ApiVersions as i16);
    unknown.put_i16(99);
    unknown.put_i32(7);
    unknown.put_i16(-1);
    unknown.put_u8(0);
    wire.frame(&unknown);
    assert!(wire.next().is_some());
    let answer: ApiVersionsResponse = wire.call(ApiKey::ApiVersions, 2, &versions);
    assert_eq!(answer.error_code, 0);
    for key in [ApiKey::SaslHandshake, ApiKey::SaslAuthenticate] {
        assert!(answer.api_keys.iter().any(|k| k.api_key == key as i16));
    }
    // A second one closes, as it does in Kafka.
    let again: Option<ApiVersionsResponse> = wire.ask(ApiKey::ApiVersions, 2, &versions);
    assert!(again.is_none());

    let mut wire = Wire::connect(node.kafka);
    let _: ApiVersionsResponse = wire.call(ApiKey::ApiVersions, 2, &versions);
    let answer = wire.sign_in("billing", PASSWORD);
    assert_eq!(answer.error_code, 0);
    let _: ApiVersionsResponse = wire.call(ApiKey::ApiVersions, 2, &versions);
    assert!(is_in(&mut wire));

    assert!(!is_in(&mut Wire::connect(node.kafka)));
    let mut wire = Wire::connect(node.kafka);
    let early: Option<SaslAuthenticateResponse> = wire.ask(
        ApiKey::SaslAuthenticate,
        2,
        &SaslAuthenticateRequest::default().with_auth_bytes(token("", "billing", PASSWORD)),
    );
    assert!(early.is_none());
}

#[test]
fn frames_are_small_until_one_has_signed_in() {
    let node = node(&[]);
    let mut wire = Wire::connect(node.kafka);
    // The length alone decides.
    wire.raw(&(512i32 * 1024 + 1).to_be_bytes());
    wire.raw(&[0; 8]);
    assert!(wire.is_closed());

    let mut wire = Wire::signed_in(node.kafka, "billing", PASSWORD);
    let topics = (0..40_000).map(|n| {
        let name = StrBytes::from_string(format!("shop.orders.topic_{n}"));
        metadata_request::MetadataRequestTopic::default().with_name(Some(TopicName(name)))
    });
    let request = MetadataRequest::default().with_topics(Some(topics.collect()));
    let answer: MetadataResponse = wire.call(ApiKey::Metadata, 9, &request);
    assert_eq!(answer.topics.len(), 40_000);
}

#[test]
fn inside_the_exchange_other_requests_end_it() {
    let node = node(&[]);
    let mut wire = Wire::connect(node.kafka);
    handshake(&mut wire, 1, "PLAIN");
    let answer: ApiVersionsResponse = wire.call(ApiKey::ApiVersions, 2, &ApiVersionsRequest::default());
    assert_eq!(answer.error_code, 34);
    assert!(wire.is_closed());

    let mut wire = Wire::connect(node.kafka);
    handshake(&mut wire, 1, "PLAIN");
    assert_eq!(handshake(&mut wire, 1, "PLAIN").0, 34);
    assert!(wire.is_closed());

    let mut wire = Wire::connect(node.kafka);
    handshake(&mut wire, 1, "PLAIN");
    assert!(!is_in(&mut wire));
}

#[test]
fn who_is_signed_in_may_not_sign_in_again_where_sessions_do_not_end() {
    let node = node(&[]);
    let mut wire = Wire::signed_in(node.kafka, "billing", PASSWORD);
    assert_eq!(handshake(&mut wire, 1, "PLAIN").0, 34);
    assert_eq!(
        authenticate(&mut wire, 2, token("", "billing", PASSWORD)).error_code,
        34
    );
    assert!(is_in(&mut wire));
}

#[test]
fn requests_sent_behind_a_sign_in_are_judged_after_it() {
    let node = node(&[]);
    for (password, right) in [(PASSWORD, true), ("wrong", false)] {
        let mut wire = Wire::connect(node.kafka);
        let handshake = wire.send(
            ApiKey::SaslHandshake,
            1,
            &SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN")),
        );
        let token = wire.send(
            ApiKey::SaslAuthenticate,
            2,
            &SaslAuthenticateRequest::default().with_auth_bytes(token("", "billing", password)),
        );
        let metadata = MetadataRequest::default().with_topics(None);
        let behind = [(); 3].map(|()| wire.send(ApiKey::Metadata, 9, &metadata));
        let agreed: SaslHandshakeResponse = wire.receive(ApiKey::SaslHandshake, 1, handshake);
        assert_eq!(agreed.error_code, 0);
        if right {
            let answer: SaslAuthenticateResponse = wire.receive(ApiKey::SaslAuthenticate, 2, token);
            assert_eq!(answer.error_code, 0);
            for correlation in behind {
                let _: MetadataResponse = wire.receive(ApiKey::Metadata, 9, correlation);
            }
        } else {
            // Where the kernel drops the refusal because more was sent behind it, the end comes all the same.
            let answer: Option<SaslAuthenticateResponse> = wire.receive_or_close(ApiKey::SaslAuthenticate, 2, token);
            assert!(answer.is_none_or(|a| a.error_code == 58));
            assert!(wire.is_closed());
        }
    }
}

#[test]
fn a_session_that_ends_is_renewed_by_its_own_user_or_closed() {
    let node = node(&["--kafka-session-seconds", "2"]);
    let sign_in = |user: &str| {
        let mut wire = Wire::connect(node.kafka);
        let answer = wire.sign_in(user, PASSWORD);
        assert_eq!((answer.error_code, answer.session_lifetime_ms), (0, 2000));
        wire
    };
    let (mut idle, mut renewed, mut stranger) = (sign_in("billing"), sign_in("billing"), sign_in("billing"));
    let beyond = Duration::from_millis(2100);
    std::thread::sleep(beyond);
    assert!(!is_in(&mut idle));

    assert_eq!(handshake(&mut renewed, 1, "PLAIN").0, 0);
    let answer = authenticate(&mut renewed, 1, token("", "billing", PASSWORD));
    assert_eq!((answer.error_code, answer.session_lifetime_ms), (0, 2000));
    assert!(is_in(&mut renewed));

    assert_eq!(handshake(&mut stranger, 1, "PLAIN").0, 0);
    assert_eq!(
        authenticate(&mut stranger, 1, token("", "other", PASSWORD)).error_code,
        58
    );
    assert!(stranger.is_closed());
}

#[test]
fn an_open_store_takes_whoever_signs_in_and_whoever_does_not() {
    let open = Process::start(&[]);
    let mut wire = Wire::connect(open.kafka);
    assert!(is_in(&mut wire));
    assert_eq!(
        authenticate(&mut wire, 2, token("", "billing", PASSWORD)).error_code,
        34
    );
    assert_eq!(handshake(&mut wire, 1, "PLAIN").0, 0);
    assert_eq!(
        authenticate(&mut wire, 2, token("", "anyone", "anything")).error_code,
        0
    );
    assert!(is_in(&mut wire));
    let mut wire = Wire::connect(open.kafka);
    assert_eq!(handshake(&mut wire, 1, "SCRAM-SHA-256").0, 33);
    assert!(wire.is_closed());
}
