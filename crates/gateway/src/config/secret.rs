//! Keeps the private key out of the copies that a reader makes of a file's text.

use toml::de::{DeTable, DeValue};
use zeroize::Zeroizing;

/// A file's text with `x` in place of each character of `private_key`, and the value of that key if it is a string. Nothing
/// moves, so that places in the one are places in the other.
pub(super) fn set_aside(text: &str) -> (Zeroizing<String>, Option<Zeroizing<String>>) {
    let (document, _) = DeTable::parse_recoverable(text);
    let Some(value) = document.get_ref().get("private_key") else {
        return (Zeroizing::new(text.to_owned()), None);
    };
    let DeValue::String(secret) = value.get_ref() else { return (Zeroizing::new(text.to_owned()), None) };
    let span = value.span();
    let Some((before, written, after)) = text
        .get(..span.start)
        .zip(text.get(span.clone()))
        .zip(text.get(span.end..))
        .map(|((before, written), after)| (before, written, after))
    else {
        return (Zeroizing::new(text.to_owned()), None);
    };
    let quotes = if written.starts_with("\"\"\"") || written.starts_with("'''") { 3 } else { 1 };
    let last = written.len().saturating_sub(quotes);
    let hidden = written.char_indices().map(|(at, character)| {
        let shown = at < quotes || at >= last || character == '\n';
        if shown { character } else { 'x' }
    });
    // With room for all of it, so that it is not copied while it grows.
    let mut masked = Zeroizing::new(String::with_capacity(text.len()));
    masked.push_str(before);
    masked.extend(hidden);
    masked.push_str(after);
    (masked, Some(Zeroizing::new(secret.as_ref().to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_set_aside_and_everything_else_stays_in_its_place() {
        for (written, value, masked) in [
            ("\"ab=\"", "ab=", "\"xxx\""),
            ("'ab='", "ab=", "'xxx'"),
            (r#""a\"b""#, "a\"b", "\"xxxx\""),
            ("\"\"\"\nab\"\"\"", "ab", "\"\"\"\nxx\"\"\""),
            ("\"ä\"", "ä", "\"x\""),
            ("\"\"", "", "\"\""),
        ] {
            let text =
                |written: &str| format!("name = \"ab=\"\nprivate_key = {written} # ab=\n[tun]\nmtu = 1\n");
            let (shown, secret) = set_aside(&text(written));
            assert_eq!((shown.as_str(), secret.unwrap().as_str()), (text(masked).as_str(), value));
        }
    }

    #[test]
    fn a_file_without_a_key_in_it_stays_as_it_is() {
        for text in
            ["", "private_key_file = \"ab\"\n", "private_key = 5\n", "[tun]\nprivate_key = \"ab\"\n", "[tun"]
        {
            let (shown, secret) = set_aside(text);
            assert_eq!((shown.as_str(), secret.is_none()), (text, true));
        }
    }
}
