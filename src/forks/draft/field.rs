//! The texts of an outline as fields of one type, so that each check and limit is stated once.

use chrono::NaiveDate;
use openvibe_extract::{Item, Material, Outline, Owner, Point};

use super::{clean::words, fault::FieldPath};

/// Number of preceding lines that a source may be answering.
const ANSWERED_LINES: usize = 6;

/// A headline, conclusion, point, or action item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DraftField {
    pub(super) path: FieldPath,
    pub(super) text: String,
    /// Only action items have owners and due dates.
    pub(super) owner: Option<Owner>,
    pub(super) due: Option<NaiveDate>,
    /// Lines that the text cites. For the headline and the conclusion, these are the sources of the key points that make the same
    /// statement.
    pub(super) sources: Vec<usize>,
}

impl DraftField {
    pub(super) fn new(path: FieldPath, text: String) -> Self {
        Self {
            path,
            text,
            owner: None,
            due: None,
            sources: Vec::new(),
        }
    }

    /// Checks whether the source text is the whole conversation. This is the case for the headline and the conclusion, which cite no
    /// messages themselves.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.path, FieldPath::Headline | FieldPath::Conclusion)
    }

    /// Checks whether a line is part of the source text: a cited line, a line that a cited one may answer, or the
    /// forked message.
    pub(super) fn is_from(&self, line: usize) -> bool {
        let can_answer = |source: &usize| (line..=line + ANSWERED_LINES).contains(source);
        self.is_whole() || line == 0 || self.sources.iter().any(can_answer)
    }
}

/// Number of words, including owners' names and one for each date, as in the resolution message.
pub(super) fn words_of(outline: &Outline, material: &Material) -> usize {
    let words = fields_of(outline.clone()).into_iter().map(|field| {
        let owner = match &field.owner {
            Some(Owner::Person(at)) => material.people.get(*at).map_or("", |person| &person.name),
            Some(Owner::Named(name)) => name,
            None => "",
        };
        words(&field.text) + words(owner) + usize::from(field.due.is_some())
    });
    words.sum()
}

/// Headline, conclusion, and the entries of all lists in the order of the answer.
pub(super) fn fields_of(outline: Outline) -> Vec<DraftField> {
    let points = |path: fn(usize) -> FieldPath, points: Vec<Point>| {
        let points = points.into_iter().enumerate();
        points.map(move |(at, point)| DraftField {
            sources: point.sources,
            ..DraftField::new(path(at), point.text)
        })
    };
    let items = outline.action_items.into_iter().enumerate();
    let items = items.map(|(at, item)| DraftField {
        path: FieldPath::ActionItem(at),
        text: item.text,
        owner: item.owner,
        due: item.due,
        sources: item.sources,
    });
    let mut fields = vec![
        DraftField::new(FieldPath::Headline, outline.headline),
        DraftField::new(FieldPath::Conclusion, outline.conclusion),
    ];
    fields.extend(points(FieldPath::KeyPoint, outline.key_points));
    fields.extend(items);
    fields.extend(points(FieldPath::OpenQuestion, outline.open_questions));
    fields.extend(points(FieldPath::Deferred, outline.deferred_items));
    fields
}

/// The outline with these fields.
pub(super) fn outline_of(fields: Vec<DraftField>) -> Outline {
    let mut outline = Outline::default();
    for field in fields {
        let (text, sources) = (field.text, field.sources);
        match field.path {
            FieldPath::Headline => outline.headline = text,
            FieldPath::Conclusion => outline.conclusion = text,
            FieldPath::KeyPoint(_) => outline.key_points.push(Point { text, sources }),
            FieldPath::ActionItem(_) => outline.action_items.push(Item {
                text,
                owner: field.owner,
                due: field.due,
                sources,
            }),
            FieldPath::OpenQuestion(_) => outline.open_questions.push(Point { text, sources }),
            FieldPath::Deferred(_) => outline.deferred_items.push(Point { text, sources }),
            FieldPath::KeyPoints | FieldPath::Whole => {}
        }
    }
    outline
}
