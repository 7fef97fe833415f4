//! Text from elsewhere (models, tools, files), made fit for a terminal or a line.

/// The text on one line, without control characters.
pub(crate) fn one_line(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.trim().to_owned()
}

/// The text with line breaks and tabs, but without any other control character: what a model says must not move the
/// cursor, set the title or do whatever else a terminal lets its programs do.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().filter(|&c| !c.is_control() || c == '\n' || c == '\t').collect()
}

/// The text on one line of at most `width` characters.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    let line = one_line(text);
    match line.char_indices().nth(width) {
        None => line,
        Some(_) => {
            let kept: String = line.chars().take(width.saturating_sub(1)).collect();
            format!("{kept}…")
        }
    }
}

/// An argument as a shell takes it.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:@%+=,~".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('~') {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// `1 event`, `2 events`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_says_cannot_drive_the_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\r\nc\td\x07\u{9b}31m"), "a[2Jb\nc\td31m");
        assert_eq!(one_line(" a\nb\x1b]0;x\x07 "), "a b ]0;x");
    }

    #[test]
    fn a_long_text_ends_in_an_ellipsis_within_its_width() {
        assert_eq!(shortened("äöüß", 4), "äöüß");
        assert_eq!(shortened("äöüßa", 4), "äöü…");
    }

    #[test]
    fn a_shell_reads_a_word_back() {
        assert_eq!(shell_word("agents/clerk.toml"), "agents/clerk.toml");
        assert_eq!(shell_word("my agents/it's.toml"), r"'my agents/it'\''s.toml'");
        assert_eq!(shell_word(""), "''");
    }
}
