//! Random uses of the macros: never a panic, always tokens that parse. The folder `fuzz` does the same for longer.

use super::grammar::Use;

#[test]
fn random_uses_never_panic() {
    // Small and deterministic (xorshift).
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = [0; 96];
    for _ in 0..25_000 {
        for eight in bytes.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            eight.copy_from_slice(&state.to_le_bytes());
        }
        Use::of(&bytes).survives();
    }
}
