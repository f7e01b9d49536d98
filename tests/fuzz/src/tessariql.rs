//! Scripts and literals: what parses prints as source that parses to the same.

use tessaridb::ql::{Parameters, parse, parse_bytes, parse_literal};

pub(crate) fn run(data: &[u8]) {
    let parameters = Parameters::new();
    if let Ok(statements) = parse_bytes(data, &parameters) {
        let printed: String = statements
            .iter()
            .map(|located| format!("{};\n", located.statement))
            .collect();
        let again = parse(&printed, &parameters).unwrap_or_else(|error| panic!("{error} in {printed:?}"));
        assert_eq!(statements.len(), again.len());
        for (first, second) in statements.iter().zip(&again) {
            assert_eq!(first.statement.to_string(), second.statement.to_string());
            // Passwords are masked where they are printed.
            assert!(
                first.statement == second.statement || printed.contains("'********'"),
                "{printed:?}"
            );
        }
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(value) = parse_literal(text)
    {
        let printed = value.to_string();
        assert_eq!(parse_literal(&printed).as_ref(), Ok(&value), "{printed:?}");
    }
}
