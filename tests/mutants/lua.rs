//! Mutants of a Lua text: one small fault each, made on its tokens. Comments stay out of it, and so do strings but for
//! flags.

/// A text with one fault in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The line that the fault is in, as it was.
    pub line: String,
    /// Which of several lines that read alike: 1 is the first.
    pub nth: usize,
    /// What was done, in the words of the list of survivors.
    pub what: String,
    /// The whole text with it.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Word,
    Number,
    Quoted,
    Sign,
}

#[derive(Clone, Copy, Debug)]
struct Token {
    kind: Kind,
    from: usize,
    to: usize,
    /// How many brackets are open before it. Functions are not written within brackets.
    depth: usize,
}

/// What is put in the place of a part.
struct Change {
    from: usize,
    to: usize,
    by: String,
    what: String,
}

/// One sign or word for another.
const SWAPS: &[(&str, &str)] = &[
    ("<", "<="),
    ("<=", "<"),
    (">", ">="),
    (">=", ">"),
    ("==", "~="),
    ("~=", "=="),
    ("*", "/"),
    ("/", "*"),
    ("and", "or"),
    ("or", "and"),
    ("true", "false"),
    ("false", "true"),
    ("'0'", "'1'"),
    ("'1'", "'0'"),
];

/// Functions of `math`, one for another.
const OF_MATH: &[(&str, &str)] = &[("max", "min"), ("min", "max"), ("ceil", "floor"), ("floor", "ceil")];

const KEYWORDS: &[&str] = &[
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not", "or",
    "repeat", "return", "then", "true", "until", "while",
];

/// All mutants of this text, which is the code of a script as Redis is given it (no lines of comments).
pub fn mutants(text: &str) -> Vec<Mutant> {
    let tokens = tokens(text);
    let source = Source { text, tokens: &tokens };
    let mut changes = Vec::new();
    for at in 0..tokens.len() {
        changes.extend(source.swapped(at));
        changes.extend(source.removed_sign(at));
        changes.extend(source.another_number(at));
        changes.extend(source.decided(at));
        changes.extend(source.another_return(at));
        changes.extend(source.removed_statement(at));
    }
    changes.into_iter().map(|change| source.with(change)).collect()
}

fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let (mut tokens, mut at, mut open) = (Vec::new(), 0, 0_usize);
    while at < bytes.len() {
        let rest = &text[at..];
        let run = |is_in: fn(u8) -> bool| rest.bytes().take_while(|byte| is_in(*byte)).count();
        let (kind, length) = match bytes[at] {
            b'\'' | b'"' => {
                let end = rest[1..].find(char::from(bytes[at])).expect("a string ends on its line");
                (Kind::Quoted, end + 2)
            }
            b'-' if rest.starts_with("--") => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            byte if byte.is_ascii_digit() => (Kind::Number, run(|byte| byte.is_ascii_digit() || byte == b'.')),
            byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                (Kind::Word, run(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
            }
            _ => {
                let long = ["...", "..", "<=", ">=", "==", "~="].into_iter().find(|sign| rest.starts_with(sign));
                (Kind::Sign, long.map_or(1, str::len))
            }
        };
        open -= usize::from(kind == Kind::Sign && matches!(bytes[at], b')' | b']' | b'}'));
        tokens.push(Token { kind, from: at, to: at + length, depth: open });
        open += usize::from(kind == Kind::Sign && matches!(bytes[at], b'(' | b'[' | b'{'));
        at += length;
    }
    tokens
}

struct Source<'a> {
    text: &'a str,
    tokens: &'a [Token],
}

impl<'a> Source<'a> {
    fn word(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| &self.text[token.from..token.to])
    }

    fn before(&self, at: usize) -> &'a str {
        at.checked_sub(1).map_or("", |before| self.word(before))
    }

    /// From this token up to the one before `to`.
    fn change(&self, from: usize, to: usize, by: &str, what: String) -> Change {
        Change { from: self.tokens[from].from, to: self.tokens[to - 1].to, by: by.to_owned(), what }
    }

    fn with(&self, change: Change) -> Mutant {
        let begin = self.text[..change.from].rfind('\n').map_or(0, |at| at + 1);
        let line = self.text[begin..].lines().next().unwrap_or_default();
        let nth = self.text[..begin].lines().filter(|other| *other == line).count() + 1;
        let text = format!("{}{}{}", &self.text[..change.from], change.by, &self.text[change.to..]);
        // Which of several in one line: by what stands before it.
        let ahead = change.from - begin;
        let alike = self.text[begin..change.from].matches(&self.text[change.from..change.to]).count();
        let what = if ahead > 0 && alike > 0 { format!("{}, no. {}", change.what, alike + 1) } else { change.what };
        Mutant { line: line.to_owned(), nth, what, text }
    }

    fn swapped(&self, at: usize) -> Option<Change> {
        let word = self.word(at);
        let in_math = self.before(at) == "." && at > 1 && self.word(at - 2) == "math";
        let swaps = if in_math { OF_MATH } else { SWAPS };
        let plus_or_minus = match word {
            "+" => Some("-"),
            "-" if self.is_operand_end(at) => Some("+"),
            _ => None,
        };
        let by = plus_or_minus.or_else(|| swaps.iter().find(|(from, _)| *from == word).map(|(_, to)| *to))?;
        Some(self.change(at, at + 1, by, format!("{word} for {by}")))
    }

    /// Whether what stands before this token is a value.
    fn is_operand_end(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1).map(|before| self.tokens[before]) else { return false };
        match before.kind {
            Kind::Word => !KEYWORDS.contains(&self.word(at - 1)),
            Kind::Number | Kind::Quoted => true,
            Kind::Sign => [")", "]", "}"].contains(&self.word(at - 1)),
        }
    }

    fn removed_sign(&self, at: usize) -> Option<Change> {
        let is_removed = self.word(at) == "not" || (self.word(at) == "-" && !self.is_operand_end(at));
        is_removed.then(|| self.change(at, at + 1, "", format!("no {}", self.word(at))))
    }

    fn another_number(&self, at: usize) -> Option<Change> {
        if self.tokens[at].kind != Kind::Number {
            return None;
        }
        let number = self.word(at);
        let by = match number {
            "0" => "1".to_owned(),
            "1" => "0".to_owned(),
            _ => match number.parse::<u64>() {
                // A double has no 2^53 + 1.
                Ok(whole) if whole == 1 << 53 => (whole - 1).to_string(),
                Ok(whole) => (whole + 1).to_string(),
                Err(_) => format!("1{number}"),
            },
        };
        Some(self.change(at, at + 1, &by, format!("{number} for {by}")))
    }

    /// A condition that is always or never met. A loop that never ends would only be waited for.
    fn decided(&self, at: usize) -> Vec<Change> {
        let (end, by): (_, &[&str]) = match self.word(at) {
            "if" | "elseif" => ("then", &["true", "false"]),
            "while" => ("do", &["false"]),
            _ => return Vec::new(),
        };
        let Some(to) = (at + 1..self.tokens.len()).find(|at| self.word(*at) == end) else { return Vec::new() };
        by.iter().map(|by| self.change(at + 1, to, by, format!("{} {by}", self.word(at)))).collect()
    }

    fn another_return(&self, at: usize) -> Option<Change> {
        let to = self.end_of_statement(at + 1);
        let is_something = to > at + 1 && !["nil", "true", "false"].contains(&self.word(at + 1));
        let returns = self.word(at) == "return" && (is_something || to > at + 2);
        returns.then(|| self.change(at + 1, to, "nil", "return nil".to_owned()))
    }

    /// A call or an assignment that is not made.
    fn removed_statement(&self, at: usize) -> Option<Change> {
        let begins = match self.before(at) {
            "then" | "do" | "else" | "repeat" => true,
            // One statement begins on each line; what goes on from the line before is inside of brackets, or behind a
            // sign or an operator.
            _ => self.begins_line(at) && self.tokens[at].depth == 0 && (at == 0 || self.may_end_before(at)),
        };
        let is_statement = self.tokens[at].kind == Kind::Word && !KEYWORDS.contains(&self.word(at));
        (begins && is_statement).then(|| self.change(at, self.end_of_statement(at), "", "not done".to_owned()))
    }

    fn begins_line(&self, at: usize) -> bool {
        at == 0 || self.text[self.tokens[at - 1].to..self.tokens[at].from].contains('\n')
    }

    fn may_end_before(&self, at: usize) -> bool {
        self.is_operand_end(at) || ["end", "nil", "true", "false"].contains(&self.before(at))
    }

    /// The first token that is not of the statement, or of the list of values, that is under way here.
    fn end_of_statement(&self, at: usize) -> usize {
        let Some(depth) = self.tokens.get(at).map(|token| token.depth) else { return at };
        let is_end = |to: usize| {
            if self.tokens[to].depth < depth {
                return true;
            }
            let closes = ["end", "else", "elseif", "until"].contains(&self.word(to));
            let goes_on = ["and", "or", ",", "+", "-", ".."].contains(&self.word(to));
            self.tokens[to].depth == depth && (closes || (self.begins_line(to) && self.may_end_before(to) && !goes_on))
        };
        (at..self.tokens.len())
            .find(|to| (*to > at || self.word(*to) == "end") && is_end(*to))
            .unwrap_or(self.tokens.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, String)> {
        mutants(text).into_iter().map(|mutant| (mutant.what, mutant.text)).collect()
    }

    #[track_caller]
    fn assert_are(text: &str, expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(what, text)| ((*what).to_owned(), (*text).to_owned())).collect();
        assert_eq!(of(text), expected);
    }

    #[test]
    fn comments_and_strings_stay_and_flags_do_not() {
        assert_are("local a = 'x < y and 1' -- not 1 < 2\n", &[]);
        assert_are("local a = '1'", &[("'1' for '0'", "local a = '0'")]);
    }

    #[test]
    fn operators_numbers_and_bounds_are_changed() {
        assert_are("local a = b < c", &[("< for <=", "local a = b <= c")]);
        assert_are("local a = b - c", &[("- for +", "local a = b + c")]);
        assert_are("local a = -b", &[("no -", "local a = b")]);
        assert_are("local a = math.max(b, c)", &[("max for min", "local a = math.min(b, c)")]);
        assert_are("local max = 1000", &[("1000 for 1001", "local max = 1001")]);
        let below = ("9007199254740992 for 9007199254740991", "local max = 9007199254740991");
        assert_are("local max = 9007199254740992", &[below]);
        assert_are(
            "local a = not b and c ~= 0",
            &[
                ("no not", "local a =  b and c ~= 0"),
                ("and for or", "local a = not b or c ~= 0"),
                ("~= for ==", "local a = not b and c == 0"),
                ("0 for 1", "local a = not b and c ~= 1"),
            ],
        );
    }

    #[test]
    fn conditions_are_decided_and_returns_emptied() {
        assert_are(
            "if a(b) then\nreturn b, c\nend",
            &[
                ("if true", "if true then\nreturn b, c\nend"),
                ("if false", "if false then\nreturn b, c\nend"),
                ("return nil", "if a(b) then\nreturn nil\nend"),
            ],
        );
        assert_are("return nil\n", &[]);
        assert_are("return { a,\nb }\n", &[("return nil", "return nil\n")]);
    }

    #[test]
    fn calls_and_assignments_are_left_out_and_declarations_are_not() {
        assert_are("local a = b\nf(a,\nb)\nlocal c = a\n", &[("not done", "local a = b\n\nlocal c = a\n")]);
        assert_are("a.b, c = d,\ne\nlocal c = a\n", &[("not done", "\nlocal c = a\n")]);
        assert_are("local a = b\nor c\n", &[("or for and", "local a = b\nand c\n")]);
        assert_are("local a = {\nb = c,\nd = e,\n}\n", &[]);
    }

    #[test]
    fn a_line_that_comes_again_and_a_sign_that_comes_again_are_told_apart() {
        let made = mutants("local a = b < c\nlocal a = b < c\nlocal d = a < b < c\n");
        let told: Vec<_> = made.iter().map(|mutant| (mutant.nth, mutant.what.as_str())).collect();
        assert_eq!(told, [(1, "< for <="), (2, "< for <="), (1, "< for <="), (1, "< for <=, no. 2")]);
    }
}
