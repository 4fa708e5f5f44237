//! Fixed phrases that an outline adds to the quoted text, in the language of the conversation.

use super::cues::Language;

#[derive(Debug)]
pub(crate) struct Phrases {
    pub(crate) no_conclusion: &'static str,
    /// Between person and option: "Ada favors X".
    pub(crate) favours: &'static str,
    pub(crate) tasks_only: &'static str,
    pub(crate) next_steps: &'static str,
    pub(crate) nothing_settled: &'static str,
    pub(crate) take_care: &'static str,
    pub(crate) unreadable: &'static str,
    pub(crate) ends_with: &'static str,
    pub(crate) discussion: &'static str,
    pub(crate) empty: &'static str,
    pub(crate) quotes: (&'static str, &'static str),
}

pub(crate) fn phrases(language: Language) -> &'static Phrases {
    match language {
        Language::English => &ENGLISH,
        Language::German => &GERMAN,
        Language::Spanish => &SPANISH,
        Language::French => &FRENCH,
        Language::Other => &OTHER,
    }
}

const ENGLISH: Phrases = Phrases {
    no_conclusion: "No clear conclusion",
    favours: "favors",
    tasks_only: "No decision was made, but there are next steps",
    next_steps: "next steps",
    nothing_settled: "No clear conclusion: nothing was settled.",
    take_care: "Take care of",
    unreadable: "",
    ends_with: "",
    discussion: "No clear conclusion",
    empty: "Nothing was said here yet.",
    quotes: ("“", "”"),
};

const GERMAN: Phrases = Phrases {
    no_conclusion: "Kein klares Ergebnis",
    favours: "ist für",
    tasks_only: "Es wurde nichts entschieden, aber es gibt nächste Schritte",
    next_steps: "nächste Schritte",
    nothing_settled: "Kein klares Ergebnis: Es wurde nichts entschieden.",
    take_care: "Sich kümmern um",
    unreadable: "",
    ends_with: "",
    discussion: "Kein klares Ergebnis",
    empty: "Hier wurde noch nichts gesagt.",
    quotes: ("„", "“"),
};

const SPANISH: Phrases = Phrases {
    no_conclusion: "Sin conclusión clara",
    favours: "prefiere",
    tasks_only: "No se decidió nada, pero hay próximos pasos",
    next_steps: "próximos pasos",
    nothing_settled: "Sin conclusión clara: no se decidió nada.",
    take_care: "Encargarse de",
    unreadable: "",
    ends_with: "",
    discussion: "Sin conclusión clara",
    empty: "Aquí todavía no se ha dicho nada.",
    quotes: ("«", "»"),
};

const FRENCH: Phrases = Phrases {
    no_conclusion: "Pas de conclusion claire",
    favours: "est pour",
    tasks_only: "Rien n'a été décidé, mais il y a des prochaines étapes",
    next_steps: "prochaines étapes",
    nothing_settled: "Pas de conclusion claire : rien n'a été décidé.",
    take_care: "S'occuper de",
    unreadable: "",
    ends_with: "",
    discussion: "Pas de conclusion claire",
    empty: "Rien n'a encore été dit ici.",
    quotes: ("« ", " »"),
};

const OTHER: Phrases = Phrases {
    no_conclusion: "No clear conclusion",
    favours: "favors",
    tasks_only: "No clear conclusion",
    next_steps: "next steps",
    nothing_settled: "No clear conclusion: nothing was settled.",
    take_care: "Take care of",
    unreadable: "No conclusion: without a model, decisions in this language cannot be detected.",
    ends_with: "The last message was",
    discussion: "No conclusion: the language is not supported",
    empty: "Nothing was said here yet.",
    quotes: ("“", "”"),
};
