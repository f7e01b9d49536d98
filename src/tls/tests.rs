//! The room over real sockets and files.

use super::*;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

fn issued(nodes: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let nodes: Vec<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
    issue::issue(dir.path(), &nodes, false).unwrap();
    dir
}

fn open(dir: &Path, node: &str) -> Result<Tls, CertificateError> {
    Tls::open(&dir.join(format!("{node}.pem")), &dir.join(format!("{node}.key")))
}

fn client(dir: &Path, versions: &[&'static SupportedProtocolVersion]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let authority = dir.join("ca.pem");
    for der in certificates::chain(&authority, &fs::read(&authority).unwrap()).unwrap() {
        roots.add(der).unwrap();
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// Opens one connection through `door` while `client` uses its other end.
async fn meet<F: Future>(door: &Door, client: impl FnOnce(TcpStream) -> F) -> (Result<Stream, Unwelcome>, F::Output) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = async {
        let (stream, _) = listener.accept().await.unwrap();
        door.open(stream).await
    };
    let asked = async { client(TcpStream::connect(address).await.unwrap()).await };
    tokio::join!(served, asked)
}

/// The certificate a client is shown for `name`.
async fn shown(door: &Door, dir: &Path, name: &'static str) -> io::Result<Vec<u8>> {
    let connector = client(dir, &[&version::TLS13]);
    let name = ServerName::try_from(name).unwrap();
    let (served, shown) = meet(door, |stream| async move {
        let stream = connector.connect(name, stream).await?;
        Ok(stream.get_ref().1.peer_certificates().unwrap()[0].to_vec())
    })
    .await;
    if shown.is_ok() {
        assert!(matches!(served, Ok(Stream::Right(_))));
    }
    shown
}

#[tokio::test]
async fn a_node_is_known_by_its_name_localhost_and_its_addresses() {
    let dir = issued(&["one.example", "two"]);
    let tls = open(dir.path(), "one.example").unwrap();
    let door = tls.door(None).unwrap();
    for name in ["one.example", "localhost", "127.0.0.1", "::1"] {
        shown(&door, dir.path(), name).await.unwrap();
    }
    assert!(shown(&door, dir.path(), "two").await.is_err());
    let stranger = issued(&["one.example"]);
    assert!(shown(&door, stranger.path(), "localhost").await.is_err());
}

#[tokio::test]
async fn what_does_not_begin_as_tls_is_told_apart() {
    let dir = issued(&["n"]);
    let door = open(dir.path(), "n").unwrap().door(None).unwrap();
    for plain in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0, 0, 20, 0, 18], b"*1\r\n"] {
        let (served, _client) = meet(&door, |mut stream| async move {
            stream.write_all(plain).await.unwrap();
            stream
        })
        .await;
        match served {
            Err(Unwelcome::PlainText(mut stream)) => {
                let mut read = vec![0; plain.len()];
                stream.read_exact(&mut read).await.unwrap();
                assert_eq!(read, plain, "nothing was taken from it");
            }
            other => panic!("{:?}", other.err()),
        }
    }
    let (served, ()) = meet(&door, |stream| async move { drop(stream) }).await;
    assert!(matches!(served, Err(Unwelcome::Gone)));
    let (served, _client) = meet(&door, |mut stream| async move {
        stream.write_all(&[22, 3, 1, 0, 5, 9, 9, 9, 9, 9]).await.unwrap();
        stream
    })
    .await;
    assert!(matches!(served, Err(Unwelcome::Handshake(_))));
    let (served, _) = meet(&Door::plain(), |stream| async move { stream }).await;
    assert!(matches!(served, Ok(Stream::Left(_))));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_ends_its_handshake_is_given_up() {
    let dir = issued(&["n"]);
    let door = open(dir.path(), "n").unwrap().door(None).unwrap();
    let (served, _client) = meet(&door, |stream| async move { stream }).await;
    assert!(matches!(served, Err(Unwelcome::Slow)));
}

#[tokio::test]
async fn a_changed_pair_is_taken_and_a_broken_one_is_not() {
    let dir = issued(&["a", "b"]);
    let (pem, key) = (dir.path().join("n.pem"), dir.path().join("n.key"));
    let copy = |from: &str, what: &PathBuf| {
        let from = dir.path().join(from).with_extension(what.extension().unwrap());
        fs::copy(from, what).unwrap();
    };
    copy("a", &pem);
    copy("a", &key);
    let tls = Tls::open(&pem, &key).unwrap();
    tls.watching.abort();
    let door = tls.door(None).unwrap();
    let der = |node: &str| {
        let path = dir.path().join(node).with_extension("pem");
        certificates::chain(&path, &fs::read(&path).unwrap()).unwrap()[0].to_vec()
    };
    assert_eq!(shown(&door, dir.path(), "localhost").await.unwrap(), der("a"));

    // Half replaced: not told at the first look, told at the second, and once only.
    copy("b", &pem);
    tls.certificates.look(false);
    assert_eq!(tls.reloads(), (0, 0));
    for _ in 0..3 {
        tls.certificates.look(false);
        assert_eq!(tls.reloads(), (0, 1));
    }
    assert_eq!(shown(&door, dir.path(), "localhost").await.unwrap(), der("a"));
    copy("b", &key);
    tls.certificates.look(false);
    assert_eq!(tls.reloads(), (1, 1));
    assert_eq!(shown(&door, dir.path(), "localhost").await.unwrap(), der("b"));

    // Gone, judged at once where asked; back again; broken anew, which is a change.
    for told in [2, 3] {
        fs::write(&key, "").unwrap();
        tls.certificates.look(true);
        assert_eq!(tls.reloads(), (1, told));
        copy("b", &key);
        tls.certificates.look(true);
        assert_eq!(tls.reloads(), (1, told));
    }
}

#[tokio::test]
async fn a_pair_that_does_not_match_is_refused_at_the_start() {
    let dir = issued(&["a", "b"]);
    let at = |name: &str| dir.path().join(name);
    let refused = |pem: &str, key: &str| Tls::open(&at(pem), &at(key)).err().unwrap();
    assert!(matches!(refused("a.pem", "b.key"), CertificateError::Mismatch { .. }));
    assert!(matches!(refused("a.key", "a.key"), CertificateError::NoCertificate(_)));
    assert!(matches!(refused("a.pem", "a.pem"), CertificateError::NoKey(_)));
    assert!(matches!(refused("c.pem", "a.key"), CertificateError::Read { .. }));
    fs::write(at("large"), vec![b'x'; MAX_FILE as usize + 1]).unwrap();
    assert!(matches!(refused("large", "a.key"), CertificateError::TooLarge(_)));
}

#[test]
fn an_authority_that_is_there_is_used_again_and_keys_are_private() {
    let dir = issued(&["a"]);
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    let (authority, first) = (read("ca.pem"), read("a.pem"));
    let written = issue::issue(dir.path(), &["a".to_owned(), "10.0.0.7".to_owned()], true).unwrap();
    assert_eq!(written.len(), 4);
    assert_eq!(read("ca.pem"), authority);
    assert_ne!(read("a.pem"), first);
    for key in ["ca.key", "a.key", "10.0.0.7.key"] {
        let mode = fs::metadata(dir.path().join(key)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
}

/// A second run with one name more made new keys for the nodes that were running with theirs.
#[test]
fn keys_that_are_there_are_not_written_over_unasked() {
    let dir = issued(&["a"]);
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    let (key, certificate) = (read("a.key"), read("a.pem"));
    let both = ["b".to_owned(), "a".to_owned()];
    let refused = issue::issue(dir.path(), &both, false).unwrap_err();
    assert!(matches!(refused, issue::IssueError::There(_)), "{refused}");
    assert!(refused.to_string().contains("--renew"), "{refused}");
    assert_eq!((read("a.key"), read("a.pem")), (key.clone(), certificate));
    assert!(!dir.path().join("b.key").exists(), "nothing is written by halves");
    // A certificate alone, as where keys are kept elsewhere, is somebody's, too.
    fs::remove_file(dir.path().join("a.key")).unwrap();
    issue::issue(dir.path(), &both, false).unwrap_err();
    issue::issue(dir.path(), &both, true).unwrap();
    assert_ne!(read("a.key"), key);
}

#[test]
fn wrong_names_and_foreign_authorities_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["", "a/b", "..", "ca", "CA", "a b", "-"] {
        assert!(issue::issue(dir.path(), &[name.to_owned()], false).is_err(), "{name:?}");
    }
    let (one, other) = (issued(&[]), issued(&[]));
    fs::copy(one.path().join("ca.key"), other.path().join("ca.key")).unwrap();
    let refused = issue::issue(other.path(), &["a".to_owned()], false).unwrap_err();
    assert!(matches!(refused, issue::IssueError::Foreign { .. }), "{refused}");
    fs::remove_file(other.path().join("ca.key")).unwrap();
    let refused = issue::issue(other.path(), &["a".to_owned()], false).unwrap_err();
    assert!(matches!(refused, issue::IssueError::Half { .. }), "{refused}");
}
