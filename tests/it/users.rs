//! Users, sign-in over HTTP and from the shell, and what becomes of passwords.

use crate::process::{Process, http, http_get};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// No other text of a test contains these.
const ROOTS: &str = "Zq7-root-xK4w";
const ADAS: &str = "Zq7-ada-pL9m";
const WRONG: &str = "Zq7-wrong-tR2v";

const FIRST: [(&str, &str); 2] = [
    ("TESSARIDB_INITIAL_USER", "root"),
    ("TESSARIDB_INITIAL_PASSWORD", ROOTS),
];

/// `TESSARIDB_PASSWORD=<password> tessaridb <arguments>`: status, standard output, standard error.
fn shell(arguments: &[&str], password: Option<&str>) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessaridb"));
    command.args(arguments).stdin(Stdio::null());
    if let Some(password) = password {
        command.env("TESSARIDB_PASSWORD", password);
    }
    let out = command.output().expect("tessaridb runs");
    (
        out.status.code(),
        String::from_utf8_lossy(&out.stdout).into_owned(),
        String::from_utf8_lossy(&out.stderr).into_owned(),
    )
}

fn at(node: &Process, user: &str, password: &str, script: &str) -> (Option<i32>, String, String) {
    let address = format!("127.0.0.1:{}", node.http);
    shell(&["--at", &address, "--user", user, "-e", script], Some(password))
}

fn done(node: &Process, user: &str, password: &str, script: &str) -> String {
    let (status, out, error) = at(node, user, password, script);
    assert_eq!(status, Some(0), "{script}: {error}");
    out
}

fn refused(node: &Process, user: &str, password: &str, script: &str) -> String {
    let (status, out, error) = at(node, user, password, script);
    assert_eq!((status, out.as_str()), (Some(1), ""), "{script}: {error}");
    error.trim_end().to_owned()
}

/// Every file below a folder that holds the text.
fn holding(dir: &Path, text: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            holding(&path, text, found);
        } else {
            let bytes = std::fs::read(&path).expect("a file");
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
}

#[test]
fn the_first_owner_comes_from_the_environment_and_closes_the_store() {
    let mut node = Process::start_in(&[], &FIRST);
    let (status, body) = node.try_script("INFO FOR STORE;");
    assert_eq!(status, 401, "{body}");
    assert_eq!(http_get(node.http, "/metrics").map(|answer| answer.0), Some(401));
    assert_eq!(http_get(node.http, "/health").map(|answer| answer.0), Some(200));
    assert_eq!(
        done(&node, "root", ROOTS, "INFO FOR USERS;"),
        "[{ name: 'root', role: 'owner' }]\n"
    );
    done(&node, "root", ROOTS, &format!("ALTER USER root SET PASSWORD '{ADAS}';"));
    // A store that has users is left as it is.
    node.kill();
    node.restart();
    assert_eq!(
        refused(&node, "root", ROOTS, "INFO FOR USERS;"),
        "the name or the password is wrong"
    );
    done(&node, "root", ADAS, "INFO FOR USERS;");
}

#[test]
fn half_a_first_owner_or_a_user_without_password_is_one_sentence_and_status_2() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in FIRST {
        let out = Command::new(env!("CARGO_BIN_EXE_tessaridb"))
            .args(["data", "--serve", "127.0.0.1:0"])
            .current_dir(folder.path())
            .env(name, value)
            .output()
            .expect("tessaridb runs");
        let error = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{error}");
        assert_eq!(error.trim_end().lines().count(), 1, "one sentence: {error}");
        assert!(
            error.contains("TESSARIDB_INITIAL_") && !error.contains(ROOTS),
            "{error}"
        );
    }
    assert!(!folder.path().join("data").exists(), "nothing was opened");
    let (status, _, error) = shell(&["--at", "127.0.0.1:1", "--user", "ada", "-e", "INFO FOR STORE"], None);
    assert_eq!(status, Some(2));
    assert!(error.contains("TESSARIDB_PASSWORD"), "{error}");
}

#[test]
fn a_connection_open_before_the_first_user_is_closed_to_nobody_after_it() {
    let node = Process::start(&[]);
    let mut stream = TcpStream::connect(("127.0.0.1", node.http)).unwrap();
    let mut ask = || {
        let script = "INFO FOR STORE";
        let request = format!(
            "POST /script HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{script}",
            script.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let length = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[9..length])
            .split(' ')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(ask(), "200");
    node.script(&format!("DEFINE USER root ROLE owner PASSWORD '{ROOTS}';"));
    assert_eq!(ask(), "401");
}

#[test]
fn wrong_passwords_make_a_name_wait_also_after_a_crash() {
    let mut node = Process::start_in(&[], &FIRST);
    // Long enough a row that its wait outlives the restart, however slow.
    for _ in 0..3 {
        assert_eq!(
            refused(&node, "ada", WRONG, "INFO FOR STORE;"),
            "the name or the password is wrong"
        );
    }
    let waits = |node: &Process| {
        let mut answer = refused(node, "ada", WRONG, "INFO FOR STORE;");
        // A wait that is over by now is followed by a longer one.
        while answer == "the name or the password is wrong" {
            answer = refused(node, "ada", WRONG, "INFO FOR STORE;");
        }
        assert!(
            answer.starts_with("too many wrong passwords; try again in "),
            "{answer}"
        );
    };
    waits(&node);
    node.kill();
    node.restart();
    let fresh = refused(&node, "bob", WRONG, "INFO FOR STORE;");
    assert_eq!(fresh, "the name or the password is wrong", "each name by itself");
    // A fourth wrong one at most, where the wait was over; a name that is not remembered would have three.
    let answers = [(); 2].map(|()| refused(&node, "ada", WRONG, "INFO FOR STORE;"));
    assert!(
        answers
            .iter()
            .any(|answer| answer.starts_with("too many wrong passwords")),
        "{answers:?}"
    );
    done(&node, "root", ROOTS, "INFO FOR STORE;");
}

#[test]
fn whoever_holds_the_folder_needs_no_password_and_a_user_named_there_does() {
    let mut node = Process::start_in(&[], &FIRST);
    done(
        &node,
        "root",
        ROOTS,
        &format!("DEFINE NAMESPACE shop; DEFINE USER ada ON NAMESPACE shop ROLE viewer PASSWORD '{ADAS}';"),
    );
    assert!(node.terminate().success());
    let data = node.data();
    let data = data.to_str().unwrap();
    let (status, out, error) = shell(
        &[data, "-e", "ALTER USER ada SET ROLE editor; INFO FOR USER ada;"],
        None,
    );
    assert_eq!(
        (status, out.as_str()),
        (Some(0), "{ name: 'ada', on: 'shop', role: 'editor' }\n"),
        "{error}"
    );
    let as_ada = |password, script| shell(&[data, "--user", "ada", "-e", script], Some(password));
    let (status, out, error) = as_ada(ADAS, "DEFINE DATABASE d; INFO FOR STORE;");
    assert_eq!(
        (status, out.contains("namespaces: ['shop']")),
        (Some(0), true),
        "{error}"
    );
    let (status, _, error) = as_ada(ADAS, "DEFINE NAMESPACE n;");
    assert_eq!(status, Some(1));
    assert!(error.starts_with("this lies outside what ada may reach"), "{error}");
    let (status, _, error) = as_ada(WRONG, "INFO FOR STORE;");
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("the name or the password is wrong"), "{error}");
}

#[test]
fn passwords_appear_nowhere_and_what_was_done_with_them_does() {
    let mut node = Process::start_in(
        &["--log-format", "json", "--log", "debug,openraft=warn,audit=info"],
        &FIRST,
    );
    let mut told = done(
        &node,
        "root",
        ROOTS,
        &format!(
            "DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders; USE DATABASE orders; DEFINE TOPIC t;
             DEFINE USER ada ON shop.orders ROLE editor PASSWORD '{ADAS}'; GRANT read ON t TO ada; INFO FOR USERS;"
        ),
    );
    for (name, password, script) in [
        ("root", WRONG, "INFO FOR STORE;".to_owned()),
        ("nobody", WRONG, "INFO FOR STORE;".to_owned()),
        ("ada", ADAS, "CREATE t = { a: 1 };".to_owned()),
        ("ada", ADAS, format!("ALTER USER root SET PASSWORD '{WRONG}';")),
        ("root", ROOTS, format!("DEFINE USER ada ROLE owner PASSWORD '{WRONG}';")),
        (
            "root",
            ROOTS,
            format!("DEFINE USER eve ROLE nothing PASSWORD '{WRONG}';"),
        ),
        (
            "root",
            ROOTS,
            format!("DEFINE USER eve ON shop.orders PASSWORD '{WRONG}' ROLE viewer;"),
        ),
        (
            "root",
            ROOTS,
            format!("DEFINE USER eve ROLE viewer PASSHASH '{WRONG}';"),
        ),
        (
            "root",
            ROOTS,
            format!("DEFINE USER eve ROLE viewer PASSWORD '{WRONG}' '{WRONG}';"),
        ),
    ] {
        told += &refused(&node, name, password, &script);
    }
    for request in [
        "POST /session HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\nAuthorization: Basic {}\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Basic {}\r\n\r\n",
    ] {
        // `ada:` and her password.
        let request = request.replace("{}", "YWRhOlpxNy1hZGEtcEw5bQ==");
        let (status, body) = http(node.http, &request).expect("an answer");
        assert_eq!(status, 200, "{body}");
        told += &body;
    }
    assert!(
        told.contains("tessaridb_sign_ins_total{outcome=\"refused\"} 2"),
        "{told}"
    );
    assert!(node.terminate().success());
    let log = node.log();
    for secret in [ROOTS, ADAS, WRONG, "$argon2id", "YWRhOlpxNy1h"] {
        assert!(!told.contains(secret), "{secret} in {told}");
        assert!(!log.contains(secret), "{secret} in {log}");
    }
    for secret in [ROOTS, ADAS, WRONG] {
        let mut found = Vec::new();
        holding(&node.data(), secret, &mut found);
        assert!(found.is_empty(), "{secret} in {found:?}");
    }
    let lines: Vec<serde_json::Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let audit = |fields: &[(&str, &str)]| {
        lines
            .iter()
            .any(|line| line["target"] == "audit" && fields.iter().all(|(name, value)| line["fields"][*name] == *value))
    };
    for expected in [
        &[
            ("event", "change"),
            ("surface", "node"),
            ("what", "DEFINE USER root ROLE owner"),
        ][..],
        &[
            ("event", "sign-in"),
            ("user", "root"),
            ("outcome", "good"),
            ("surface", "http"),
        ],
        &[("event", "sign-in"), ("user", "nobody"), ("outcome", "refused")],
        &[
            ("event", "change"),
            ("user", "root"),
            (
                "what",
                "DEFINE USER ada ON DATABASE shop.orders ROLE editor PASSWORD '********'",
            ),
        ],
        &[
            ("event", "change"),
            ("user", "root"),
            ("what", "GRANT read ON t TO ada IN shop.orders"),
        ],
        &[
            ("event", "refusal"),
            ("user", "ada"),
            ("what", "ada was not granted write on t"),
        ],
    ] {
        assert!(audit(expected), "{expected:?} in {log}");
    }
}
