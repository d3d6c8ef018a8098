//! "Did you mean": the known word that is nearest to an unknown one.

/// Ends a message about the unknown `word`: with the nearest of `known`, or with all of them.
pub(crate) fn hint(word: &str, known: &[&str]) -> String {
    match (closest(word, known), known) {
        (Some(nearest), _) => format!("did you mean `{nearest}`?"),
        (None, [only]) => format!("there is only `{only}`"),
        (None, known) => format!("known are {}", crate::errors::listed(known)),
    }
}

/// What other libraries call them.
const ELSEWHERE: [(&str, &str); 12] = [
    ("device_mesh", "mesh"),
    ("redistribute_inputs", "reshard"),
    ("redistribute", "reshard"),
    ("checkpoint", "recompute"),
    ("remat", "recompute"),
    ("mean", "Avg"),
    ("average", "Avg"),
    ("and", "All"),
    ("or", "Any"),
    ("split", "Shard"),
    ("s", "Shard"),
    ("none", "Replicate"),
];

/// The one of `known` that `word` was probably meant to be.
pub(crate) fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.trim_start_matches("r#").to_lowercase();
    let elsewhere = ELSEWHERE.iter().filter(|(other, _)| *other == word).map(|(_, ours)| *ours);
    elsewhere
        .filter_map(|ours| known.iter().find(|known| **known == ours))
        .copied()
        .next()
        .or_else(|| spelt(&word, known))
}

/// The one of `known` that is spelt most like `word`.
fn spelt<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|candidate| (cost(word, &candidate.to_lowercase()), *candidate))
        .filter(|(cost, candidate)| *cost <= tolerance(word, candidate))
        .min_by_key(|(cost, _)| *cost)
        .map(|(_, candidate)| candidate)
}

/// A third of the longer word may differ, so that `grid` does not suggest `in`; in a short word two letters may be swapped.
fn tolerance(word: &str, candidate: &str) -> usize {
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let swapped = usize::from(sorted(word) == sorted(candidate));
    swapped.max(word.len().max(candidate.len()) / 3)
}

/// Edits between the two; a longer form of the same word (`Replicated`, `outputs`) counts as one.
fn cost(word: &str, candidate: &str) -> usize {
    if word.starts_with(candidate) && word != candidate {
        return 1;
    }
    edits(word, candidate)
}

/// Levenshtein's distance in which swapping two neighbours is one edit.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut older = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let replaced = above[j] + usize::from(a[i] != b[j]);
            let mut best = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(older[j - 1] + 1);
            }
            row.push(best);
        }
        older = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found() {
        let placements = ["Shard", "Replicate", "Partial"];
        assert_eq!(closest("Sahrd", &placements), Some("Shard"));
        assert_eq!(closest("shard", &placements), Some("Shard"));
        assert_eq!(closest("Sharded", &placements), Some("Shard"));
        assert_eq!(closest("Replicated", &placements), Some("Replicate"));
        assert_eq!(closest("Parital", &placements), Some("Partial"));
        assert_eq!(closest("outputs", &["in", "out"]), Some("out"));
        assert_eq!(closest("inputs", &["in", "out"]), Some("in"));
        assert_eq!(closest("pt", &["dp", "tp"]), Some("tp"));
    }

    #[test]
    fn words_of_other_libraries_are_found() {
        assert_eq!(closest("device_mesh", &["in", "mesh"]), Some("mesh"));
        assert_eq!(closest("Mean", &["Sum", "Avg"]), Some("Avg"));
        assert_eq!(closest("mean", &["x", "y"]), None);
    }

    #[test]
    fn far_words_are_not() {
        assert_eq!(closest("Banana", &["Shard", "Replicate", "Partial"]), None);
        assert_eq!(closest("grid", &["in", "out", "mesh"]), None);
        assert_eq!(closest("", &["in"]), None);
    }

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("ab", "ba"), 1);
        assert_eq!(edits("", "abc"), 3);
    }
}
