//! Spanish.

use super::{Cue, Words};

pub(crate) const WORDS: Words = Words {
    cues: &[
        (
            Cue::Decision,
            "resolución :|final :|mi decisión :|yo decido :|decido :|gana|la mayoría|mayoría para|definitivo :|resultado :|nos quedamos|queda en|cerrado en|nos decantamos por|hemos quedado|\
             decidimos|hemos decidido|acordamos|hemos acordado|quedamos en|queda decidido|decidido|acordado|\
             decisión :|vamos con|nos quedamos con|queda acordado|está decidido|aprobado|se aprueba|\
             vamos a usar|usaremos|lanzaremos|haremos|elegimos|hemos elegido|cerrado :|acuerdo :|\
             al final vamos|entonces vamos con|queda fijado|nos reunimos|entregamos|lanzamos|salimos|\
             el plan es|conclusión :",
        ),
        (
            Cue::Undecided,
            "no lo decidimos|no decidimos|decidimos otro día|no decidamos|sin decisión|\
             no hemos|si decidimos|todavía no|aún no|sin decidir|no decidimos|no está decidido|hay que decidir|\
             tenemos que decidir|antes de decidir|no acordamos|nada decidido|no se ha decidido|quizás|tal vez",
        ),
        (
            Cue::Proposal,
            "propongo que|propongo|sugiero que|sugiero|deberíamos|podríamos|vamos a|qué tal si|qué tal|\
             que tal|por qué no|mi propuesta :|mi propuesta es|propuesta :|y si|qué os parece si|\
             qué os parece|qué te parece si|qué te parece|qué les parece si|qué les parece|podemos|hagamos|\
             usemos|quedamos el|quedamos a|os va bien|te va bien|les va bien|os parece bien|recomiendo|vayamos|\
             quedemos|pongamos|dejemos|nos vemos|lanzamos|hacemos|usamos",
        ),
        (
            Cue::Favour,
            "prefiero|yo prefiero|preferiría|estoy a favor de|yo voto por|voto por|a mí me gusta|me gusta|\
             me gustaría|yo creo que|creo que|pienso que|yo iría con|yo elegiría|me inclino por|yo optaría por|\
             sigo prefiriendo|me quedo con|quiero|opino que",
        ),
        (
            Cue::Agree,
            "yo también|a mí también|sí|si|de acuerdo|vale|perfecto|me parece bien|me parece perfecto|me parece genial|ok|okay|claro|\
             genial|buena idea|estupendo|bien|muy bien|hecho|por mí bien|por mi bien|adelante|+1|👍|👌|✅|💯|🎉|\
             me apunto|me va bien|me sirve|me gusta|está bien|trato hecho|conforme|excelente|listo|dale|venga|\
             fenomenal|exacto|por supuesto|cuenta conmigo|estoy de acuerdo|totalmente|sin objeciones|\
             tienes razón|me convence|claro que sí|correcto|va|bueno",
        ),
        (
            Cue::Works,
            "me parece bien|me va bien|me sirve|está bien|me parece perfecto|de acuerdo|estoy de acuerdo|\
             me apunto|por mí bien|a mí me va bien|+1|👍|✅|va bien|perfecto|hagámoslo|me parece genial|\
             vamos con eso|sin objeciones",
        ),
        (
            Cue::Refuse,
            "lamentablemente no|por desgracia no|desgraciadamente no|me temo que no|lo siento , no|lo siento|imposible|\
             no|nadie|todavía no|qué va|para nada|ni hablar|mejor no|👎|-1|en absoluto|no me convence|nunca",
        ),
        (
            Cue::Object,
            "espera|esperad|un momento|no estoy de acuerdo|no estoy seguro|no estoy segura|me opongo|\
             no lo veo|no me convence|no me parece|déjame pensar|déjame pensarlo|tengo que pensarlo|\
             tengo dudas|estoy en contra|en desacuerdo|discrepo|demasiado arriesgado|no tan rápido|👎|-1|\
             no puede ser|no me gusta|mala idea|necesito pensarlo|sigo prefiriendo",
        ),
        (
            Cue::Correct,
            "mejor|corrección|corrección :|en realidad|finalmente|al final|quise decir|quería decir|perdón|\
             en lugar|en vez|cambiado a|cambia a|cambiamos a|se pasa al|pasa al|lo pasamos al|pasamos al|\
             me equivoqué|me he equivocado|error mío|no ,|sino|aplazado al|aplazada al|pospuesto al|pospuesta al|se pospone al|trasladado al|trasladada al|se aplaza al|se mueve al|\
             lo movemos al|movemos al|moverlo al|disculpad|pensándolo bien|ahora es|ya no|que sean|pon|\
             rectifico|digo|cambio de planes|más bien|perdona|perdonad|volvemos a|sube a|baja a|adelantado al|\
             se adelanta al|lo adelantamos al",
        ),
        (
            Cue::Restate,
            "ahora|será|serán|tiene que ser|debe ser|son|es",
        ),
        (
            Cue::InsteadOf,
            "en vez de|en vez del|en lugar de|en lugar del|y no|, no|no",
        ),
        (Cue::ButNew, "sino|sino el|pero sí"),
        (
            Cue::Not,
            "no|en vez de|en vez del|en lugar de|en lugar del|ya no|de|del|no es",
        ),
        (
            Cue::Retract,
            "olvídalo|olvidadlo|olvida eso|olvidad eso|déjalo|dejadlo|mejor no|no lo hagamos|no lo hacemos|\
             cancelado|cancelada|cancelamos|se cancela|lo cancelamos|ya no hace falta|no hace falta|descartado|\
             lo descartamos|retiro lo dicho|al final no|ya no lo necesitamos|ya no es necesario|descartamos|\
             queda cancelado|queda cancelada|ya no hacemos",
        ),
        (
            Cue::Defer,
            "más adelante|más tarde|ahora no|próximo trimestre|el año que viene|otro día|en otro momento|\
             lo aplazamos|aplazamos|aplazar|lo dejamos para|dejamos|dejémoslo para|lo dejamos|posponer|\
             posponemos|pospuesto|fuera de alcance|próxima versión|siguiente versión|para después|\
             queda pendiente|luego|la próxima temporada|próximo sprint|no para esta versión|para otra",
        ),
        (
            Cue::Promise,
            "voy a|yo voy a|vamos a ver si|me comprometo a|intentaré|prometo",
        ),
        (
            Cue::CanDo,
            "yo|puedo|yo puedo|tengo que|podría|te|os|lo|la|le|les|los|las|se|me",
        ),
        (
            Cue::TakeOn,
            "yo me encargo|me encargo yo|me encargo|lo hago yo|yo lo hago|lo hago|me ocupo|me ocupo yo|\
             yo me ocupo|déjamelo a mí|dejádmelo a mí|déjamelo|de eso me encargo yo|de eso me encargo|yo|yo puedo|\
             puedo hacerlo|puedo hacerlo yo|yo puedo hacerlo|lo haré|lo haré yo|yo lo haré|me pongo con ello|\
             me pongo|me pongo con eso|eso lo hago yo|lo asumo|lo miro yo|yo lo miro|ya lo hago yo",
        ),
        (
            Cue::Offer,
            "quieres que|queréis que|puedo|lo hago yo ?|me encargo yo ?",
        ),
        (
            Cue::Request,
            "puedes por favor|podrías por favor|puedes|podrías|por favor|te importaría|te encargas de|\
             te encargas|te ocupas de|te ocupas|tienes que|debes|podéis|podríais|me puedes|nos puedes|\
             me podrías|nos podrías",
        ),
        (
            Cue::WhoAsks,
            "quién puede|quién podría|quién se encarga de|quién se ocupa de|quién quiere|alguien puede|\
             puede alguien|podría alguien|alguien podría|quién va a|alguien tiene que|quién",
        ),
        (
            Cue::WillDo,
            "va a|se encarga de|se encargará de|se encarga del|se ocupa de|se ocupará de|se ocupa del|puede|\
             tiene que|debe|:|-|por favor|se encarga|se ocupa|lo|la",
        ),
        (
            Cue::Cannot,
            "no me dejan|no tengo permiso|no tengo acceso|estoy de viaje|estoy fuera|no puedo|no tengo tiempo|sin tiempo|no llego|imposible para mí|no podré|no voy a poder|\
             al final no puedo|estoy de vacaciones|estoy enferma|estoy enfermo|lo siento , no|no me da tiempo|\
             que lo haga otro|no doy abasto|no me es posible|estoy a tope",
        ),
        (
            Cue::HandOver,
            "en mi lugar|en vez de mí|en vez mío|por mí|lo hace|se encarga|toma el relevo|me sustituye|\
             te sustituyo|en tu lugar|por ti|lo hará|se lo paso a|te lo paso|se encargará|lo lleva",
        ),
        (
            Cue::Done,
            "hecho|ya está|enviado|ya lo he|ya lo hice|listo|terminado",
        ),
        (
            Cue::If,
            "si|a menos que|en caso de|habría|hubiera|hubiéramos|tuviera|tuviéramos|depende",
        ),
        (
            Cue::Hedge,
            "quizás|quizá|tal vez|probablemente|a lo mejor|posiblemente|puede que|ya veremos|algún día|ojalá",
        ),
        (
            Cue::Reported,
            "dijo|dice|ha dicho|escribió|comentó|según|preguntó|me dijo|cree|siempre|cada día|cada semana|\
             normalmente",
        ),
        (
            Cue::Order,
            "sistema :|system :|ignora todo|ignora las|ignora lo|eres un asistente|eres un modelo|eres un bot|eres una ia|olvida las instrucciones|instrucción :|instrucciones :|\
             ignora las|ignora todas|ignora tus|ignorad las|ahora eres",
        ),
        (
            Cue::Rhetorical,
            "quién demonios|qué demonios|quién narices|quién diablos|a quién se le ocurre|verdad ?|no ?|quién sabe|qué tal ?|cómo estáis|cómo estás|qué más da|en serio ?|vale ?|ok ?|\
             qué opináis|qué opinas|qué pensáis|qué piensas|qué os parece ?|qué te parece ?|opiniones ?|\
             alguna objeción|objeciones ?|qué ?|por qué ?|de acuerdo ?",
        ),
        (
            Cue::NoAnswer,
            "ni idea|no sé|no lo sé|no lo tengo claro|buena pregunta|no estoy seguro|no estoy segura|\
             tengo que preguntar|pregunto|preguntaré|lo averiguo|depende|ya veremos|hay que preguntar",
        ),
        (
            Cue::Open,
            "pregunta abierta :|pregunta abierta|queda por decidir|falta decidir|queda pendiente decidir|\
             no está claro|sin resolver|por decidir|tenemos que decidir|hay que decidir|pregunta :|me pregunto|\
             falta saber",
        ),
        (
            Cue::Asks,
            "cuándo|quién|cuánto|cuántos|cuánta|cuántas|dónde|qué|cuál|cómo|puedes|podrías|alguien puede|\
             podemos|deberíamos",
        ),
        (
            Cue::Aside,
            "porque|pero|ya que|así que|aunque|si|, si|, pero|, porque|, así|, que|, yo|, y yo|, gracias|\
             , vale|, ok|, es|puesto que|, por favor|, luego|, no|para que",
        ),
        (Cue::It, "eso|esto|lo|la|ello|así"),
        (Cue::We, "nosotros|nosotras|nos|vamos|nuestro|nuestra"),
    ],
    stop: "\
        al algo así aún con como cómo cuando cuándo cual cuál de del desde donde dónde el ella ellos \
        en entre era es esa ese eso esta está están este esto fue ha hay la las le les lo los más me \
        mi muy ni no nos nosotros o para pero por porque qué que quién se ser si sí sin sobre son su \
        sus también te tiene todo tu tú un una unos y ya yo vale gracias hola ok hoy mejor podemos puedo \
        puedes deberíamos podríamos vamos bien entonces luego pues a os cuánto va voy hemos he has todos tal tenemos",
    common: "\
        mañana semana día días hora acuerdo equipo reunión hacer tener ahora favor bueno claro entonces \
        encargo tiempo nueva nuevo primera primero mes año perfecto todavía quizás antes después \
        dos tres cuatro cinco seis siete ocho nueve diez quedamos propongo prefiero listo",
    work: "\
        terminar:termino:termina conducir:conduzco:conduce montar:monto:monta decorar:decoro:decora \
        colgar:cuelgo:cuelga presentar:presento:presenta moderar:modero:modera \
        invitar:invito:invita apuntar:apunto:apunta calcular:calculo:calcula negociar:negocio:negocia coger:cojo:coge \
        tramitar:tramito:tramita fotografiar:fotografío:fotografía informar:informo:informa anunciar:anuncio:anuncia \
        traducir:traduzco:traduce firmar:firmo:firma cerrar:cierro:cierra \
        enviar:envío:envía mandar:mando:manda escribir:escribo:escribe revisar:reviso:revisa \
        comprobar:compruebo:comprueba probar:pruebo:prueba reservar:reservo:reserva pedir:pido:pide \
        llamar:llamo:llama preguntar:pregunto:pregunta organizar:organizo:organiza \
        comprar:compro:compra traer:traigo:trae preparar:preparo:prepara crear:creo:crea \
        actualizar:actualizo:actualiza hacer:hago:hace buscar:busco:busca hablar:hablo:habla \
        publicar:publico:publica subir:subo:sube imprimir:imprimo:imprime arreglar:arreglo:arregla \
        instalar:instalo:instala documentar:documento:documenta recoger:recojo:recoge \
        llevar:llevo:lleva pagar:pago:paga avisar:aviso:avisa contactar:contacto:contacta \
        diseñar:diseño:diseña traducir:traduzco:traduce corregir:corrijo:corrige \
        redactar:redacto:redacta mirar:miro:mira confirmar:confirmo:confirma cocinar:cocino:cocina \
        limpiar:limpio:limpia medir:mido:mide encargar:encargo:encarga ocupar:ocupo:ocupa \
        coordinar:coordino:coordina poner:pongo:pone cambiar:cambio:cambia añadir:añado:añade \
        resumir:resumo:resume investigar:investigo:investiga alquilar:alquilo:alquila \
        conseguir:consigo:consigue dibujar:dibujo:dibuja ver entregar:entrego:entrega \
        planificar:planifico:planifica invitar:invito:invita informar:informo:informa \
        convocar:convoco:convoca desplegar:despliego:despliega firmar:firmo:firma pintar:pinto:pinta",
    idle: "ser estar ir tener poder querer creer pensar ver saber esperar quedar venir llegar echar dormir",
    days: [
        "lunes",
        "martes",
        "miércoles|miercoles",
        "jueves",
        "viernes",
        "sábado|sabado|sábados",
        "domingo|domingos",
    ],
    months: [
        "enero",
        "febrero",
        "marzo",
        "abril",
        "mayo",
        "junio",
        "julio",
        "agosto",
        "septiembre|setiembre",
        "octubre",
        "noviembre",
        "diciembre",
    ],
    fillers: "también entonces ya favor por gracias luego rápido mismo vale ok yo además y eso",
    before_date: "para el antes del de hasta este a más tardar la en los como",
    numbers: "dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince \
        dieciséis diecisiete dieciocho diecinueve veinte",
};
