//! What the compiler says to authors who misuse `#[local_map]`: each case has its expected output beside it.
//!
//! After a message was changed on purpose: `TRYBUILD=overwrite cargo test --test ui`, then read the diff.

#[test]
fn messages() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("ui-tests/cases/*.rs");
    // The compiler's lints still see the author's code.
    cases.compile_fail("ui-tests/lints/*.rs");
}
