//! Detects questions and rules out statements that only look like questions.

use super::{cues::Cue, sentence::Sentence, sentence::is_any, tokens::Kind};

/// In "We take the corner, ok?", the start of the tag that asks for agreement with the statement before it; `0` if
/// the whole question is such a tag.
pub(crate) fn tag(sentence: &Sentence) -> Option<usize> {
    const TAGS: &str = "ok okay agreed fine deal alright good objections einverstanden passt vale d' \
        acuerdo parece va conforme accord recht";
    const ASIDE: &str = "all everyone everybody you with for by us is that any ok de os les te ça vous \
        te va das für alle euch dir mir bien le de tout monde la tous todos para me it this now no \
        in ordnung so is";
    let is_asked = sentence.tokens.last().is_some_and(|token| token.is("?"));
    let end = sentence
        .tokens
        .iter()
        .rposition(|token| token.kind != Kind::Mark)?
        + 1;
    if !is_asked || end > sentence.tokens.len() {
        return None;
    }
    let text = |at: usize| sentence.tokens[at].word.text.as_str();
    let from = (0..end)
        .rev()
        .take(6)
        .find(|at| is_any(text(*at), ", - – — ."))
        .map_or(0, |at| at + 1);
    let is_tag = (from..end).any(|at| is_any(text(at), TAGS))
        && (from..end)
            .all(|at| is_any(text(at), TAGS) || is_any(text(at), ASIDE) || text(at) == "¿")
        && end - from <= 5;
    (is_tag && from != 1).then_some(from)
}

/// "…, right?" asserts the statement before it.
fn has_tag(sentence: &Sentence) -> bool {
    let is_tag = sentence.all(Cue::Rhetorical).any(|hit| {
        hit.end + 1 >= sentence.tokens.len() && hit.at > 3 && sentence.tokens[hit.at - 1].is(",")
    });
    is_tag && !sentence.begins(Cue::Asks) && !sentence.begins(Cue::Proposal)
}

pub(crate) fn is_question(sentence: &Sentence) -> bool {
    let mut marks = sentence
        .tokens
        .iter()
        .rev()
        .take_while(|token| token.kind == Kind::Mark);
    if marks.any(|token| matches!(token.word.text.as_str(), "?" | "？")) {
        return !has_tag(sentence);
    }
    let is_closed = sentence
        .tokens
        .last()
        .is_some_and(|token| matches!(token.word.text.as_str(), "." | "!" | "…" | "。"));
    let is_plain = !sentence.tokens.iter().any(|token| token.is(","));
    !is_closed && is_plain && sentence.words() <= 14 && sentence.begins(Cue::Asks)
}
