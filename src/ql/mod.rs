//! TessariQL: `parse` reads a script (a script with an error in it does nothing at all), values print as they read.
//!
//! ```text
//!   source -> lexer -> parser -> ast -> (execution) -> outcomes -> print | json
//! ```

pub mod ast;
mod error;
pub mod exec;
pub mod json;
mod lexer;
mod parser;
mod print;
mod print_statement;
pub mod value;

pub use error::{Code, Error, ErrorKind, Span};
pub use lexer::is_identifier;
pub(crate) use parser::is_reserved;
pub use parser::{
    MAX_DEPTH, MAX_SCRIPT, MAX_STATEMENTS, MAX_VALUES, Parameters, is_complete, parse, parse_bytes, parse_literal,
};
pub use value::{Object, Value};

#[cfg(test)]
mod tests;
