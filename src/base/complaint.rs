//! What is wrong is said once, and once that it is well again.

/// What was said last about something that may go wrong again and again.
#[derive(Debug, Default)]
pub struct Complaint(Option<String>);

/// What is to be said now.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn<'a> {
    /// It went wrong, or for another reason than before.
    Wrong(&'a str),
    /// It is well again.
    Well,
}

impl Complaint {
    /// How it went: with the reason when it went wrong. None when that was said already.
    pub fn note(&mut self, wrong: Option<String>) -> Option<Turn<'_>> {
        if wrong == self.0 {
            return None;
        }
        self.0 = wrong;
        Some(self.0.as_deref().map_or(Turn::Well, Turn::Wrong))
    }

    /// Why it is wrong, if it is.
    pub fn reason(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_is_told_once() {
        let mut complaint = Complaint::default();
        let mut note = |wrong: Option<&str>| complaint.note(wrong.map(str::to_owned)).map(|turn| format!("{turn:?}"));
        assert_eq!(note(None), None, "it was well before");
        assert_eq!(note(Some("full")).as_deref(), Some("Wrong(\"full\")"));
        assert_eq!(note(Some("full")), None);
        assert_eq!(note(Some("away")).as_deref(), Some("Wrong(\"away\")"));
        assert_eq!(note(None).as_deref(), Some("Well"));
        assert_eq!(note(None), None);
    }
}
