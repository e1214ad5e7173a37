//! How an end is told in a line.

/// The longest note, in bytes.
pub const NOTE_BYTES_MAX: usize = 200;

const CUT: char = '…';

/// `text` in one line of at most [`NOTE_BYTES_MAX`] bytes: white space becomes single blanks, other control characters
/// go, and what is too long ends with an ellipsis.
pub fn note(text: &str) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > NOTE_BYTES_MAX {
            while line.len() + CUT.len_utf8() > NOTE_BYTES_MAX {
                line.pop();
            }
            line.push(CUT);
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_one_clean_line() {
        assert_eq!(note("  done:\r\n\t 7 rows\x1b[31m\0 "), "done: 7 rows [31m");
        assert_eq!(note(" \n\0 "), "");
    }

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let exact = "x".repeat(NOTE_BYTES_MAX);
        assert_eq!(note(&exact), exact);
        for long in ["x".repeat(NOTE_BYTES_MAX + 1), "é".repeat(500), "🦀".repeat(500), "ab ".repeat(100)] {
            let cut = note(&long);
            assert!(cut.len() <= NOTE_BYTES_MAX && cut.len() > NOTE_BYTES_MAX - 8 && cut.ends_with(CUT), "{cut}");
            assert!(long.starts_with(cut.trim_end_matches(CUT)), "{cut}");
        }
    }
}
