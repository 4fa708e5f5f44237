//! French.

use super::dialogues;

dialogues! {
    une_date_est_corrigee: "
        ada: On a décidé de livrer vendredi.
        bo: Vendredi est férié.
        ada: Alors plutôt lundi.
        bo: D'accord.",
        { decisions: &["livrer lundi"], gone: &["vendredi"] }

    un_engagement: "
        ada: Il manque le devis.
        bo: J'enverrai le devis avant vendredi.
        ada: merci",
        { items: &[("bo", "envoyer devis", "2026-03-13")] }

    une_demande_acceptee: "
        ada: @bo peux-tu réserver la salle pour lundi ?
        bo: Oui, bien sûr.",
        { items: &[("bo", "réserver salle", "2026-03-16")] }

    une_demande_refusee: "
        ada: @bo tu peux acheter le gâteau ?
        bo: Désolé, je n'ai pas le temps.
        mia: Je m'en occupe.",
        { items: &[("mia", "acheter gâteau", "-")] }

    une_proposition_acceptee: "
        ada: Je propose de faire la fête au parc.
        bo: Ça marche !",
        { decisions: &["fête parc"] }

    pas_de_conclusion: "
        ada: Je préfère Postgres parce que c'est plus sûr.
        bo: Je suis pour SQLite, ça suffit.",
        { conclusion: "ada postgres bo sqlite" }

    c_est_reporte: "
        ada: Est-ce qu'on fait aussi le mode sombre ?
        bo: On verra plus tard.",
        { deferred: &["mode sombre"] }

    question_ouverte: "
        ada: Qui paie le stand de la foire ?
        bo: Aucune idée.",
        { questions: &["paie stand"] }

    je_vais_et_je_m_occupe: "
        ada: Je vais préparer les diapos pour jeudi.
        bo: Je m'occupe des boissons.
        mia: Je serai en vacances en avril.",
        { items: &[("ada", "préparer diapos", "2026-03-12"), ("bo", "boissons", "-")] }
}
