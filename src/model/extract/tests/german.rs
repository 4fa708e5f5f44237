//! German.

use super::dialogues;

dialogues! {
    ein_termin_wird_korrigiert: "
        ada: Wir haben beschlossen, am Freitag zu liefern.
        bo: Moment, am Freitag ist Feiertag.
        ada: Dann doch lieber am Montag.
        bo: Einverstanden.",
        { decisions: &["montag liefern"], gone: &["freitag"] }

    eine_zusage: "
        ada: Die Folien fehlen noch.
        bo: Ich schicke die Folien bis Freitag an Mia.
        ada: Danke!",
        { items: &[("bo", "folien mia schicken", "2026-03-13")] }

    eine_bitte_wird_angenommen: "
        ada: @bo kannst du bitte den Raum bis Montag buchen?
        bo: Ja, mache ich.",
        { items: &[("bo", "raum buchen", "2026-03-16")] }

    eine_bitte_wird_abgelehnt: "
        ada: @bo kannst du den Kuchen besorgen?
        bo: Leider nein, keine Zeit.
        mia: Ich übernehme das.",
        { items: &[("mia", "kuchen besorgen", "-")] }

    ein_vorschlag_wird_angenommen: "
        ada: Sollen wir das Sommerfest im Park machen?
        bo: Klingt gut.
        mia: dafür",
        { decisions: &["sommerfest park"] }

    kein_klares_ergebnis: "
        ada: Ich bin für Postgres, das ist sicherer.
        bo: Ich bin für SQLite, das reicht uns.",
        { conclusion: "ada postgres bo sqlite" }

    etwas_wird_vertagt: "
        ada: Brauchen wir auch einen dunklen Modus?
        bo: Das verschieben wir auf später.
        ada: ok",
        { deferred: &["dunklen modus"] }

    eine_frage_bleibt_offen: "
        ada: Wer bezahlt den Stand auf der Messe?
        bo: Keine Ahnung.",
        { questions: &["bezahlt stand"] }

    bedingtes_ist_keine_zusage: "
        ada: Wenn wir Geld hätten, würde ich einen Koch buchen.
        bo: Ich werde im Urlaub sein.
        mia: Ich schreibe dir vielleicht morgen.",
        { }

    der_verantwortliche_wechselt: "
        ada: Ich kümmere mich um den Raum.
        bo: super
        ada: Ich schaffe das doch nicht.
        cy: Dann übernehme ich das.",
        { items: &[("cy", "raum kümmern", "-")] }

    eine_zahl_wird_korrigiert: "
        ada: Wir haben uns auf 20 Stühle geeinigt.
        bo: Korrektur: 24 Stühle, die Gäste kommen auch.",
        { decisions: &["24 stühle"], gone: &["20"] }

    ein_name_mit_aufgabe: "
        ada: Bo schickt den Vertrag bis zum 20. März an die Bank.
        bo: genau",
        { items: &[("bo", "vertrag bank schicken", "2026-03-20")] }
}
