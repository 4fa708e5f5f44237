//! More adversarial dialogues.

use super::dialogues;

dialogues! {
    a_release_with_everything: "
        ada: We need to settle the 2.0 release. I propose we ship on Thursday, 19 March.
        bo: Works for me, the migration is tested.
        mia: Same here.
        ada: Great. @bo could you prepare the changelog by Monday?
        bo: Sure thing.
        mia: I'll update the status page right before the release.
        ada: Hmm, I just saw that support is short-staffed on the 19th. Let's make it Tuesday, 24 March instead.
        bo: Fine with me.
        mia: ok
        cy: What about the iOS app, does it need an update as well?",
        { decisions: &["24 march"], gone: &["19", "thursday"], items: &[("bo", "prepare changelog", "2026-03-16"), ("mia", "update status page", "-")], questions: &["ios app"] }

    hiring_panel: "
        mia: Feedback on the two candidates for design lead?
        ada: Noor was strong on research. Elias was stronger visually.
        bo: I'd hire Noor. The team lacks research.
        ada: Agreed, Noor.
        mia: Then we make Noor an offer. I'll draft it tomorrow.
        bo: What salary did we say? 72k?
        mia: 75k, the band was raised in January.
        ada: I'll tell Elias myself.",
        { decisions: &["hire noor"], items: &[("mia", "draft", "2026-03-12"), ("ada", "tell elias", "-")] }

    office_party_food: "
        cy: party is on the 27th. pizza or tapas?
        bo: tapas!!
        mia: tapas ❤️
        ada: ok tapas it is
        cy: how many are we? 30?
        mia: 34 with the interns
        cy: cool, i'll order for 34 then. ada can you get drinks?
        ada: yep",
        { decisions: &["tapas"], items: &[("cy", "order", "-"), ("ada", "get drinks", "-")], gone: &["30"] }

    reassigned_by_the_lead: "
        ada: @mia please write the migration guide by Wednesday.
        mia: Will do.
        ada: Actually, Bo knows the schema better. @bo can you write it instead?
        bo: ok",
        { items: &[("bo", "write migration guide", "2026-03-11")] }

    only_a_status_report: "
        ada: The build has been green since yesterday.
        bo: Nice. The flaky test was the clock again.
        mia: We fixed that one in February, I thought.
        bo: It came back with the new runner.",
        { }

    a_decision_against: "
        ada: Should we build our own login?
        bo: No, that's asking for trouble.
        mia: Agreed, let's not build our own login. Let's buy one.
        ada: Ok, we buy.",
        { decisions: &["buy"] }

    dates_in_words: "
        # 2026-03-09
        ada: I'll finish the survey by next Friday.
        bo: I'll send the numbers the day after tomorrow.
        mia: I'll book the flights by the end of next week.
        cy: I'll print the posters on April 3rd.",
        { items: &[("ada", "finish survey", "2026-03-20"), ("bo", "send numbers", "2026-03-11"), ("mia", "book flights", "2026-03-20"), ("cy", "print posters", "2026-04-03")] }

    a_guess_is_no_decision: "
        ada: Maybe we should use Kafka.
        bo: Perhaps. Or just Postgres.
        ada: Let me think about it over the weekend.
        bo: ok",
        { }

    an_hour_is_moved_and_moved_back: "
        ada: We agreed on 15:00 for the demo.
        bo: Can we do 16:00? I have a call before.
        ada: Sure, 16:00.
        bo: My call got cancelled, back to 15:00.
        ada: Perfect.",
        { decisions: &["15:00"], gone: &["16:00"] }

    a_budget_in_two_parts: "
        ada: Decision: 3000 euros for ads and 1500 euros for the booth.
        bo: Sorry, the booth is 1800 euros, they raised the price.
        ada: Ok, 1800 euros for the booth then.",
        { decisions: &["3000", "1800"], gone: &["1500"] }

    reported_decisions_of_others: "
        ada: The board decided to close the Lyon office.
        bo: Wow. When?
        ada: In autumn.",
        { decisions: &["lyon"] }

    politeness_is_no_request: "
        ada: Can you believe it's already March?
        bo: Please no. Could you imagine another winter?
        mia: Would you look at that sunshine!",
        { }

    agreement_by_another_word: "
        ada: I suggest we freeze the API at version 3.
        bo: Makes sense to me.
        cy: I can live with that.",
        { decisions: &["freeze api"] }

    a_question_answered_late: "
        ada: Which printer do we use for the badges?
        bo: Good question, I'll ask Cy.
        mia: By the way, the caterer confirmed.
        cy: We use the blue printer in the lobby for the badges.",
        { items: &[("bo", "ask cy", "-")] }

    a_promise_for_somebody_else: "
        ada: I told Jonas that you'll review his draft, Bo.
        bo: Hm, fine. I'll review it on Monday.",
        { items: &[("bo", "review", "2026-03-16")] }

    ein_projekttreffen: "
        ada: Vorschlag: Wir stellen die alte Schnittstelle zum 30. Juni ab.
        bo: Finde ich gut.
        mia: Moment, Kunde Weber braucht sie bis Ende Juli.
        ada: Ok, dann zum 31. Juli.
        mia: passt
        bo: Ich informiere die Kunden bis nächsten Montag.
        ada: @mia kannst du die Doku anpassen?
        mia: Klar, mache ich bis Freitag.
        cy: Und wer testet den Übergang?",
        { decisions: &["31. juli"], gone: &["30."], items: &[("bo", "kunden informieren", "2026-03-16"), ("mia", "doku anpassen", "2026-03-13")], questions: &["testet übergang"] }

    eine_umentscheidung: "
        ada: Wir nehmen also das Hotel Krone?
        bo: Ja.
        ada: Gut. Ich buche das Hotel Krone heute noch.
        bo: Warte, das Hotel Krone ist ausgebucht. Nehmen wir lieber das Hotel Adler.
        ada: Einverstanden.",
        { decisions: &["adler"], gone: &["krone"], items: &[("ada", "buchen", "2026-03-11")] }

    klatsch_ist_nichts: "
        ada: Ich gehe morgen ins Kino.
        bo: Viel Spaß! Ich werde wohl schlafen.
        mia: Kannst du dir das vorstellen?",
        { }

    una_reunion_de_padres: "
        ada: Propongo hacer la excursión el 15 de mayo.
        bo: Me parece bien.
        mia: Ese día hay examen. ¿Mejor el 22 de mayo?
        ada: Vale, el 22 de mayo.
        bo: De acuerdo. Yo llamo al autobús mañana.
        mia: @cy ¿podrías preparar la autorización para el viernes?
        cy: Sí, sin problema.",
        { decisions: &["22 mayo"], gone: &["15"], items: &[("bo", "llamar autobús", "2026-03-12"), ("cy", "preparar autorización", "2026-03-13")] }

    cambio_de_responsable: "
        ada: Bo se encarga de las invitaciones.
        bo: No puedo, estoy de vacaciones.
        mia: Me encargo yo.",
        { items: &[("mia", "invitaciones", "-")] }

    un_comite: "
        ada: Je propose de déplacer l'assemblée au 12 juin.
        bo: D'accord.
        mia: Je ne suis pas d'accord, le 12 juin il y a le match.
        ada: Alors le 19 juin ?
        mia: Parfait.
        bo: Ça me va. Je réserve la salle demain.
        ada: Bo, tu peux aussi prévenir la mairie avant vendredi ?
        bo: Oui.",
        { decisions: &["19 juin"], items: &[("bo", "réserver salle", "2026-03-12"), ("bo", "prévenir mairie", "2026-03-13")] }

    on_annule: "
        ada: On a décidé d'acheter un nouveau four.
        bo: Finalement non, on annule, l'ancien est réparé.
        ada: ok",
        { gone: &["acheter"] }

    a_very_long_message: "
        ada: Notes from the call with the vendor. They can deliver the panels in May. The price per panel is 210 euros. \
            They also mentioned a discount for early payment, which we could use if the grant comes through. \
            We decided to order 40 panels. I'll send the order on Monday. Bo will check the roof before that. \
            Open: who insures the transport?
        bo: 38 panels, not 40, the north side is too small.
        ada: Right, 38.",
        { decisions: &["38 panels"], gone: &["40"], items: &[("ada", "send order", "2026-03-16"), ("bo", "check roof", "-")], questions: &["insures transport"] }

    two_people_of_one_name: "
        ada: Who sets up the tent?
        zoe: Me, on Saturday morning.
        ada: Thanks Zoe!",
        { items: &[("zoe", "set* up tent", "2026-03-14")] }

    a_swedish_thread: "
        ada: Vi borde flytta mötet till fredag.
        bo: Ja, det är bra. Jag skickar en inbjudan i morgon.
        ada: Tack!",
        { }
}
