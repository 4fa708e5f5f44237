//! Adversarial dialogues, written without knowledge of the extractor's behavior.

use super::dialogues;

dialogues! {
    an_incident_with_a_wrong_turn: "
        ada: checkout is down again, 502 on every second request
        bo: Looks like the new cache. Should we roll back to 4.2?
        mia: wait, let me look at the logs first
        mia: It's the database, not the cache. Connections are exhausted.
        bo: Ok so no rollback. Raise the pool to 50?
        ada: yes please, do it
        bo: done. errors are going down
        ada: I'll write the postmortem by Friday. @mia can you add an alert for the pool size?
        mia: sure, tomorrow",
        { decisions: &["pool 50"], items: &[("ada", "write postmortem", "2026-03-13"), ("mia", "add alert pool size", "2026-03-12")] }

    a_trip_whose_dates_move_twice: "
        ada: So, the offsite: 4 to 6 June in Ghent?
        bo: I have a wedding on the 6th. How about 11 to 13 June?
        mia: 11 to 13 works for me
        ada: Great, 11 to 13 June it is.
        cy: ugh, the hotel is full on the 13th. 10 to 12?
        ada: fine, 10 to 12 June then
        bo: ok
        mia: I'll book the hotel this week",
        { decisions: &["10 12 june"], items: &[("mia", "book hotel", "2026-03-13")] }

    a_vote_between_two_candidates: "
        ada: Lena or Tom for the backend role?
        bo: Lena, she asked the better questions.
        mia: I'd go with Lena too.
        ada: Lena then. I'll call her tomorrow and Bo will write to Tom.
        bo: ok",
        { decisions: &["lena"], items: &[("ada", "call her", "2026-03-12"), ("bo", "write tom", "-")] }

    a_hedged_yes_is_none: "
        ada: Can we launch on 1 April?
        bo: yes, but only if legal signs off
        mia: I'm not so sure. The translations aren't ready.
        ada: hmm",
        { questions: &["launch 1 april"] }

    a_price_with_thousands: "
        ada: The quote for the stand is 4,500 euros.
        bo: Is that with power?
        ada: No. With power it's 5,200 euros. So let's plan 5,200.
        bo: agreed
        mia: correction, they just called: 4,900 with power
        ada: even better",
        { decisions: &["4,900"], gone: &["5,200"] }

    somebody_takes_back_an_offer: "
        mia: I can bake a cake for Thursday
        ada: lovely
        mia: oh no, my oven is broken. I can't bake it.
        cy: I'll bring cookies instead",
        { items: &[("cy", "bring cookies", "-")] }

    thanks_and_small_talk: "
        ada: Morning all! How was your weekend?
        bo: Great, thanks. I'll have another coffee first.
        mia: Who ate my sandwich? 😂
        cy: I'll never tell
        ada: See you at lunch, I'll be there at 12.",
        { }

    a_school_play: "
        ada: The play is on 22 May, everyone agreed with that on Monday.
        bo: Who sews the costumes?
        mia: My aunt could help with the costumes.
        bo: Can you ask her, Mia?
        mia: yes, I'll ask her on Saturday.
        cy: @bo please reserve the hall for the rehearsals.
        bo: Already done!",
        { items: &[("mia", "ask her", "2026-03-14")], questions: &["sews costumes"] }

    a_swap_of_tasks: "
        ada: Bo writes the press text, I do the photos.
        bo: Could we swap? I'm no good with words.
        ada: Sure, I'll write the press text and you take the photos.
        bo: deal",
        { items: &[("ada", "write press text", "-"), ("bo", "photos", "-")] }

    a_lab_protocol_with_units: "
        ada: We settled on 37 degrees for the incubation, right?
        bo: 35 degrees, actually. The cells died at 37.
        ada: Right, 35. And 20 ml of medium.
        mia: I'll prepare 12 plates for Monday.
        mia: make that 16 plates",
        { decisions: &["35 degrees"], items: &[("mia", "prepare 16 plates", "2026-03-16")], gone: &["12"] }

    a_long_way_to_agreement: "
        ada: Which framework for the new site?
        bo: I'd prefer Svelte.
        mia: I'd prefer React, everybody knows it.
        bo: The bundle is five times bigger though.
        mia: Fair point.
        ada: So Svelte?
        mia: ok, Svelte it is
        bo: 🎉",
        { decisions: &["svelte"] }

    a_plan_is_called_off: "
        ada: Decision: we sponsor the hackathon with 1000 euros.
        bo: 👍
        mia: I'll send them the logo tomorrow.
        ada: The hackathon is cancelled, they wrote just now.
        mia: ok, then I won't send the logo.",
        { gone: &["sponsor"] }

    two_decisions_and_a_late_objection: "
        ada: Let's rename the product to Heron.
        bo: yes
        ada: And let's drop the free plan.
        bo: agreed
        mia: I disagree about the free plan, we'd lose the students.
        ada: Good point, let's think about that again.",
        { decisions: &["heron"] }

    relayed_commitments: "
        ada: Did Jonas reply?
        bo: Yes, he says he'll sign on Thursday.
        mia: And the bank said they will call us tomorrow.",
        { }

    a_checklist: "
        ada: Minutes of today:
        | - Decided: weekly sync moves to Tuesdays at 9:30
        | - Action: Bo to update the calendar by Thursday
        | - Action: @mia send the guidelines to all teams
        | - Open question: who moderates in April?
        bo: thanks",
        { decisions: &["weekly sync tuesdays 9:30"], items: &[("bo", "update calendar", "2026-03-12"), ("mia", "send guidelines", "-")], questions: &["moderates april"] }

    sarcasm_and_refusal: "
        ada: Bo, can you present at the fair on Saturday?
        bo: No way, I'd rather clean the fridge.
        ada: Cy?
        cy: ok, I'll do it",
        { items: &[("cy", "present fair", "2026-03-14")] }

    partial_correction_of_an_item: "
        bo: I'll send the invoice to Mia by Monday.
        bo: sorry, to Cy, not to Mia
        cy: thx",
        { items: &[("bo", "send invoice cy", "2026-03-16")], gone: &["mia"] }

    ein_verein_plant_ein_turnier: "
        ada: Wann machen wir das Turnier? 9. Mai oder 16. Mai?
        bo: 16. Mai passt mir besser.
        mia: mir auch
        ada: Gut, dann also der 16. Mai.
        bo: Ich frage den Platzwart bis Freitag.
        mia: Wer kümmert sich um die Pokale?
        cy: ich
        ada: Ach Mist, am 16. Mai ist die Halle belegt. Nehmen wir den 23. Mai.
        bo: ok",
        { decisions: &["23. mai"], items: &[("bo", "platzwart fragen", "2026-03-13"), ("cy", "pokale kümmern", "-")] }

    eine_absage_im_gespraech: "
        mia: Ich kann am Donnerstag die Kasse übernehmen.
        ada: super, danke
        mia: Sorry, ich kann doch nicht, muss zum Arzt.
        bo: Kein Problem, ich mach das.
        ada: Lassen wir das mit der Tombola, das ist zu viel Aufwand.
        bo: einverstanden",
        { items: &[("bo", "kasse", "2026-03-12")] }

    un_viaje_de_fin_de_curso: "
        ada: ¿Vamos a Granada o a Cádiz?
        bo: Yo voto por Granada.
        mia: Granada también.
        ada: Vale, Granada entonces.
        bo: Yo reservo los billetes antes del viernes.
        ada: Perdón, el autobús sale el 8 de mayo, no el 7 de mayo.",
        { decisions: &["granada"], items: &[("bo", "reservar billetes", "2026-03-13")] }

    une_reunion_de_quartier: "
        ada: La fête des voisins, on la fait le 30 mai ?
        bo: Oui, parfait.
        mia: Je m'occupe de la musique.
        cy: Moi je peux apporter les tables.
        mia: Ah non, désolée, le 30 je travaille. Plutôt le 31 mai ?
        ada: ok pour le 31
        bo: ça marche",
        { decisions: &["31 mai"], items: &[("mia", "musique", "-"), ("cy", "apporter tables", "-")] }

    an_agent_in_the_middle: "
        ada: @vibe what are the options for backups?
        Vibe*: There are two options: nightly dumps or streaming replication. I'd recommend streaming replication.
        bo: What would that cost?
        Vibe*: About 40 euros a month.
        bo: ok, let's do that
        ada: +1. Bo, will you set it up by the end of next week?
        bo: yep",
        { decisions: &["replication"], items: &[("bo", "set it up", "2026-03-20")] }

    nothing_but_questions: "
        ada: Do we have numbers for February?
        bo: Which ones do you mean?
        ada: The signups.
        bo: Hm, I don't have them. Does Mia have access?",
        { questions: &["numbers february", "mia access"] }

    a_conditional_plan_and_a_firm_one: "
        ada: If the venue is free we could do Saturday.
        bo: I called them, it is free.
        ada: Perfect, Saturday then!
        bo: I'll confirm with them today and Mia will post the event on Friday.",
        { decisions: &["saturday"], items: &[("bo", "confirm", "2026-03-11"), ("mia", "post event", "2026-03-13")] }

    the_same_promise_thrice: "
        bo: I'll fix the login bug.
        ada: @bo can you fix the login bug by tomorrow?
        bo: Yes, I'll fix it tomorrow.
        ada: thanks, the login bug is really annoying",
        { items: &[("bo", "fix login bug", "2026-03-12")] }
}
