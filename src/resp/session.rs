//! The commands about the connection itself: who it is, how it is spoken to, what there is.

use super::call::{Call, Session};
use super::decode::Command;
use super::errors::{Refusal, Word};
use super::keys::shown;
use super::number::integer;
use super::reply::{Protocol, Reply};
use super::table::{Does, Row, TABLE, find};
use crate::auth::{self, SignInError, Who};
use std::time::Duration;

/// The version of Redis whose commands these follow, for clients that ask.
const REDIS_VERSION: &str = "7.2.0";
/// How long a refused sign-in waits for its answer: whoever guesses waits for each.
const REFUSAL_PAUSE: Duration = Duration::from_millis(100);
/// Bytes a client's name may have.
const MAX_NAME: usize = 256;

/// AUTH user password.
pub(crate) async fn sign_in(call: &Call<'_>, command: &Command) -> Result<Reply, Refusal> {
    match (command.get(1), command.get(2)) {
        (Some(user), Some(password)) => authenticate(call, user, password).await,
        _ => Err(Refusal::wrong(
            "AUTH takes a user and a password: there is no default user whose password could be meant",
        )),
    }?;
    Ok(Reply::Simple("OK"))
}

async fn authenticate(call: &Call<'_>, user: &[u8], password: &[u8]) -> Result<(), Refusal> {
    let (shared, peer) = (call.shared, call.peer);
    if shared.is_open() {
        // Nobody to ask; who signs in is as anonymous as who does not.
        return Ok(());
    }
    let signed_in = match std::str::from_utf8(user) {
        Ok(user) => shared.auth.sign_in(user, password, &peer.origin()).await,
        // No user has such a name.
        Err(_) => Err(SignInError::Refused),
    };
    match signed_in {
        Ok(principal) => {
            let before = peer.who();
            peer.is_now(Who::User(principal));
            // Dropped in between, it would not be told of any more.
            if auth::standing(&shared.view(), &peer.who()).is_err() {
                peer.is_now(before);
                return Err(SignInError::Refused.into());
            }
            Ok(())
        }
        Err(error) => {
            tokio::select! {
                () = tokio::time::sleep(REFUSAL_PAUSE) => {}
                () = shared.stopping.cancelled() => {}
            }
            Err(error.into())
        }
    }
}

/// HELLO [version [AUTH user password] [SETNAME name]].
pub(crate) async fn hello(call: &Call<'_>, session: &mut Session, command: &Command) -> Result<Reply, Refusal> {
    let protocol = match command.get(1) {
        None => session.protocol,
        Some(version) => match integer(version) {
            Some(2) => Protocol::Two,
            Some(3) => Protocol::Three,
            Some(_) => return Err(Refusal::new(Word::NoProto, "unsupported protocol version")),
            None => return Err(Refusal::wrong("Protocol version is not an integer or out of range")),
        },
    };
    let (mut credentials, mut name) = (None, None);
    let mut at = 2;
    while let Some(option) = command.get(at) {
        match (
            option.to_ascii_lowercase().as_slice(),
            command.get(at + 1),
            command.get(at + 2),
        ) {
            (b"auth", Some(user), Some(password)) => {
                credentials = Some((user, password));
                at += 3;
            }
            (b"setname", Some(given), _) => {
                name = Some(client_name(given)?);
                at += 2;
            }
            // The option may be half of a password.
            _ => return Err(Refusal::wrong("syntax error in HELLO")),
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(call, user, password).await?;
    }
    if auth::standing(&call.shared.view(), &call.peer.who()).is_err() {
        let why = "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> \
                   <pass> option can be used to authenticate the client and select the RESP protocol version at the \
                   same time";
        return Err(Refusal::new(Word::NoAuth, why));
    }
    session.protocol = protocol;
    if let Some(name) = name {
        session.name = name;
    }
    let facts = [
        ("server", Reply::text("tessaridb")),
        ("version", Reply::text(REDIS_VERSION)),
        ("proto", Reply::Int(if protocol == Protocol::Two { 2 } else { 3 })),
        ("id", number(session)),
        ("mode", Reply::text("standalone")),
        ("role", Reply::text("master")),
        ("modules", Reply::Array(Vec::new())),
    ];
    Ok(Reply::Map(facts.map(|(name, value)| (Reply::text(name), value)).into()))
}

/// RESET: as the connection was when it began.
pub(crate) fn reset(call: &Call<'_>, session: &mut Session) -> Reply {
    call.peer.is_now(Who::Anonymous);
    session.protocol = Protocol::Two;
    session.name.clear();
    Reply::Simple("RESET")
}

/// PING [text].
pub(crate) fn ping(command: &Command) -> Reply {
    match command.get(1) {
        None => Reply::Simple("PONG"),
        Some(text) => Reply::Bulk(text.to_vec().into()),
    }
}

/// SELECT 0: there is one database of Redis' kind.
pub(crate) fn select(command: &Command) -> Result<Reply, Refusal> {
    match command.get(1) {
        Some(b"0") => Ok(Reply::Simple("OK")),
        _ => Err(Refusal::wrong("DB index is out of range: there is 0 alone")),
    }
}

fn number(session: &Session) -> Reply {
    Reply::Int(i64::try_from(session.number).unwrap_or(i64::MAX))
}

/// Whether it has no spaces, newlines or special characters.
fn is_plain(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

fn client_name(name: &[u8]) -> Result<String, Refusal> {
    match std::str::from_utf8(name) {
        Ok(text) if name.len() <= MAX_NAME && is_plain(name) => Ok(text.to_owned()),
        _ => Err(Refusal::wrong(
            "Client names cannot contain spaces, newlines or special characters.",
        )),
    }
}

/// CLIENT ID, GETNAME, SETNAME, SETINFO, INFO.
pub(crate) fn client(call: &Call<'_>, session: &mut Session, command: &Command) -> Result<Reply, Refusal> {
    let subcommand = command.get(1).unwrap_or_default();
    match (subcommand.to_ascii_lowercase().as_slice(), command.len()) {
        (b"id", 2) => Ok(number(session)),
        (b"getname", 2) => Ok(match session.name.as_str() {
            "" => Reply::Null,
            name => Reply::text(name),
        }),
        (b"setname", 3) => {
            session.name = client_name(command.get(2).unwrap_or_default())?;
            Ok(Reply::Simple("OK"))
        }
        // What a library calls itself is taken, and not kept.
        (b"setinfo", 4) => match command.get(2).unwrap_or_default().to_ascii_lowercase().as_slice() {
            option @ (b"lib-name" | b"lib-ver") if !is_plain(command.get(3).unwrap_or_default()) => {
                let option = String::from_utf8_lossy(option);
                Err(Refusal::wrong(format!(
                    "{option} cannot contain spaces, newlines or special characters."
                )))
            }
            b"lib-name" | b"lib-ver" => Ok(Reply::Simple("OK")),
            _ => Err(Refusal::wrong("Unrecognized option; LIB-NAME and LIB-VER are taken")),
        },
        (b"info", 2) => {
            let user = match call.peer.who() {
                Who::User(user) => user.name.to_string(),
                Who::Anonymous | Who::Folder => "default".to_owned(),
            };
            let version = if session.protocol == Protocol::Two { 2 } else { 3 };
            Ok(Reply::text(format!(
                "id={} addr={} name={} db=0 user={user} resp={version}\n",
                session.number, call.peer.remote, session.name
            )))
        }
        _ => Err(unknown_subcommand("CLIENT", subcommand)),
    }
}

pub(crate) fn unknown_subcommand(of: &str, subcommand: &[u8]) -> Refusal {
    let shown = shown(subcommand);
    Refusal::wrong(format!(
        "unknown subcommand or wrong number of arguments for '{shown}' of {of}"
    ))
}

/// INFO [section ..]: about the server; other sections are empty.
pub(crate) fn info(call: &Call<'_>, command: &Command) -> Reply {
    let asked = |section: &[u8]| {
        let known: [&[u8]; 4] = [b"server", b"default", b"all", b"everything"];
        known.iter().any(|known| section.eq_ignore_ascii_case(known))
    };
    if command.len() > 1 && !command.from(1).any(asked) {
        return Reply::text("");
    }
    let store = call.shared.view().store().unwrap_or_default();
    Reply::text(format!(
        "# Server\r\nserver_name:tessaridb\r\ntessaridb_version:{}\r\nredis_version:{REDIS_VERSION}\r\n\
         redis_mode:standalone\r\nos:{}\r\narch_bits:{}\r\nprocess_id:{}\r\nrun_id:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        usize::BITS,
        std::process::id(),
        store.simple(),
    ))
}

/// COMMAND, COMMAND COUNT, LIST, INFO; COMMAND DOCS has nothing to tell.
pub(crate) fn command(command: &Command) -> Result<Reply, Refusal> {
    let done = || TABLE.iter().filter(|row| !matches!(row.does, Does::Refused(_)));
    let Some(subcommand) = command.get(1) else {
        return Ok(Reply::Array(done().map(described).collect()));
    };
    match (subcommand.to_ascii_lowercase().as_slice(), command.len()) {
        (b"count", 2) => Ok(Reply::Int(done().count() as i64)),
        (b"list", 2) => Ok(Reply::Array(done().map(|row| Reply::text(row.name)).collect())),
        (b"docs", _) => Ok(Reply::Map(Vec::new())),
        (b"info", 2) => Ok(Reply::Array(done().map(described).collect())),
        (b"info", _) => {
            let known = |name| find(name).filter(|(_, row)| !matches!(row.does, Does::Refused(_)));
            let told = command
                .from(2)
                .map(|name| known(name).map_or(Reply::NullArray, |(_, row)| described(row)));
            Ok(Reply::Array(told.collect()))
        }
        _ => Err(unknown_subcommand("COMMAND", subcommand)),
    }
}

fn described(row: &Row) -> Reply {
    let least = i64::try_from(row.least).unwrap_or(i64::MAX);
    let arity = if row.least == row.most { least } else { -least };
    let (first, last, step) = row.keys;
    Reply::Array(vec![
        Reply::text(row.name),
        Reply::Int(arity),
        Reply::Array(row.flags.iter().copied().map(Reply::Simple).collect()),
        Reply::Int(first),
        Reply::Int(last),
        Reply::Int(step),
    ])
}
