//! SASL PLAIN (RFC 4616): one token, `[authzid] NUL authcid NUL passwd`, all UTF-8.

use std::fmt;

/// A name and a password as a client sent them. Debug tells the name alone.
#[derive(PartialEq, Eq)]
pub(super) struct Plain<'t> {
    /// Who signs in.
    pub name: &'t str,
    /// The password's bytes.
    pub password: &'t [u8],
}

impl fmt::Debug for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why a token is none. The sentences reach the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadToken {
    /// Not two NULs, or no text.
    #[error("the token is not that of SASL PLAIN: [authorization id] NUL name NUL password, in UTF-8")]
    Form,
    /// No name.
    #[error("no user name is given")]
    NoName,
    /// No password. No user has an empty one.
    #[error("no password is given")]
    NoPassword,
    /// A client asks to act as somebody else.
    #[error("the authorization id is another than the user name")]
    OtherIdentity,
}

/// Takes a token apart. An authorization id is empty or the name itself: nobody acts for others.
pub(super) fn parse(token: &[u8]) -> Result<Plain<'_>, BadToken> {
    let mut parts = token.split(|byte| *byte == 0);
    let (Some(as_whom), Some(name), Some(password), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(BadToken::Form);
    };
    let text = |part| std::str::from_utf8(part).map_err(|_| BadToken::Form);
    let (as_whom, name) = (text(as_whom)?, text(name)?);
    text(password)?;
    if name.is_empty() {
        return Err(BadToken::NoName);
    }
    if password.is_empty() {
        return Err(BadToken::NoPassword);
    }
    if !as_whom.is_empty() && as_whom != name {
        return Err(BadToken::OtherIdentity);
    }
    Ok(Plain { name, password })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_has_a_name_and_a_password() {
        let plain = Plain {
            name: "billing",
            password: b"s3cret",
        };
        assert_eq!(parse(b"\0billing\0s3cret"), Ok(plain));
        assert_eq!(parse(b"billing\0billing\0s3cret").map(|p| p.name), Ok("billing"));
        assert_eq!(parse("\0ä\0ö".as_bytes()).map(|p| p.password), Ok("ö".as_bytes()));
        for (token, why) in [
            (&b""[..], BadToken::Form),
            (b"billing", BadToken::Form),
            (b"billing\0s3cret", BadToken::Form),
            (b"\0billing\0s3cret\0", BadToken::Form),
            (b"\0bill\xffing\0s3cret", BadToken::Form),
            (b"\0billing\0s3cr\xffet", BadToken::Form),
            (b"\xff\0billing\0s3cret", BadToken::Form),
            (b"\0\0s3cret", BadToken::NoName),
            (b"\0billing\0", BadToken::NoPassword),
            (b"admin\0billing\0s3cret", BadToken::OtherIdentity),
        ] {
            assert_eq!(parse(token), Err(why), "{token:?}");
        }
    }

    #[test]
    fn debug_keeps_the_password() {
        let told = format!("{:?}", parse(b"\0billing\0s3cret"));
        assert!(told.contains("billing") && !told.contains("s3cret"), "{told}");
    }

    proptest! {
        #[test]
        fn what_is_taken_is_what_was_sent(token in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..40)) {
            if let Ok(plain) = parse(&token) {
                let tail = [b"\0", plain.name.as_bytes(), b"\0", plain.password].concat();
                prop_assert!(token.ends_with(&tail));
                let as_whom = &token[..token.len() - tail.len()];
                prop_assert!(as_whom.is_empty() || as_whom == plain.name.as_bytes());
            }
        }
    }
}
