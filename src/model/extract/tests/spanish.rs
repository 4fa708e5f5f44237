//! Spanish.

use super::dialogues;

dialogues! {
    se_corrige_una_fecha: "
        ada: Decidimos entregar el informe el viernes.
        bo: El viernes es fiesta.
        ada: Mejor el lunes.
        bo: De acuerdo.",
        { decisions: &["lunes informe"], gone: &["viernes"] }

    un_compromiso: "
        ada: Falta el presupuesto.
        bo: Yo me encargo del presupuesto, lo envío mañana.
        ada: gracias",
        { items: &[("bo", "presupuesto", "2026-03-12")] }

    una_peticion_aceptada: "
        ada: @bo ¿puedes reservar la sala para el lunes?
        bo: Sí, claro.",
        { items: &[("bo", "reservar sala", "2026-03-16")] }

    una_peticion_rechazada: "
        ada: @bo ¿puedes comprar la tarta?
        bo: No puedo, no tengo tiempo.
        mia: Lo hago yo.",
        { items: &[("mia", "comprar tarta", "-")] }

    una_propuesta_aceptada: "
        ada: ¿Qué tal si hacemos la fiesta en el parque?
        bo: Me parece bien.",
        { decisions: &["fiesta parque"] }

    sin_conclusion: "
        ada: Yo prefiero Postgres porque es más seguro.
        bo: Prefiero SQLite, es suficiente.",
        { conclusion: "ada postgres bo sqlite" }

    se_aplaza: "
        ada: ¿Hacemos también el modo oscuro?
        bo: Lo dejamos para más adelante.",
        { deferred: &["modo oscuro"] }

    pregunta_abierta: "
        ada: ¿Quién paga el puesto de la feria?
        bo: Ni idea.",
        { questions: &["paga puesto"] }

    voy_a_y_futuro: "
        ada: Voy a preparar las diapositivas para el jueves.
        bo: Enviaré las invitaciones antes del 20 de marzo.
        mia: Estaré de vacaciones en abril.",
        { items: &[("ada", "preparar diapositivas", "2026-03-12"), ("bo", "enviar invitaciones", "2026-03-20")] }
}
