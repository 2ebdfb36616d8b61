//! Inputs for the fuzz tests: [`near`] takes valid samples and damages them. Random bytes alone rarely get past the first check of a
//! parser.
//!
//! `make test-unit` runs each fuzz test (`fuzz_…`) on a few inputs, `tests/faults/fuzz` for minutes.

use std::ops::Bound;

use bolero::{Driver, ValueGenerator};

/// How many inputs a fuzz test takes, unless `BOLERO_RANDOM_ITERATIONS` says otherwise.
pub const ITERATIONS: usize = 500;
/// How often one sample is damaged at most.
const MOST_EDITS: usize = 6;
/// How long a part that is cut out or repeated may be.
const LONGEST_PART: usize = 24;
/// How often a part is repeated. The last one gets past most bounds on lengths.
const REPEATS: [usize; 4] = [2, 3, 5, 150];

/// Texts that parsers often get wrong.
const TRICKY: &[&[u8]] = &[
    b"\0",
    b"\n",
    b"\r\n",
    b" ",
    b"\t",
    b",",
    b";",
    b"=",
    b":",
    b"/",
    b"%",
    b"%00",
    b"%2f",
    b"..",
    b"*",
    b"\"",
    b"'",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"[",
    b"]",
    b"{",
    b"}",
    b"[[[[[[[[",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"0",
    b"-0",
    b"-1",
    b"00",
    b"1.5",
    b"1e308",
    b"1e999",
    b"NaN",
    b"inf",
    b"4294967296",
    b"9007199254740993",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    "ä".as_bytes(),
    "İ".as_bytes(),
    "٣".as_bytes(),
    "\u{202e}".as_bytes(),
    "🎉".as_bytes(),
    b"<script>",
    b"--",
    b"javascript:",
    b"::1",
    b"127.0.0.1",
    b"::ffff:127.0.0.1",
];

/// Inputs near these samples.
pub fn near(samples: &'static [&'static [u8]]) -> Near {
    Near(samples)
}

/// See [`near`].
#[derive(Clone, Copy, Debug)]
pub struct Near(&'static [&'static [u8]]);

impl ValueGenerator for Near {
    type Output = Vec<u8>;

    fn generate<D: Driver>(&self, driver: &mut D) -> Option<Vec<u8>> {
        let mut input = self.sample(driver)?.to_vec();
        // None at all is worth a try, too: the samples must pass.
        for _ in 0..below(driver, MOST_EDITS + 1)? {
            self.edit(&mut input, driver)?;
        }
        Some(input)
    }
}

impl Near {
    fn sample<D: Driver>(&self, driver: &mut D) -> Option<&'static [u8]> {
        self.0.get(below(driver, self.0.len())?).copied()
    }

    fn edit<D: Driver>(&self, input: &mut Vec<u8>, driver: &mut D) -> Option<()> {
        let at = below(driver, input.len() + 1)?;
        let end = (at + 1 + below(driver, LONGEST_PART)?).min(input.len());
        let part = at..end.max(at);
        match below(driver, 8)? {
            0 => drop(input.drain(part)),
            1 => input.truncate(at),
            2 => {
                let repeated = input[part.clone()].repeat(REPEATS[below(driver, REPEATS.len())?]);
                input.splice(part, repeated);
            }
            3 if at < input.len() => input[at] = driver.produce()?,
            4 if at < input.len() => input[at] ^= 1 << below(driver, 8)?,
            // The head of one sample with the tail of another.
            5 => {
                let other = self.sample(driver)?;
                let from = below(driver, other.len() + 1)?;
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            6 => {
                let tricky = TRICKY[below(driver, TRICKY.len())?];
                input.splice(part, tricky.iter().copied());
            }
            _ => {
                let tricky = TRICKY[below(driver, TRICKY.len())?];
                input.splice(at..at, tricky.iter().copied());
            }
        }
        Some(())
    }
}

/// A number below this one; 0 if there is none.
pub fn below<D: Driver>(driver: &mut D, end: usize) -> Option<usize> {
    driver.gen_usize(Bound::Included(&0), Bound::Excluded(&end.max(1)))
}
