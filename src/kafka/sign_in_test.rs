use super::*;
use cluster::ids::UserId;

const OPEN: Result<(), NotStanding> = Ok(());
const STANDS: Result<(), NotStanding> = Ok(());
const WANTED: Result<(), NotStanding> = Err(NotStanding::SignInWanted);
const ENDED: Result<(), NotStanding> = Err(NotStanding::Ended);

fn user(id: u64) -> Who {
    Who::User(Principal {
        name: "billing".into(),
        id: UserId(id),
        credential: 1,
    })
}

fn later(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

fn run(who: Who) -> Result<Admission, Refusal> {
    Ok(Admission::Run(who))
}

/// Signed in where sessions last so many seconds; 0: for ever.
fn signed_in(session: u64) -> SignIn {
    let sign_in = SignIn::new((session > 0).then(|| Duration::from_secs(session)));
    let now = Instant::now();
    assert_eq!(
        sign_in.admit(ApiKey::SaslHandshake, WANTED, now),
        Ok(Admission::Handshake)
    );
    sign_in.agreed(true, now);
    assert_eq!(
        sign_in.admit(ApiKey::SaslAuthenticate, WANTED, now),
        Ok(Admission::Authenticate)
    );
    assert_eq!(sign_in.succeeded(user(1), now), Some(session as i64 * 1000));
    sign_in
}

#[test]
fn before_sign_in_one_api_versions_and_sasl() {
    let now = Instant::now();
    let sign_in = SignIn::new(None);
    assert_eq!(sign_in.admit(ApiKey::ApiVersions, WANTED, now), run(Who::Anonymous));
    assert_eq!(
        sign_in.admit(ApiKey::SaslHandshake, WANTED, now),
        Ok(Admission::Handshake)
    );
    for key in [ApiKey::ApiVersions, ApiKey::Metadata, ApiKey::SaslAuthenticate] {
        let sign_in = SignIn::new(None);
        sign_in.admit(ApiKey::ApiVersions, WANTED, now).unwrap();
        assert_eq!(sign_in.admit(key, WANTED, now), Err(Refusal::SignInWanted(key)));
        // What follows in the same pipeline is not looked at either.
        assert_eq!(
            sign_in.admit(ApiKey::SaslHandshake, WANTED, now),
            Err(Refusal::SignedOut)
        );
    }
}

#[test]
fn an_open_store_asks_nobody_and_takes_whoever_signs_in() {
    let now = Instant::now();
    let sign_in = SignIn::new(None);
    assert_eq!(sign_in.admit(ApiKey::Metadata, OPEN, now), run(Who::Anonymous));
    assert_eq!(
        sign_in.admit(ApiKey::SaslAuthenticate, OPEN, now),
        Ok(Admission::IllegalState)
    );
    assert_eq!(
        sign_in.admit(ApiKey::SaslHandshake, OPEN, now),
        Ok(Admission::Handshake)
    );
    sign_in.agreed(true, now);
    assert_eq!(
        sign_in.admit(ApiKey::SaslAuthenticate, OPEN, now),
        Ok(Admission::Authenticate)
    );
    assert_eq!(sign_in.succeeded(Who::Anonymous, now), Some(0));
    assert_eq!(sign_in.admit(ApiKey::Produce, OPEN, now), run(Who::Anonymous));
    // The first user is declared.
    assert_eq!(
        sign_in.admit(ApiKey::Produce, WANTED, now),
        Err(Refusal::SignInWanted(ApiKey::Produce))
    );
}

#[test]
fn a_token_of_its_own_is_awaited_after_a_handshake_of_version_0_only() {
    let now = Instant::now();
    let sign_in = SignIn::new(None);
    assert!(!sign_in.awaits_token());
    sign_in.agreed(false, now);
    assert!(sign_in.awaits_token());
    sign_in.succeeded(user(1), now).unwrap();
    assert!(!sign_in.awaits_token());
    sign_in.agreed(true, now);
    assert!(!sign_in.awaits_token());
}

#[test]
fn within_the_exchange_only_the_token_goes_on() {
    let now = Instant::now();
    for (key, expected) in [
        (ApiKey::ApiVersions, Ok(Admission::IllegalStateAndClose)),
        (ApiKey::SaslHandshake, Ok(Admission::IllegalStateAndClose)),
        (ApiKey::Produce, Err(Refusal::SignInWanted(ApiKey::Produce))),
    ] {
        for standing in [WANTED, OPEN] {
            let sign_in = SignIn::new(None);
            sign_in.agreed(true, now);
            assert_eq!(sign_in.admit(key, standing, now), expected);
            assert_eq!(
                sign_in.admit(ApiKey::SaslAuthenticate, standing, now),
                Err(Refusal::SignedOut)
            );
        }
    }
    // A token in a request where a bare one is due.
    let sign_in = SignIn::new(None);
    sign_in.agreed(false, now);
    assert!(sign_in.admit(ApiKey::SaslAuthenticate, WANTED, now).is_err());
}

#[test]
fn without_an_end_of_sessions_nobody_signs_in_again() {
    let sign_in = signed_in(0);
    for key in [ApiKey::SaslHandshake, ApiKey::SaslAuthenticate] {
        assert_eq!(sign_in.admit(key, STANDS, later(100)), Ok(Admission::IllegalState));
    }
    assert_eq!(sign_in.admit(ApiKey::Fetch, STANDS, later(100_000)), run(user(1)));
}

#[test]
fn a_session_ends_unless_the_same_user_signs_in_again() {
    let sign_in = signed_in(10);
    assert_eq!(sign_in.admit(ApiKey::Fetch, STANDS, later(9)), run(user(1)));
    // Not in the same second.
    assert_eq!(
        sign_in.admit(ApiKey::SaslHandshake, STANDS, Instant::now()),
        Ok(Admission::IllegalState)
    );
    // Late, but it asks for nothing else.
    assert_eq!(
        sign_in.admit(ApiKey::SaslHandshake, STANDS, later(11)),
        Ok(Admission::Handshake)
    );
    sign_in.agreed(true, later(11));
    assert_eq!(sign_in.who(), user(1));
    assert_eq!(sign_in.succeeded(user(1), later(11)), Some(10_000));
    assert_eq!(sign_in.admit(ApiKey::Fetch, STANDS, later(20)), run(user(1)));
    assert_eq!(
        sign_in.admit(ApiKey::Fetch, STANDS, later(22)),
        Err(Refusal::SessionOver)
    );
    assert_eq!(
        sign_in.admit(ApiKey::SaslHandshake, STANDS, later(22)),
        Err(Refusal::SignedOut)
    );
}

#[test]
fn a_connection_stays_with_its_user() {
    for other in [user(2), Who::Anonymous] {
        let sign_in = signed_in(10);
        sign_in.agreed(true, later(5));
        assert_eq!(sign_in.succeeded(other, later(5)), None);
        assert_eq!(sign_in.who(), Who::Anonymous);
        assert_eq!(sign_in.admit(ApiKey::Fetch, WANTED, later(5)), Err(Refusal::SignedOut));
    }
}

#[test]
fn a_user_that_is_no_more_ends_its_connections() {
    for key in [ApiKey::ApiVersions, ApiKey::SaslHandshake, ApiKey::Fetch] {
        let sign_in = signed_in(10);
        assert_eq!(sign_in.admit(key, ENDED, later(5)), Err(Refusal::UserEnded));
        assert!(!sign_in.is_user());
    }
}
