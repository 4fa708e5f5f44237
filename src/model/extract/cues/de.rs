//! German.

use super::{Cue, Words};

pub(crate) const WORDS: Words = Words {
    cues: &[
        (
            Cue::Decision,
            "also _ zu _ für|damit _ zu _ für|macht _ zu _ für|\
             machen wir das so|machen wir es so|machen wir's so|so machen wir das|so machen wir es|das machen wir so|entschluss :|meine entscheidung :|ich entscheide :|ich entscheide|fazit :|endgültig :|final :|mehrheit für|die mehrheit|dann gilt|es gilt|steht fest :|bleibt es bei|wir behalten|wir wählen|wir ziehen|wir führen|\
             beschlossen|entschieden|entscheidung :|einigen uns|wir nehmen|wir machen|wir bleiben bei|\
             abgemacht|vereinbart|geeinigt|beschluss :|fix ist|steht fest|wir haben uns auf|festgelegt|\
             es bleibt bei|dann also|wir gehen mit|wir starten|wir liefern|wir veröffentlichen|\
             wir verwenden|wir benutzen|wir nutzen|wir treffen uns|wir verschieben|wir stellen|beschließen|\
             ist genehmigt|genehmigt|ausgemacht|wir fahren|wir setzen auf|der plan ist|wir werden|ergebnis :|\
             wir fahren mit",
        ),
        (
            Cue::Undecided,
            "entscheiden wir nicht|nicht heute entscheiden|entscheiden das nicht|entscheiden es nicht|entscheiden wir später|keine entscheidung|\
             noch nicht|nicht entschieden|nicht beschlossen|falls|wenn wir|bevor wir|müssen entscheiden|\
             muss entschieden|entschieden werden|nichts entschieden|nichts beschlossen|unentschieden|\
             nie beschlossen|nicht einig|nicht geeinigt|wurde entschieden|wer hat entschieden",
        ),
        (
            Cue::Proposal,
            "ich schlage _ vor , dass wir|ich schlage _ vor , wir|ich schlage _ vor|\
             lasst uns|lass uns|ich schlage vor , dass wir|ich schlage vor|ich würde vorschlagen|\
             wir sollten|wir könnten|mein vorschlag :|vorschlag :|mein vorschlag ist|mein vorschlag wäre|\
             sollen wir|sollten wir|wollen wir|können wir|könnten wir|wie wäre es mit|wie wäre|wie wär's mit|\
             wie wär es mit|was haltet ihr von|was hältst du von|warum nicht|wie wäre es , wenn wir|\
             machen wir|nehmen wir|treffen wir uns|gehen wir|passt|einigen wir uns auf|ich empfehle|\
             ich beantrage|antrag :|ist|geht|sagen wir|bleiben wir|fahren wir|verschieben wir",
        ),
        (
            Cue::Favour,
            "ich bin für|ich wäre für|ich bevorzuge|mir wäre|ich würde lieber|ich hätte lieber|\
             ich würde|ich finde|ich plädiere für|meine stimme für|ich stimme für|lieber wäre mir|\
             ich möchte lieber|ich möchte|ich will|ich mag|ich nehme lieber|ich denke|ich glaube|ich meine|\
             meiner meinung nach|ich tendiere zu|ich bleibe bei",
        ),
        (
            Cue::Agree,
            "mir auch|mich auch|ich auch|ja|jo|jup|jawohl|einverstanden|passt|passt mir|passt für mich|klingt gut|klingt super|genau|\
             gute idee|super idee|super|gut|okay|ok|geht klar|alles klar|in ordnung|gerne|gern|\
             machen wir|machen wir so|so machen wir|finde ich gut|find ich gut|bin dabei|ich bin dabei|\
             dafür|ich bin dafür|bin dafür|stimme zu|ich stimme zu|von mir aus|perfekt|prima|klar|\
             na klar|sehr gut|bin einverstanden|abgemacht|geht|deal|top|spricht nichts dagegen|\
             keine einwände|läuft|stimmt|sicher|natürlich|auf jeden fall|wunderbar|hört sich gut an|\
             du hast recht|überzeugt|+1|👍|👌|✅|💯|🎉|mach ich|mache ich|wird gemacht|nehmen wir|cool|toll",
        ),
        (
            Cue::Works,
            "gefällt mir|gefällt mir gut|passt mir|passt für mich|passt|passt gut|klingt gut|ist gut|ist okay|ist ok|ist super|geht klar|\
             geht bei mir|so machen wir|machen wir so|machen wir das|bin dabei|einverstanden|bin dafür|\
             stimme zu|finde ich gut|geht für mich|dann nehmen wir|nehmen wir|+1|👍|✅|dann also|gerne|\
             keine einwände|ist mir recht",
        ),
        (
            Cue::Refuse,
            "leider nicht|geht leider nicht|das geht leider nicht|tut mir leid , nein|tut mir leid|bedaure|sorry , nein|\
             nein|nee|nö|niemand|lieber nicht|auf keinen fall|bitte nicht|ich bin dagegen|dagegen|\
             nicht wirklich|eher nicht|kommt nicht in frage|👎|-1|nicht so gut|passt nicht|leider nein|keinesfalls",
        ),
        (
            Cue::Object,
            "moment|warte|wartet|halt|stopp|ich bin dagegen|dagegen|ich widerspreche|einspruch|\
             bin nicht einverstanden|nicht einverstanden|ich bin nicht sicher|bin mir nicht sicher|\
             nicht so schnell|lass mich überlegen|lasst mich überlegen|muss ich überlegen|\
             ich muss darüber nachdenken|darüber nachdenken|sehe ich anders|sehe das anders|\
             finde ich nicht gut|zu riskant|ich habe bedenken|habe bedenken|glaube ich nicht|\
             nicht überzeugt|veto|geht nicht|passt nicht|bin skeptisch|👎|-1|halte ich für|keine gute idee",
        ),
        (
            Cue::Correct,
            "korrektur|korrektur :|stattdessen|doch lieber|doch erst|doch am|doch schon|doch nicht|eigentlich|\
             lieber|verschoben auf|verschieben auf|verschieben wir auf|ich meinte|ich meine|sorry|\
             verschrieben|vertippt|mein fehler|mach daraus|macht daraus|ändern auf|geändert auf|\
             jetzt doch|nein ,|statt|anstatt|nicht mehr|planänderung|wird auf|sagen wir|sagen wir doch|\
             vertan|falsch|quatsch|besser|erhöht auf|gesenkt auf|reduziert auf|neuer termin|\
             zurück zu|zurück auf|doch|sondern|genauer gesagt|entschuldigung|vorgezogen auf|\
             verlegt auf|verlegen wir auf|streich|streicht",
        ),
        (
            Cue::Restate,
            "ist jetzt|sind jetzt|muss sein|wird es|ist nun|moment|warte|es sind|es ist",
        ),
        (
            Cue::InsteadOf,
            "statt|anstatt|anstelle von|und nicht|nicht|, nicht|ersetzt",
        ),
        (Cue::ButNew, "sondern|sondern erst|sondern schon"),
        (
            Cue::Not,
            "nicht|nicht am|statt|anstatt|von|vom|kein|keine|nicht mehr|anstelle von|ersetzt",
        ),
        (
            Cue::Retract,
            "doch nicht|vergiss es|vergesst es|vergiss das|vergesst das|lassen wir das|lassen wir es|\
             lasst uns das nicht|streichen wir|streich das|streicht das|hat sich erledigt|\
             ist abgesagt|sagen wir ab|abgesagt|abblasen|blasen wir ab|wird nicht mehr gebraucht|\
             brauchen wir nicht mehr|nehme ich zurück|ich nehme das zurück|lieber doch nicht|fällt aus|\
             verwerfen|verworfen|brauchen wir doch nicht|entfällt|ist hinfällig|lassen wir doch|\
             wir lassen",
        ),
        (
            Cue::Defer,
            "später|nicht jetzt|vertagen|vertagt|zurückstellen|zurückgestellt|stellen wir zurück|\
             verschieben wir|wir verschieben|vertagen wir|wir vertagen|nächstes quartal|nächstes jahr|ein andermal|ein anderes mal|parken|\
             auf eis|nächste version|nächsten sprint|nicht für dieses|nicht in diesem|heben wir uns|\
             nächstes mal|kommt später|außerhalb des umfangs|nicht dieses jahr|nächste saison|\
             irgendwann|nach dem release|nach dem start|im nächsten release|backlog",
        ),
        (
            Cue::Promise,
            "ich werde|ich würde gerne|lass mich|ich versuche|ich will mal",
        ),
        (
            Cue::CanDo,
            "ich|ich kann|ich könnte|ich muss|ich soll|kann ich|werde ich|ich möchte|ich darf",
        ),
        (
            Cue::TakeOn,
            "ich mache das|ich mach das|ich mach's|das mache ich|das mach ich|mach ich|mache ich|\
             ich übernehme das|das übernehme ich|übernehme ich|ich übernehme|ich kümmere mich darum|\
             ich kümmere mich drum|kümmere mich drum|kümmere mich darum|darum kümmere ich mich|\
             ich kümmer mich|wird gemacht|überlass das mir|überlasst das mir|ich erledige das|erledige ich|\
             bin dran|ich bin dran|kann ich machen|ich kann das machen|ich kann das übernehmen|\
             das kann ich machen|das kann ich übernehmen|kann ich übernehmen|ich|ich kann|ich kann das|\
             geht klar , mache ich|das erledige ich|ich nehme das|ich nehm das|ich mache es",
        ),
        (Cue::Offer, "soll ich|kann ich|sollte ich|könnte ich"),
        (
            Cue::Request,
            "kannst du bitte|könntest du bitte|kannst du|könntest du|würdest du|magst du|bitte|machst du|\
             kannst|könntest|wärst du so nett|würdest du bitte|kannst du noch|könnt ihr|könntet ihr|du sollst|\
             schickst du|übernimmst du|prüfst du|schreibst du|buchst du|bestellst du|fragst du|\
             kümmerst du dich um|kümmerst du dich|bringst du|organisierst du|reservierst du|rufst du|\
             erledigst du|du musst|du solltest|hilfst du",
        ),
        (
            Cue::WhoAsks,
            "wer kann|wer könnte|wer will|wer möchte|wer würde|kann jemand|könnte jemand|wer übernimmt|\
             wer macht|wer kümmert sich um|wer|jemand müsste|jemand muss|jemand sollte|mag jemand|hat jemand zeit",
        ),
        (
            Cue::WillDo,
            "wird|soll|kann|muss|übernimmt|kümmert sich um|kümmert sich|macht|bitte|:|-|will|würde|könnte|sollte|darf",
        ),
        (
            Cue::Cannot,
            "ich darf nicht|darf ich nicht|darf ich leider nicht|ich darf das nicht|keinen zugang|ich kann nicht|kann ich nicht|ich kann leider nicht|ich kann doch nicht|keine zeit|\
             habe keine zeit|hab keine zeit|schaffe ich nicht|schaff ich nicht|ich schaffe es nicht|\
             ich schaffe das nicht|ich schaffe das doch nicht|ich schaff das nicht|\
             ich schaffe das leider nicht|ich schaffe es doch nicht|geht bei mir nicht|bin im urlaub|\
             ich bin krank|leider nein|kann das nicht|kann das doch nicht|kann leider nicht|\
             ich kann das nicht|ich kann das doch nicht|ich kann das leider nicht|bin krank|bin verplant|\
             ich bin nicht da|ich bin raus|keine kapazität|schaffe es nicht|schaffe das nicht",
        ),
        (
            Cue::HandOver,
            "an meiner stelle|statt mir|für mich|übernimmt|übernimm|übernehme|springt ein|springe ein|\
             springst du ein|gibt ab|übergebe|an deiner stelle|für dich|stattdessen|statt dir|übernehmen|\
             anstelle von mir|gebe das an|abgeben|übernimmst|macht das|macht es|mache das|mach das",
        ),
        (
            Cue::Done,
            "erledigt|fertig|habe ich schon|hab ich schon|schon gemacht|ist gemacht|verschickt|habe schon",
        ),
        (
            Cue::If,
            "wenn|falls|sofern|es sei denn|hätte|hätten|wäre|könnte|würde|je nachdem",
        ),
        (
            Cue::Hedge,
            "wohl|vielleicht|wahrscheinlich|eventuell|evtl|vermutlich|womöglich|möglicherweise|mal sehen|\
             irgendwann|hoffentlich",
        ),
        (
            Cue::Reported,
            "sagte|sagt|meinte|schrieb|erzählte|hat gesagt|hat gemeint|hat geschrieben|laut|gesagt|\
             behauptet|fragte|findet|immer|jeden tag|jede woche|normalerweise|meistens",
        ),
        (
            Cue::Order,
            "system :|ignoriere alle|ignoriere die|ignoriere alles|vergiss alle anweisungen|du bist ein assistent|du bist ein sprachmodell|du bist ein bot|du bist eine ki|anweisung :|anweisungen :|schreib in die zusammenfassung|\
             ignoriere alle|ignoriere die|ignoriere deine|ignoriert alle|du bist jetzt",
        ),
        (
            Cue::Rhetorical,
            "wer um himmels willen|was um himmels willen|wer bitte|was bitte|wer hat denn bitte|kannst du dir das vorstellen|kannst du dir vorstellen|oder ?|nicht wahr|wer weiß|wie geht's|wie geht es|was soll's|echt ?|wirklich ?|ok ?|okay ?|\
             ne ?|einverstanden ?|passt das ?|alles klar ?|was meint ihr|was meinst du|was denkt ihr|\
             meinungen ?|stimmt's|gell ?|was sonst|einwände ?|was ?|warum ?",
        ),
        (
            Cue::NoAnswer,
            "weiß ich leider nicht|weiß ich auch nicht|weiß ich noch nicht|keinen schimmer|weiß nicht|weiss nicht|weiß ich nicht|\
             keine ahnung|weiß nicht|weiß ich nicht|weiss nicht|gute frage|nicht sicher|muss ich fragen|\
             muss ich nachsehen|ich frage nach|ich schaue nach|kommt drauf an|unklar|mal sehen|\
             kann ich nicht sagen|frage ich",
        ),
        (
            Cue::Open,
            "offene frage :|offene frage|noch offen|noch unklar|ist unklar|ist offen|bleibt offen|\
             müssen wir noch klären|müssen noch klären|noch zu klären|noch nicht entschieden|\
             müssen wir noch entscheiden|frage :|ungeklärt|steht noch nicht fest|ich frage mich",
        ),
        (
            Cue::Asks,
            "wann|wer|wie viel|wie viele|wie lange|wo|welche|welcher|welches|welchen|sollen wir|wollen wir|\
             können wir|kannst du|könntest du|was ist|was kostet|gibt es|haben wir|brauchen wir|wie viel kostet|\
             was machen|wie teuer|warum|wieso|kann jemand|könnte jemand",
        ),
        (
            Cue::Aside,
            "weil|denn|damit wir|aber|da wir|sobald|obwohl|falls|wenn|, da|, dann|, damit|, ok|, danke|, ich|\
             , das|, es|, ihr|, wir|, der|, die|, aber|, weil|, denn|sonst|, bitte",
        ),
        (Cue::It, "das|es|dies|die|den|sie|darum|drum|so"),
        (Cue::We, "wir|uns|lasst uns|unser|unsere"),
    ],
    stop: "\
        aber alle als also am an auch auf aus bei bin bis bitte da damit dann das dass dein dem den \
        der des dich die dies diese dir doch du durch ein eine einem einen einer es etwas für gegen \
        gibt hat haben habe hast hier hin ich ihr im in ist ja jede kann kein keine man mehr mein mich \
        mir mit muss nach nicht noch nun nur ob oder ohne schon sein sich sie sind so soll über um und \
        uns unter vom von vor war was wann warum weil wenn wer werden wie wieder wir wird wo zu zum \
        zur sollen sollten können könnten könnte kannst könntest lieber nein danke okay heute eigentlich \
        stattdessen gut gerne mal euch unser unsere dieser dieses sehr beim werde würde sonst",
    common: "\
        machen müssen brauchen morgen woche tag tage uhr termin treffen gut klar passt moment \
        hallo neue neuen ersten erst zeit jahr leute geht lassen vielleicht wollen nehmen wäre \
        besser schicke mache zwei drei vier fünf sechs sieben acht neun zehn dafür alles gute \
        einverstanden beschlossen entschieden monat ende kümmere später nächste nächsten raum bestellen",
    work: "\
        liefern:liefere:liefert führen:führe:führt fahren:fahre:fährt halten:halte:hält moderieren:moderiere:moderiert \
        abgeben:gebe:gibt dekorieren:dekoriere:dekoriert putzen:putze:putzt verteilen:verteile:verteilt \
        aufbauen:baue:baut zahlen:zahle:zahlt bezahlen:bezahle:bezahlt mieten:miete:mietet basteln:bastle:bastelt \
        spülen:spüle:spült posten:poste:postet tippen:tippe:tippt hängen:hänge:hängt laminieren:laminiere:laminiert \
        schicken:schicke:schickt senden:sende:sendet schreiben:schreibe:schreibt prüfen:prüfe:prüft \
        checken:checke:checkt testen:teste:testet buchen:buche:bucht bestellen:bestelle:bestellt \
        rufen:rufe:ruft anrufen fragen:frage:fragt klären:kläre:klärt organisieren:organisiere:organisiert \
        besorgen:besorge:besorgt kaufen:kaufe:kauft bringen:bringe:bringt bereiten:bereite:bereitet \
        erstellen:erstelle:erstellt bauen:baue:baut aktualisieren:aktualisiere:aktualisiert \
        übernehmen:übernehme:übernimmt kümmern:kümmere:kümmert reservieren:reserviere:reserviert \
        laden:lade:lädt melden:melde:meldet informieren:informiere:informiert sprechen:spreche:spricht \
        planen:plane:plant setzen:setze:setzt legen:lege:legt stellen:stelle:stellt holen:hole:holt \
        drucken:drucke:druckt reparieren:repariere:repariert fixen:fixe:fixt \
        dokumentieren:dokumentiere:dokumentiert sammeln:sammle:sammelt verschicken:verschicke:verschickt \
        suchen:suche:sucht schauen:schaue:schaut geben:gebe:gibt leiten:leite:leitet \
        machen:mache:macht erledigen:erledige:erledigt kochen:koche:kocht backen:backe:backt \
        übersetzen:übersetze:übersetzt überarbeiten:überarbeite:überarbeitet \
        korrigieren:korrigiere:korrigiert entwerfen:entwerfe:entwirft zeichnen:zeichne:zeichnet \
        fassen:fasse:fasst ändern:ändere:ändert ergänzen:ergänze:ergänzt entfernen:entferne:entfernt \
        löschen:lösche:löscht installieren:installiere:installiert richten:richte:richtet \
        liefern:liefere:liefert bezahlen:bezahle:bezahlt überweisen:überweise:überweist \
        hängen:hänge:hängt vereinbaren:vereinbare:vereinbart verlängern:verlängere:verlängert \
        putzen:putze:putzt waschen:wasche:wäscht fahren:fahre:fährt lesen:lese:liest \
        messen:messe:misst tragen:trage:trägt packen:packe:packt mieten:miete:mietet sagen:sage:sagt \
        kontaktieren:kontaktiere:kontaktiert vorbereiten hochladen einladen mitbringen abholen \
        aufräumen:räume:räumt schneiden:schneide:schneidet nehmen:nehme:nimmt prüfe unterschreiben \
        veröffentlichen:veröffentliche:veröffentlicht recherchieren:recherchiere:recherchiert \
        beantragen:beantrage:beantragt formulieren:formuliere:formuliert verteilen:verteile:verteilt \
        zusammenfassen zusammenstellen nachfragen nachsehen weiterleiten fertigmachen aufbauen:baue:baut \
        abklären verhandeln:verhandle:verhandelt starten:starte:startet moderieren:moderiere:moderiert \
        streichen:streiche:streicht malen:male:malt betreuen:betreue:betreut kopieren:kopiere:kopiert",
    idle: "sein haben denken glauben finden warten bleiben kommen wissen sehen vermissen gehen überlegen schlafen freuen ärgern wundern langweilen da",
    days: [
        "montag|montags|mo",
        "dienstag|dienstags",
        "mittwoch|mittwochs",
        "donnerstag|donnerstags",
        "freitag|freitags",
        "samstag|samstags|sonnabend",
        "sonntag|sonntags",
    ],
    months: [
        "januar|jänner",
        "februar",
        "märz",
        "april",
        "mai",
        "juni",
        "juli",
        "august",
        "september",
        "oktober",
        "november",
        "dezember",
    ],
    fillers: "auch dann noch bitte schnell eben mal also gerne gern ja danke okay ok gleich selbst so doch dafür \
        stattdessen persönlich",
    before_date: "bis am zum spätestens vor ab zu den dem der im in zur",
    numbers: "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn \
        sechzehn siebzehn achtzehn neunzehn zwanzig",
};
