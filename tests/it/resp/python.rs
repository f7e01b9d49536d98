//! redis-py, unchanged, driven line by line.

use crate::clients::install;
use crate::process::Process;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// redis-py, driven line by line.
pub(super) struct Python {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Python {
    pub(super) fn start(process: &Process, authority: Option<&str>) -> Self {
        let mut child = Command::new(install::python())
            .arg(install::program("streams.py"))
            .arg(process.resp.to_string())
            .args(authority)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python runs");
        Self {
            input: child.stdin.take().expect("piped"),
            output: BufReader::new(child.stdout.take().expect("piped")),
            child,
        }
    }

    pub(super) fn send(&mut self, task: &Value) {
        writeln!(self.input, "{task}").expect("python reads");
    }

    pub(super) fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("python answers");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("an answer: {line:?}"))
    }

    pub(super) fn ask(&mut self, task: &Value) -> Value {
        self.send(task);
        self.answer()
    }

    pub(super) fn connect(&mut self, client: &str, how: Value) -> Value {
        self.ask(&json!({"client": client, "connect": how}))
    }

    /// Calls a method; gives what it returned.
    pub(super) fn ok(&mut self, client: &str, method: &str, arguments: Value) -> Value {
        let answer = self.ask(&json!({"client": client, "call": method, "args": arguments}));
        assert!(answer.get("ok").is_some(), "{method} {arguments}: {answer}");
        answer["ok"].clone()
    }

    /// Calls a method that raises; gives the exception's class and text.
    pub(super) fn error(&mut self, client: &str, method: &str, arguments: Value) -> (String, String) {
        let answer = self.ask(&json!({"client": client, "call": method, "args": arguments}));
        let part = |name: &str| answer[name].as_str().map(str::to_owned);
        match (part("error"), part("says")) {
            (Some(class), Some(says)) => (class, says),
            _ => panic!("{method} {arguments}: {answer}"),
        }
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
