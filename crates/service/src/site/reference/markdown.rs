//! The Markdown that our own texts use, and no more: headings, paragraphs, lists, tables, blocks of code; code, bold and links in the
//! line. Everything else is refused, so that a test notices before a visitor does.

use std::fmt;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum MarkdownBlock {
    /// Of level 1 to 3.
    Heading {
        level: u8,
        text: String,
    },
    Paragraph(Vec<MarkdownSpan>),
    List(Vec<Vec<MarkdownSpan>>),
    Table {
        head: Vec<Vec<MarkdownSpan>>,
        rows: Vec<Vec<Vec<MarkdownSpan>>>,
    },
    Code {
        language: String,
        text: String,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum MarkdownSpan {
    Text(String),
    Code(String),
    Bold(Vec<MarkdownSpan>),
    Link { text: Vec<MarkdownSpan>, target: String },
}

/// Something that is not known here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownMarkdown {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) what: &'static str,
}

impl fmt::Display for UnknownMarkdown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {} is not known to the renderer", self.line, self.what)
    }
}

/// The blocks of a text.
pub(super) fn blocks(text: &str) -> Result<Vec<MarkdownBlock>, UnknownMarkdown> {
    let lines: Vec<&str> = text.lines().collect();
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].trim().is_empty() {
            at += 1;
            continue;
        }
        let begin = at;
        let (block, length) = block(&lines[at..]).map_err(|what| UnknownMarkdown { line: begin + 1, what })?;
        blocks.push(block);
        at += length;
    }
    Ok(blocks)
}

/// The block with which these lines begin, and how many of them it takes.
fn block(lines: &[&str]) -> Result<(MarkdownBlock, usize), &'static str> {
    let first = lines[0];
    if let Some(language) = first.strip_prefix("```") {
        let length = lines[1..].iter().position(|line| *line == "```").ok_or("a block of code without an end")?;
        let text = lines[1..=length].join("\n");
        return Ok((MarkdownBlock::Code { language: language.to_owned(), text }, length + 2));
    }
    if first.starts_with('#') {
        return Ok((heading(first)?, 1));
    }
    let length = lines.iter().skip(1).take_while(|line| !line.trim().is_empty()).count() + 1;
    let lines = &lines[..length];
    if first.starts_with("- ") {
        return list(lines);
    }
    if first.starts_with('|') {
        return table(lines);
    }
    let length = lines.iter().skip(1).take_while(|line| !begins_block(line)).count() + 1;
    for line in &lines[..length] {
        refuse_other_blocks(line, *line == first)?;
    }
    Ok((MarkdownBlock::Paragraph(spans(&lines[..length].join(" "))?), length))
}

/// Whether a line ends the paragraph before it.
fn begins_block(line: &str) -> bool {
    ["```", "#", "- ", "|"].iter().any(|begin| line.starts_with(begin))
}

fn heading(line: &str) -> Result<MarkdownBlock, &'static str> {
    let text = line.trim_start_matches('#');
    let level = u8::try_from(line.len() - text.len()).unwrap_or(u8::MAX);
    let text = text.strip_prefix(' ').filter(|_| level <= 3).ok_or("this kind of heading")?;
    if text.contains(['`', '*', '[', '\\', '<']) {
        return Err("markup in a heading");
    }
    Ok(MarkdownBlock::Heading { level, text: text.to_owned() })
}

fn list(lines: &[&str]) -> Result<(MarkdownBlock, usize), &'static str> {
    let mut items: Vec<String> = Vec::new();
    for line in lines {
        match (line.strip_prefix("- "), line.strip_prefix("  "), items.last_mut()) {
            (Some(item), ..) => items.push(item.to_owned()),
            (None, Some(more), Some(item)) => {
                if begins_block(more.trim_start()) || more.starts_with(' ') {
                    return Err("a block in a list");
                }
                item.push(' ');
                item.push_str(more);
            }
            _ => return Err("a line after a list without an empty line between them"),
        }
    }
    let items = items.iter().map(|item| spans(item)).collect::<Result<_, _>>()?;
    Ok((MarkdownBlock::List(items), lines.len()))
}

fn table(lines: &[&str]) -> Result<(MarkdownBlock, usize), &'static str> {
    let mut rows = Vec::new();
    for line in lines {
        let cells = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')).ok_or("this kind of table")?;
        rows.push(cells.split('|').map(str::trim).collect::<Vec<_>>());
    }
    let is_rule = rows.get(1).is_some_and(|rule| rule.iter().all(|cell| *cell == "---"));
    if !is_rule || rows.iter().any(|row| row.len() != rows[0].len()) {
        return Err("this kind of table");
    }
    let read = |cells: Vec<&str>| cells.into_iter().map(spans).collect::<Result<Vec<_>, _>>();
    let mut rows = rows.into_iter();
    let head = rows.next().map(read).transpose()?.unwrap_or_default();
    let rows = rows.skip(1).map(read).collect::<Result<_, _>>()?;
    Ok((MarkdownBlock::Table { head, rows }, lines.len()))
}

fn refuse_other_blocks(line: &str, is_first: bool) -> Result<(), &'static str> {
    let digits = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    // Within a paragraph only a list that begins with 1 is one.
    let is_number = if is_first { digits.len() < line.len() } else { line.starts_with("1.") || line.starts_with("1)") };
    match () {
        () if is_number && (digits.starts_with(". ") || digits.starts_with(") ")) => Err("a numbered list"),
        () if line.starts_with('>') => Err("a quotation"),
        () if line.starts_with("* ") || line.starts_with("+ ") => Err("a list with this mark"),
        () if line.starts_with([' ', '\t']) => Err("an indented line"),
        () if line.ends_with("  ") || line.ends_with('\\') => Err("a forced line break"),
        () if ["---", "===", "***", "___"].iter().any(|rule| line.starts_with(rule)) => Err("a rule or underline"),
        () => Ok(()),
    }
}

/// What stands in a line.
pub(super) fn spans(text: &str) -> Result<Vec<MarkdownSpan>, &'static str> {
    let mut spans = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (span, after) = match first {
            '`' => code(rest)?,
            '[' => link(rest)?,
            '*' if rest.starts_with("**") => bold(rest)?,
            _ => {
                refuse_other_spans(plain.chars().next_back(), rest)?;
                plain.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
        };
        if !plain.is_empty() {
            spans.push(MarkdownSpan::Text(std::mem::take(&mut plain)));
        }
        spans.push(span);
        rest = after;
    }
    if !plain.is_empty() {
        spans.push(MarkdownSpan::Text(plain));
    }
    Ok(spans)
}

fn code(text: &str) -> Result<(MarkdownSpan, &str), &'static str> {
    let (code, after) = text[1..].split_once('`').ok_or("a backtick without its pair")?;
    if code.is_empty() {
        return Err("code in several backticks");
    }
    Ok((MarkdownSpan::Code(code.to_owned()), after))
}

fn bold(text: &str) -> Result<(MarkdownSpan, &str), &'static str> {
    let (bold, after) = text[2..].split_once("**").ok_or("`**` without its pair")?;
    Ok((MarkdownSpan::Bold(spans(bold)?), after))
}

fn link(text: &str) -> Result<(MarkdownSpan, &str), &'static str> {
    let (shown, after) = text[1..].split_once(']').ok_or("a bracket without its pair")?;
    let target = after.strip_prefix('(').and_then(|after| after.split_once(')'));
    let (target, after) = target.ok_or("a bracket without an address")?;
    let is_known = target.starts_with('#') || target.starts_with("https://") || target.contains(".md");
    if !is_known || target.contains([' ', '"', '(']) {
        return Err("this kind of address");
    }
    Ok((MarkdownSpan::Link { text: spans(shown)?, target: target.to_owned() }, after))
}

fn refuse_other_spans(before: Option<char>, rest: &str) -> Result<(), &'static str> {
    let mut letters = rest.chars();
    let (first, next) = (letters.next().unwrap_or_default(), letters.next().unwrap_or(' '));
    let is_inside_word = before.is_some_and(char::is_alphanumeric) && next.is_alphanumeric();
    match first {
        '*' if next != ' ' => Err("emphasis"),
        '_' if !is_inside_word => Err("emphasis"),
        '<' if next != ' ' && next != '=' => Err("HTML"),
        '\\' => Err("a backslash"),
        '!' if next == '[' => Err("a picture"),
        '~' if next == '~' => Err("struck text"),
        '&' if next != ' ' => Err("an entity"),
        _ => Ok(()),
    }
}

/// The id of a heading, as the hosts of repositories make it.
pub(super) fn slug(text: &str) -> String {
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

#[cfg(test)]
mod tests;
