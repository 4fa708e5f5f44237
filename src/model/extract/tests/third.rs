//! Casual remarks.

use super::dialogues;

dialogues! {
    a_meeting_point: "
        mia: where do we meet on saturday?
        cy: main station, 9?
        mia: 9 is too early for me
        cy: 9:30?
        mia: ok
        bo: i'll bring the map",
        { decisions: &["9:30"], items: &[("bo", "bring map", "-")] }

    a_vendor_choice_with_reasons: "
        ada: We have to choose between Hetz and Nimbus for hosting.
        bo: Nimbus is cheaper but had two outages last month.
        mia: I'd vote for Hetz, reliability matters more.
        bo: Agreed.
        ada: Okay, so we're going with Hetz. Bo, could you sign the contract by the end of the month?
        bo: Will do.",
        { decisions: &["hetz"], items: &[("bo", "sign contract", "2026-03-31")] }

    a_name_is_changed: "
        ada: We'll call the new channel #help-desk.
        bo: Sounds good.
        mia: Could we call it #support instead? Customers know that word.
        ada: Good point, #support it is.
        bo: +1",
        { decisions: &["support"], gone: &["help-desk"] }

    somebody_already_did_it: "
        ada: I'll update the wiki page.
        bo: I already updated it this morning.
        ada: Oh great, thanks!",
        { }

    a_deadline_is_extended: "
        ada: @mia please send me the figures by Thursday.
        mia: Thursday is tight. Friday?
        ada: Friday is fine.
        mia: ok then",
        { items: &[("mia", "send figures", "2026-03-13")] }

    a_correction_of_who: "
        ada: Bo will present the roadmap on Monday.
        ada: Sorry, I meant Mia, not Bo.
        mia: Right, I'm presenting.",
        { items: &[("mia", "present roadmap", "2026-03-16")] }

    a_group_task_and_a_named_one: "
        ada: We should clean the storage room before the inspection.
        bo: Agreed. Saturday?
        mia: Works for me.
        cy: I'm out on Saturday, sorry.
        ada: Fine, the three of us then. I'll buy gloves and bags.",
        { decisions: &["clean storage room"], items: &[("ada", "buy gloves bags", "-")] }

    refused_then_reconsidered: "
        ada: @cy could you run the workshop on 2 April?
        cy: No, I'm fully booked that week.
        ada: It's only an hour.
        cy: Ok, I'll do it then.",
        { items: &[("cy", "run workshop", "2026-04-02")] }

    thinking_aloud: "
        ada: I wonder if we should move to a four day week.
        bo: I can't imagine the customers would like that.
        mia: I need to think about it.",
        { questions: &["four day week"] }

    three_open_questions: "
        ada: Before Friday we need answers: Who approves the budget? Is the insurance valid abroad? Which airline?
        bo: The budget is approved by Mia.
        cy: I can ask the insurer tomorrow.",
        { items: &[("cy", "ask insurer", "2026-03-12")], questions: &["insurance valid", "airline"] }

    a_formal_minute: "
        ada: It was agreed that the annual fee will be raised to 60 euros.
        ada: It was further agreed that the courts will be closed in August.
        bo: I would like it noted that I voted against the fee.",
        { decisions: &["annual fee 60", "courts closed august"] }

    a_wrong_date_fixed_by_somebody_else: "
        ada: Reminder: the audit starts on 2 April.
        bo: It's 9 April.
        ada: Oh, you're right, 9 April.",
        { gone: &["2"] }

    eine_mannschaft: "
        ada: Leute, das Spiel am Samstag: Treffpunkt 13 Uhr?
        bo: 12:30 wäre besser.
        ada: ok, 12:30.
        mia: Ich bringe die Trikots mit.
        cy: Ich kann am Samstag leider nicht.
        ada: Schade. Bo, fährst du?
        bo: Ja, ich fahre.",
        { decisions: &["12:30"], gone: &["13 uhr"], items: &[("mia", "trikots mitbringen", "-")] }

    una_tienda: "
        ada: Hemos decidido abrir los domingos.
        bo: ¿Desde cuándo?
        ada: Desde el 5 de abril.
        bo: Yo preparo los turnos para el lunes.
        mia: No estoy de acuerdo con abrir los domingos.
        ada: Hablemos mañana entonces.",
        { items: &[("bo", "preparar turnos", "2026-03-16")] }

    un_choix_technique: "
        ada: On garde React ou on passe à Svelte ?
        bo: Svelte, c'est plus léger.
        mia: Svelte aussi.
        ada: Ok, on part sur Svelte. Bo, tu peux faire un prototype d'ici vendredi ?
        bo: Oui, je m'en occupe.
        mia: Je vais regarder la migration des tests la semaine prochaine.",
        { decisions: &["svelte"], items: &[("bo", "faire prototype", "2026-03-13"), ("mia", "regarder migration tests", "2026-03-20")] }
}
