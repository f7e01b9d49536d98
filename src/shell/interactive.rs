//! The shell on a terminal: history, and statements over several lines until their semicolon.

use super::{Ending, Shell};
use crate::ql;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Completer, Editor, Helper, Highlighter, Hinter};
use std::io::{stderr, stdout};
use std::path::PathBuf;

const HELP: &str =
    "Statements end with a semicolon and may span lines. exit, or Ctrl-D, leaves; Ctrl-C takes back the line.
  DEFINE NAMESPACE n;  USE NAMESPACE n;  DEFINE DATABASE d;  USE DATABASE d;
  DEFINE TOPIC t PARTITIONS 3 BY field RETAIN 7d;
  CREATE t = { field: 'a' };  READ FROM t LIMIT 10;  INFO FOR TOPIC t;  INFO FOR STORE;";

#[derive(Completer, Helper, Highlighter, Hinter)]
struct Statements;

impl Validator for Statements {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let input = context.input();
        Ok(match command(input).is_some() || ql::is_complete(input) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

/// What the shell itself understands, without a semicolon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Exit,
    Help,
}

fn command(input: &str) -> Option<Command> {
    match input.trim().trim_end_matches(';').to_ascii_lowercase().as_str() {
        "exit" | "quit" | "\\q" => Some(Command::Exit),
        "help" | "\\h" | "\\?" => Some(Command::Help),
        _ => None,
    }
}

/// Reads and runs statements until the end of input.
pub(super) fn run(shell: &mut Shell) -> Ending {
    let mut editor = match Editor::<Statements, DefaultHistory>::new() {
        Ok(editor) => editor,
        Err(error) => {
            eprintln!("the terminal cannot be used: {error}");
            return Ending::Unusable;
        }
    };
    editor.set_helper(Some(Statements));
    editor.set_auto_add_history(false);
    let history = history_file();
    if let Some(history) = &history {
        // A first run has none.
        let _ = editor.load_history(history);
    }
    println!("tessaridb {}; help explains, exit leaves", env!("CARGO_PKG_VERSION"));
    loop {
        let input = match editor.readline(&prompt(shell)) {
            Ok(input) => input,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => {
                eprintln!("the terminal cannot be read: {error}");
                return Ending::Unusable;
            }
        };
        if input.trim().is_empty() {
            continue;
        }
        if worth_keeping(&input) {
            let _ = editor.add_history_entry(input.trim_end());
        }
        match command(&input) {
            Some(Command::Exit) => break,
            Some(Command::Help) => println!("{HELP}"),
            None => {
                let mut printed = Counted(stdout(), 0);
                if shell.once(&input, &mut printed, &mut stderr()) == Ending::Done && printed.1 == 0 {
                    println!("done");
                }
            }
        }
    }
    if let Some(history) = &history
        && let Err(error) = editor.save_history(history)
    {
        eprintln!("{}: {error}", history.display());
    }
    Ending::Done
}

fn prompt(shell: &Shell) -> String {
    let selected = &shell.selected;
    match (&selected.namespace, &selected.database) {
        (Some(namespace), Some(database)) => format!("{namespace}.{database}> "),
        (Some(namespace), None) => format!("{namespace}> "),
        (None, _) => "> ".to_owned(),
    }
}

fn history_file() -> Option<PathBuf> {
    Some(PathBuf::from(std::env::var_os("HOME")?).join(".tessaridb_history"))
}

/// No password goes into the history.
fn worth_keeping(input: &str) -> bool {
    let upper = input.to_ascii_uppercase();
    !upper.contains("PASSWORD") && !upper.contains("PASSHASH")
}

/// Counts what is written.
struct Counted<W>(W, usize);

impl<W: std::io::Write> std::io::Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.0.write(bytes)?;
        self.1 += count;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shells_own_words_need_no_semicolon() {
        assert_eq!(command(" EXIT; "), Some(Command::Exit));
        assert_eq!(command("help"), Some(Command::Help));
        assert_eq!(command("help me"), None);
    }

    #[test]
    fn passwords_stay_out_of_the_history() {
        assert!(worth_keeping("INFO FOR USERS;"));
        assert!(!worth_keeping("ALTER USER a SET password 'x';"));
        assert!(!worth_keeping("DEFINE USER a ROLE owner PASSHASH 'x';"));
    }
}
