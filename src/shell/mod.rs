//! TessariQL from the command line: one script, or a shell on a terminal; on a store of one's own, or on a node over HTTP.
//!
//! One entrance: [`Shell::run`]. It blocks; a local store is driven through its runtime's handle.

mod interactive;
mod store;

#[cfg(test)]
mod tests;

pub use store::{Remote, Store, StoreError};

use crate::ql::ast::Statement;
use crate::ql::{self, Parameters};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;

/// Where a script comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The command line.
    Script(String),
    /// A file; `-` is standard input.
    File(PathBuf),
    /// A terminal, if standard input is one; else standard input is the script.
    Standard,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All was done: status 0.
    Done,
    /// A statement failed; its sentence is on standard error: status 1.
    Failed,
    /// The store, or the script's file, could not be reached; the sentence is on standard error: status 2.
    Unusable,
}

impl Ending {
    /// The process's exit status.
    pub fn status(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Unusable => 2,
        }
    }
}

/// Runs scripts on a store.
pub struct Shell {
    store: Store,
    /// Literals in TessariQL, by the name of the parameter.
    parameters: BTreeMap<String, String>,
    selected: Selected,
}

/// What USE selected last; each script a shell sends begins anew there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Selected {
    namespace: Option<String>,
    database: Option<String>,
}

impl Shell {
    /// A shell on a store.
    pub fn new(store: Store, parameters: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            store,
            parameters: parameters.into_iter().collect(),
            selected: Selected::default(),
        }
    }

    /// Runs what `input` says, prints outcomes on standard output and failures on standard error.
    pub fn run(mut self, input: Input) -> Ending {
        let script = match input {
            Input::Script(script) => Ok(script),
            Input::File(path) if path.as_os_str() != "-" => {
                std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
            }
            Input::Standard if io::stdin().is_terminal() => return interactive::run(&mut self),
            Input::File(_) | Input::Standard => {
                let mut script = String::new();
                let read = io::stdin().read_to_string(&mut script);
                read.map(|_| script).map_err(|error| format!("standard input: {error}"))
            }
        };
        match script {
            Ok(script) => self.once(&script, &mut io::stdout(), &mut io::stderr()),
            Err(sentence) => {
                eprintln!("{sentence}");
                Ending::Unusable
            }
        }
    }

    /// Runs one script.
    fn once(&mut self, script: &str, out: &mut impl Write, errors: &mut impl Write) -> Ending {
        let (text, ending) = match self.execute(script) {
            Ok(text) => (text, Ending::Done),
            Err(StoreError::Failed(sentence)) => {
                let _ = writeln!(errors, "{sentence}");
                return Ending::Failed;
            }
            Err(StoreError::Unusable(sentence)) => {
                let _ = writeln!(errors, "{sentence}");
                return Ending::Unusable;
            }
        };
        // Whoever read the output may have gone; the script is done all the same.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        ending
    }

    /// Carries out a script where the last one left off.
    fn execute(&mut self, script: &str) -> Result<String, StoreError> {
        let prefix = self.selected.prefix();
        let result = self.store.execute(&format!("{prefix}{script}"), &self.parameters);
        match result {
            Ok(text) => {
                self.selected.follow(script, &self.parameters);
                Ok(text)
            }
            Err(StoreError::Failed(sentence)) => Err(StoreError::Failed(shift_span(&sentence, prefix.len()))),
            Err(unusable) => Err(unusable),
        }
    }
}

impl Selected {
    /// The statement that selects it again.
    fn prefix(&self) -> String {
        match (&self.namespace, &self.database) {
            (Some(namespace), Some(database)) => format!("USE NAMESPACE {namespace} DATABASE {database}; "),
            (Some(namespace), None) => format!("USE NAMESPACE {namespace}; "),
            (None, _) => String::new(),
        }
    }

    /// Selects what a script that went well selected.
    fn follow(&mut self, script: &str, parameters: &BTreeMap<String, String>) {
        let parameters: Parameters = parameters
            .iter()
            .filter_map(|(name, source)| Some((name.clone(), ql::parse_literal(source).ok()?)))
            .collect();
        let Ok(statements) = ql::parse(script, &parameters) else {
            return;
        };
        for located in statements {
            match located.statement {
                Statement::Use { namespace, database } => {
                    if namespace.is_some() {
                        self.database = None;
                        self.namespace = namespace;
                    }
                    self.database = database.or_else(|| self.database.take());
                }
                Statement::DropNamespace(name) if self.namespace.as_ref() == Some(&name) => *self = Self::default(),
                Statement::DropDatabase(name) if self.database.as_ref() == Some(&name) => self.database = None,
                _ => {}
            }
        }
    }
}

/// Moves the span at a sentence's end back by what was put before the user's script.
fn shift_span(sentence: &str, by: usize) -> String {
    let shifted = || {
        let (start, span) = sentence.strip_suffix(')')?.rsplit_once(" (at ")?;
        let (from, to) = span.split_once("..")?;
        let from = from.parse::<usize>().ok()?.checked_sub(by)?;
        let to = to.parse::<usize>().ok()?.checked_sub(by)?;
        Some(format!("{start} (at {from}..{to})"))
    };
    shifted().unwrap_or_else(|| sentence.to_owned())
}
