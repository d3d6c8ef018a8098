//! What the compiler says to authors who misuse `#[local_map]`: each case has its expected output beside it.
//!
//! After a message was changed on purpose: `TRYBUILD=overwrite cargo test --test ui`, then read the diff.

#[test]
fn messages() {
    trybuild::TestCases::new().compile_fail("ui-tests/cases/*.rs");
}
