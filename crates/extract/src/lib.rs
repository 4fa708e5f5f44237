//! Extracts decisions, action items, open questions, and corrections from a conversation, without a model.
//!
//! ```text
//! Material ── text, values ──> units (sentences with acts) ── thread (links) ── roles (linear model) ──> outline
//!                 └─ lexicon: seeds/extract/*.txt                 └──> corrections, quotes for notes
//! ```
//!
//! The analysis is deterministic, and its time is linear in the number of lines. It supports English, German, French, and Spanish; a
//! conversation in any other language is only quoted. Results are quotes from people, in which only corrected values are replaced.
//! Orders to a machine never become results, and an agent's statement becomes one only if a person adopted it. Rules detect
//! corrections, retractions, and adoption, and checks of other drafts rely on them; the linear model selects the entries of the
//! outline.
//!
//! Building blocks for checks of other drafts: [`Reading`] ([`Reading::acts`], [`Reading::superseded`], [`Reading::is_adopted`],
//! [`Reading::language`]), [`content_words`], [`values()`], [`sentences()`], and [`detect`].

mod features;
mod lexicon;
mod material;
mod matters;
mod numbers;
mod outline;
mod people;
mod quotes;
mod reading;
mod roles;
mod sentences;
mod settled;
mod tasks;
mod text;
mod thread;
mod units;
mod values;

pub use self::{
    lexicon::{
        LANGUAGES, Language, content_words, detect, is_function_word, is_function_word_of,
        keywords, language_of,
    },
    material::{
        Decision, Item, Line, Material, Outline, Owner, Person, Point, Quotation, Speaker,
        Superseded,
    },
    numbers::{bare, groups, numbers, unknown_numbers, whole},
    reading::{Candidate, Reading},
    roles::{Model, ROLES, Role},
    sentences::{Sentence, plain_sentences, sentence_ranges, sentences},
    text::{Kind, Token, tokens},
    units::Act,
    values::{Value, ValueKind, values},
};
