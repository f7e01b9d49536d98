//! Scripts on a local store and over HTTP, against an engine that tells what it was given.

use super::*;
use crate::auth::{Auth, AuthConfig, Caller, Origin, Surface, Who};
use crate::http::{Limits, Server};
use crate::ql::exec::{Outcome, Scripts};
use crate::ql::{Error, ErrorKind, parse_bytes};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Answers each INFO with its source, and refuses DROP TOPIC.
#[derive(Default)]
struct Fake {
    scripts: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl Scripts for Fake {
    async fn execute(&self, _: Caller, script: Bytes, parameters: Parameters) -> Result<Vec<Outcome>, Error> {
        self.scripts.lock().push(String::from_utf8_lossy(&script).into_owned());
        let answer = |located: ql::ast::Located| match located.statement {
            Statement::Info(_) => Ok(Outcome::Value(located.statement.to_string().into())),
            Statement::DropTopic(name) => Err(ErrorKind::NotATopic(name).at(located.span)),
            _ => Ok(Outcome::Done),
        };
        parse_bytes(&script, &parameters)?.into_iter().map(answer).collect()
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

/// A store without users.
fn open_store() -> Arc<Auth> {
    let runtime = runtime();
    let (_host, catalog) = runtime.block_on(crate::auth::tests::catalog());
    Arc::new(Auth::new(catalog, AuthConfig::default()))
}

/// Both kinds of store over one engine.
fn stores(runtime: &Runtime, fake: &Arc<Fake>, stop: &CancellationToken) -> [Store; 2] {
    let auth = open_store();
    let (_, ready) = tokio::sync::watch::channel(true);
    let server = Server::new(fake.clone(), auth, ready, Vec::new(), Limits::default());
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    runtime.spawn(server.serve(listener, stop.clone()));
    let local = Store::Local {
        scripts: fake.clone(),
        caller: Caller {
            who: Who::Folder,
            origin: Origin {
                surface: Surface::Shell,
                remote: None,
            },
        },
        runtime: runtime.handle().clone(),
    };
    [local, Store::Remote(Remote::new(address))]
}

fn run(shell: &mut Shell, script: &str) -> (Ending, String, String) {
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let ending = shell.once(script, &mut out, &mut errors);
    (
        ending,
        String::from_utf8(out).unwrap(),
        String::from_utf8(errors).unwrap(),
    )
}

#[test]
fn a_local_store_and_a_node_answer_alike() {
    let (runtime, fake, stop) = (runtime(), Arc::default(), CancellationToken::new());
    for store in stores(&runtime, &fake, &stop) {
        let mut shell = Shell::new(store, [("g".to_owned(), "'a b'".to_owned())]);
        let (ending, out, _) = run(&mut shell, "INFO FOR GROUP $g; USE NAMESPACE n; INFO FOR NODE");
        assert_eq!(
            (ending, out.as_str()),
            (Ending::Done, "'INFO FOR GROUP \\'a b\\''\n'INFO FOR NODE'\n")
        );
        let (ending, out, errors) = run(&mut shell, "DROP TOPIC é");
        assert_eq!((ending, out.as_str()), (Ending::Failed, ""));
        assert_eq!(errors, "TessariQL was expected, not 'é' (at 11..13)\n");
        let (ending, _, errors) = run(&mut shell, "INFO FOR NODE; DROP TOPIC t;");
        assert_eq!(
            (ending, errors.as_str()),
            (Ending::Failed, "t is not a topic (at 15..27)\n")
        );
    }
    stop.cancel();
}

#[test]
fn what_use_selected_lasts_until_it_is_dropped() {
    let (runtime, fake, stop) = (runtime(), Arc::<Fake>::default(), CancellationToken::new());
    let [local, _] = stores(&runtime, &fake, &stop);
    let mut shell = Shell::new(local, []);
    for (script, sent_next) in [
        ("USE NAMESPACE a", "USE NAMESPACE a; "),
        ("USE DATABASE d;", "USE NAMESPACE a DATABASE d; "),
        ("USE NAMESPACE broken broken", "USE NAMESPACE a DATABASE d; "),
        (
            "DROP DATABASE other; DROP NAMESPACE other",
            "USE NAMESPACE a DATABASE d; ",
        ),
        ("DROP DATABASE d", "USE NAMESPACE a; "),
        ("USE NAMESPACE b DATABASE e", "USE NAMESPACE b DATABASE e; "),
        ("USE NAMESPACE c", "USE NAMESPACE c; "),
        ("DROP NAMESPACE c", ""),
    ] {
        run(&mut shell, script);
        assert_eq!(shell.selected.prefix(), sent_next, "{script}");
    }
    run(&mut shell, "USE NAMESPACE z");
    run(&mut shell, "INFO FOR NODE");
    assert_eq!(fake.scripts.lock().last().unwrap(), "USE NAMESPACE z; INFO FOR NODE");
    stop.cancel();
}

#[test]
fn an_address_without_a_node_is_unusable() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut shell = Shell::new(Store::Remote(Remote::new(free.to_string())), []);
    let (ending, _, errors) = run(&mut shell, "INFO FOR NODE");
    assert_eq!(ending, Ending::Unusable);
    assert!(errors.starts_with(&free.to_string()), "{errors}");
    assert_eq!(ending.status(), 2);
}

#[test]
fn a_wrong_parameter_is_named() {
    let (runtime, fake, stop) = (runtime(), Arc::default(), CancellationToken::new());
    for store in stores(&runtime, &fake, &stop) {
        let mut shell = Shell::new(store, [("n".to_owned(), "3 4".to_owned())]);
        let (ending, _, errors) = run(&mut shell, "INFO FOR NODE");
        assert_eq!(ending, Ending::Failed);
        assert!(errors.starts_with("the parameter $n: "), "{errors}");
    }
    stop.cancel();
}
