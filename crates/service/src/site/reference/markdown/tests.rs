use super::*;

fn text(text: &str) -> MarkdownSpan {
    MarkdownSpan::Text(text.to_owned())
}

fn code(text: &str) -> MarkdownSpan {
    MarkdownSpan::Code(text.to_owned())
}

fn link(shown: &str, target: &str) -> MarkdownSpan {
    MarkdownSpan::Link { text: vec![text(shown)], target: target.to_owned() }
}

#[test]
fn what_stands_in_a_line() {
    for (written, expected) in [
        ("", vec![]),
        ("plain", vec![text("plain")]),
        ("`a`", vec![code("a")]),
        ("say `a`, not `<b>`.", vec![text("say "), code("a"), text(", not "), code("<b>"), text(".")]),
        ("after `Bearer `", vec![text("after "), code("Bearer ")]),
        ("**now**", vec![MarkdownSpan::Bold(vec![text("now")])]),
        ("**a `b`** c", vec![MarkdownSpan::Bold(vec![text("a "), code("b")]), text(" c")]),
        ("see [there](#there).", vec![text("see "), link("there", "#there"), text(".")]),
        ("[a](b.md)[c](https://d.example)", vec![link("a", "b.md"), link("c", "https://d.example")]),
        ("snake_case & 2 * 3 < 4 <= 5 … \"q\"", vec![text("snake_case & 2 * 3 < 4 <= 5 … \"q\"")]),
        ("`**a** [b] \\ <c>`", vec![code("**a** [b] \\ <c>")]),
    ] {
        assert_eq!(spans(written).as_ref(), Ok(&expected), "{written}");
    }
}

#[test]
fn what_is_not_known_in_a_line_is_refused() {
    for (written, what) in [
        ("`a", "a backtick without its pair"),
        ("``a``", "code in several backticks"),
        ("**a", "`**` without its pair"),
        ("*a*", "emphasis"),
        ("_a_", "emphasis"),
        ("a_ b", "emphasis"),
        ("<b>a</b>", "HTML"),
        ("<https://a.example>", "HTML"),
        ("a\\*", "a backslash"),
        ("![a](b.png)", "a picture"),
        ("~~a~~", "struck text"),
        ("&amp;", "an entity"),
        ("[a]", "a bracket without an address"),
        ("[a][b]", "a bracket without an address"),
        ("[a", "a bracket without its pair"),
        ("[a](javascript:alert())", "this kind of address"),
        ("[a](http://b.example)", "this kind of address"),
        ("[a](https://b.example \"title\")", "this kind of address"),
    ] {
        assert_eq!(spans(written), Err(what), "{written}");
    }
}

#[test]
fn blocks_of_each_kind() {
    let heading = |level, text: &str| MarkdownBlock::Heading { level, text: text.to_owned() };
    let block_of_code =
        |language: &str, text: &str| MarkdownBlock::Code { language: language.to_owned(), text: text.to_owned() };
    for (written, expected) in [
        ("", vec![]),
        ("# One\n## Two\n\n### Three", vec![heading(1, "One"), heading(2, "Two"), heading(3, "Three")]),
        (
            "one\nline\n\nanother",
            vec![MarkdownBlock::Paragraph(vec![text("one line")]), MarkdownBlock::Paragraph(vec![text("another")])],
        ),
        ("the first\n20. It goes on", vec![MarkdownBlock::Paragraph(vec![text("the first 20. It goes on")])]),
        ("- one\n- two\n  goes on\n", vec![MarkdownBlock::List(vec![vec![text("one")], vec![text("two goes on")]])]),
        (
            "text\n- one",
            vec![MarkdownBlock::Paragraph(vec![text("text")]), MarkdownBlock::List(vec![vec![text("one")]])],
        ),
        (
            "| a | |\n|---|---|\n| `b` | c |",
            vec![MarkdownBlock::Table {
                head: vec![vec![text("a")], vec![]],
                rows: vec![vec![vec![code("b")], vec![text("c")]]],
            }],
        ),
        ("```sh\na <b>\n\n# c\n```\n", vec![block_of_code("sh", "a <b>\n\n# c")]),
        ("```\n```", vec![block_of_code("", "")]),
    ] {
        assert_eq!(blocks(written).as_ref(), Ok(&expected), "{written}");
    }
}

#[test]
fn what_is_not_known_as_a_block_is_refused_with_its_line() {
    for (written, line, what) in [
        ("a\n\n> b", 3, "a quotation"),
        ("* a", 1, "a list with this mark"),
        ("1. a", 1, "a numbered list"),
        ("a\n1. b", 1, "a numbered list"),
        ("    a", 1, "an indented line"),
        ("a\n---", 1, "a rule or underline"),
        ("a  \nb", 1, "a forced line break"),
        ("#### a", 1, "this kind of heading"),
        ("#a", 1, "this kind of heading"),
        ("## `a`", 1, "markup in a heading"),
        ("```\na", 1, "a block of code without an end"),
        ("- a\n  - b", 1, "a block in a list"),
        ("- a\nb", 1, "a line after a list without an empty line between them"),
        ("| a |\n| b |", 1, "this kind of table"),
        ("| a |\n|---|\n| b | c |", 1, "this kind of table"),
        ("| a |\n|:--|\n| b |", 1, "this kind of table"),
        ("a\n\n*b*", 3, "emphasis"),
    ] {
        assert_eq!(blocks(written), Err(UnknownMarkdown { line, what }), "{written}");
    }
}

#[test]
fn headings_have_the_ids_that_links_expect() {
    for (heading, id) in [
        ("Before you begin", "before-you-begin"),
        ("Order, repeats and gaps", "order-repeats-and-gaps"),
        ("A shard's guilds", "a-shards-guilds"),
    ] {
        assert_eq!(slug(heading), id);
    }
}
