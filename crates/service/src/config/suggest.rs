//! "Did you mean …?"

/// The candidate that an unknown name probably meant: one that ends in `tail`, or else one that is a few letters away.
pub(crate) fn suggest<'a>(unknown: &str, tail: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    const FURTHEST: usize = 3;
    if unknown.len() > LONGEST {
        return None;
    }
    let unknown = unknown.to_lowercase();
    let tail = tail.to_lowercase();
    // Among options with the same name, one without a section is probably in the shortest section: `listen` is `http.listen`.
    let has_section = !matches!(unknown.strip_suffix(&tail), None | Some("companion"));
    let distance = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        let letters = strsim::levenshtein(&unknown, &candidate);
        // A short name is three letters away from almost everything.
        let near = letters <= FURTHEST && letters * 2 < unknown.len().max(2);
        let alike = FURTHEST + 1 + if has_section { 0 } else { letters };
        if near { Some(letters) } else { candidate.ends_with(&tail).then_some(alike) }
    };
    let near = candidates.filter_map(|candidate| distance(candidate).map(|distance| (distance, candidate)));
    near.min().map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions() {
        let known = || {
            ["admin.listen", "http.listen", "limits.connections", "store.connections", "tls.key", "secrets.keys"]
                .into_iter()
        };
        for (unknown, tail, meant) in [
            ("http.lisen", ".lisen", Some("http.listen")),
            ("HTTP.LISTEN", ".LISTEN", Some("http.listen")),
            ("http.connections", ".connections", Some("limits.connections")),
            ("secrets.key", ".key", Some("secrets.keys")),
            ("listen", ".listen", Some("http.listen")),
            ("x", ".x", None),
            ("colour.scheme", ".scheme", None),
        ] {
            assert_eq!(suggest(unknown, tail, known()), meant, "{unknown}");
        }
    }
}
