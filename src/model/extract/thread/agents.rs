//! Agents' statements, which count only when a person accepts them.

use super::super::{cues::Cue, tokens::Kind};
use super::{RECENT, Standing, Thread, add, proposals::keeps_head};

impl Thread {
    pub(super) fn hear_agent(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        let is_suggestion = (sentence.has(Cue::Proposal)
            || sentence.has(Cue::Favour)
            || sentence.has(Cue::Decision))
            && !sentence.is_question
            && !sentence.begins(Cue::Agree)
            && !sentence.topic.is_empty()
            && sentence.words() > 2;
        self.close_for_agent(at);
        let sentence = &self.sentences[at];
        if is_suggestion {
            let head = sentence
                .all(Cue::Proposal)
                .chain(sentence.all(Cue::Favour))
                .find(|hit| hit.at <= sentence.start() && !keeps_head(sentence, hit.at));
            let from = head.map_or(0, |hit| hit.end);
            let mut matter = self.matter(at, Standing::Open);
            matter.from = from.min(matter.to - 1);
            self.matters.push(matter);
        } else if !self.sentences[at].is_question {
            self.answer(at);
        }
    }

    /// An agent answers questions that are addressed to it.
    pub(super) fn close_for_agent(&mut self, at: usize) {
        let line = self.sentences[at].line;
        for question in self.questions.iter_mut().rev().take(4) {
            let asked = &self.sentences[question.sentence];
            let is_asked = asked.line < line
                && line - asked.line <= 2
                && asked
                    .tokens
                    .iter()
                    .any(|token| token.kind == Kind::Mention && self.people.is_agent(token));
            if is_asked {
                question.is_open = false;
            }
        }
    }

    pub(super) fn take_up(&mut self, agent_line: usize, by: usize) {
        self.taken_up.insert(agent_line);
        let has_matter = self
            .matters
            .iter()
            .rev()
            .take(RECENT)
            .any(|matter| self.sentences[matter.sentence].line == agent_line);
        if !has_matter {
            let first = self.first_of_line[agent_line]..self.first_of_line[agent_line + 1];
            let main = first
                .clone()
                .find(|at| self.sentences[*at].words() > 3 && !self.sentences[*at].is_question);
            if let Some(main) = main {
                let matter = self.matter(main, Standing::Open);
                self.matters.push(matter);
            }
        }
        let line = self.sentences[by].line;
        self.sentences[by].is_hidden = true;
        for matter in self.matters.iter_mut().rev().take(RECENT) {
            if self.sentences[matter.sentence].line == agent_line && matter.by.is_none() {
                matter.standing = Standing::Accepted;
                add(&mut matter.sources, line);
            }
        }
    }

    pub(super) fn is_agent_line(&self, line: usize) -> bool {
        self.agent_lines
            .binary_search_by_key(&line, |(_, line)| *line)
            .is_ok()
    }

    /// "go with Vibe's plan": refers to the agent's last line.
    pub(super) fn named_agent_line(&self, at: usize) -> Option<usize> {
        let sentence = &self.sentences[at];
        let names = |name: &str| {
            let name = name.to_lowercase();
            sentence.tokens.iter().any(|token| {
                let text = token.word.text.trim_start_matches('@');
                text == name
                    || text.strip_suffix("'s") == Some(&name)
                    || text.strip_suffix('s') == Some(&name)
            })
        };
        let before = self
            .agent_lines
            .partition_point(|(_, line)| *line < sentence.line);
        self.agent_lines[..before]
            .iter()
            .rev()
            .take(RECENT)
            .find(|(name, _)| names(name))
            .map(|(_, line)| *line)
    }
}
