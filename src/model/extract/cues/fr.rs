//! French.

use super::{Cue, Words};

pub(crate) const WORDS: Words = Words {
    cues: &[
        (
            Cue::Decision,
            "va pour|résultat :|verdict :|ma décision :|je tranche :|je décide :|je tranche|la majorité|majorité pour|final :|définitif :|l' emporte|on s' arrête sur|ce sera|on est donc d' accord|on ouvre|nous ouvrons|nous prenons|nous retenons|\
             on a décidé|nous avons décidé|décidé|c' est décidé|décision :|on part sur|on prend|\
             nous avons convenu|convenu|on est d' accord pour|on s' est mis d' accord|on garde|on choisit|\
             nous avons choisi|on a choisi|c' est acté|acté|adopté|validé|c' est validé|on retient|\
             on reste sur|nous partons sur|nous gardons|on se retrouve|on se voit|on utilise|on va utiliser|\
             on lance|on livre|on décale|on valide|c' est entendu|conclusion :|on fait|accord trouvé",
        ),
        (
            Cue::Undecided,
            "on ne décide|ne décide pas|ne décidons pas|pas de décision|on décidera|\
             peut-être|peut être|pas encore|pas décidé|rien décidé|rien n' est décidé|reste à décider|il faut décider|\
             on doit décider|avant de décider|si on|pas d' accord|pas validé|n' a pas décidé|n' a rien décidé|\
             à décider",
        ),
        (
            Cue::Proposal,
            "je propose qu' on|je propose que|je propose de|je propose d'|je propose|je suggère de|\
             je suggère d'|je suggère qu' on|je suggère|on devrait|on pourrait|nous devrions|nous pourrions|\
             et si on|si on|pourquoi pas|pourquoi ne pas|ma proposition :|proposition :|que diriez vous de|\
             que dirais tu de|qu' est ce que vous pensez de|que pensez vous de|on peut|est ce qu' on peut|\
             est ce qu' on|on se voit|on fait|on prend|on part|on utilise|ça vous va|ça te va|ça va pour|\
             je recommande|faisons|prenons|partons sur|utilisons|gardons|disons|on lance|on livre|on décale|\
             on garde|on dit|est ce que|on met",
        ),
        (
            Cue::Favour,
            "je préfère|je préférerais|je suis pour|je vote pour|mon vote va à|j' aimerais|j' aime|je pense que|\
             je crois que|je penche pour|à mon avis|je choisirais|je prendrais|je garderais|je resterais sur|\
             je trouve que|je trouve|je veux|je pense|j' opterais pour|je suis plutôt pour",
        ),
        (
            Cue::Agree,
            "oui|d' accord|ça marche|parfait|ça me va|ok|okay|ouais|très bien|bonne idée|super|génial|\
             entendu|bien sûr|volontiers|carrément|je suis d' accord|ça roule|nickel|top|exactement|tout à fait|\
             vendu|allons y|on y va|go|+1|👍|👌|✅|💯|🎉|bien|adopté|pas d' objection|aucune objection|\
             moi aussi|je valide|validé|excellent|avec plaisir|banco|c' est bon pour moi|bon pour moi|\
             tu as raison|convaincu|convaincue|cool|va pour|allez|pas de problème|pas de souci",
        ),
        (
            Cue::Works,
            "ça me plaît|me plaît bien|ça marche|ça me va|me va|me convient|c' est bon pour moi|bon pour moi|d' accord|+1|👍|✅|\
             je suis d' accord|faisons ça|faisons comme ça|va pour|on fait ça|je valide|me va bien|\
             pas d' objection|aucune objection|parfait",
        ),
        (
            Cue::Refuse,
            "malheureusement non|hélas non|malheureusement pas|je crains que non|désolé , non|désolée , non|désolé|désolée|impossible|\
             non|personne|pas encore|surtout pas|hors de question|plutôt pas|pas vraiment|👎|-1|jamais|\
             je suis contre|mauvaise idée|bof",
        ),
        (
            Cue::Object,
            "attends|attendez|un instant|une minute|je ne suis pas d' accord|pas d' accord|je suis contre|\
             je m' oppose|je ne suis pas sûr|je ne suis pas sûre|pas sûr|pas sûre|laisse moi réfléchir|\
             laissez moi réfléchir|il faut que j' y réfléchisse|j' ai des doutes|pas convaincu|\
             pas convaincue|trop risqué|pas si vite|je ne crois pas|je ne pense pas|objection|veto|👎|-1|\
             je dois réfléchir|ça ne me va pas|ça ne va pas|mauvaise idée|je préfère toujours",
        ),
        (
            Cue::Correct,
            "plutôt|finalement|en fait|au lieu|à la place|correction|correction :|je voulais dire|pardon|\
             désolé|désolée|erreur de ma part|je me suis trompé|je me suis trompée|reporté au|reportée au|reporté à|reportée à|repoussé au|repoussée au|repoussé à|repoussée à|déplacée au|déplacé à|\
             déplacée à|décalée au|décalé à|décalée à|avancée au|\
             déplacé au|décalé au|on décale au|on reporte au|on repousse au|changement de plan|\
             passe à|passe au|mettons|mets|mettez|non ,|ce n' est plus|c' est maintenant|enfin|\
             je rectifie|rectification|avancé au|on revient à|on revient au|réflexion faite|changé pour|\
             on passe à|on passe au|mais|oups|on avance au",
        ),
        (
            Cue::Restate,
            "maintenant|ce sera|ça sera|doit être|c' est|ce sont|sera",
        ),
        (
            Cue::InsteadOf,
            "au lieu de|au lieu du|au lieu d'|plutôt que|plutôt qu'|à la place de|à la place du|et pas|et non|pas|non|, pas|, non",
        ),
        (Cue::ButNew, "mais|mais plutôt|mais le"),
        (
            Cue::Not,
            "pas|pas le|non|au lieu de|au lieu du|au lieu d'|plutôt que|à la place de|à la place du|plus|de|du|et non",
        ),
        (
            Cue::Retract,
            "laisse tomber|laissez tomber|oublie|oubliez|oublie ça|oubliez ça|on annule|annulé|annulée|\
             c' est annulé|on laisse tomber|on abandonne|abandonné|finalement non|plus besoin|\
             on n' en a plus besoin|je retire|finalement pas|on ne fait pas|on ne le fait pas|\
             n' est plus nécessaire|ne faisons pas|on oublie|tombe à l' eau|on ne fait plus",
        ),
        (
            Cue::Defer,
            "plus tard|pas maintenant|trimestre prochain|prochain trimestre|l' année prochaine|\
             une autre fois|on reporte|reportons|reporter|reporté|remettre à plus tard|on remet|remettons|\
             hors périmètre|prochaine version|on verra|on en reparle|mettre de côté|on met de côté|\
             en attente|pour la prochaine|à plus tard|un autre jour|dans un deuxième temps|pas pour cette version|\
             la saison prochaine|prochain sprint",
        ),
        (
            Cue::Promise,
            "je vais|je m' engage à|j' essaie de|je vais essayer de|laisse moi|laissez moi",
        ),
        (
            Cue::CanDo,
            "je|j'|je peux|je dois|je te|je vous|je l'|je les|je le|je la|je lui|je leur|je pourrais|je me",
        ),
        (
            Cue::TakeOn,
            "je m' en occupe|je m' en charge|je le fais|je m' y mets|laisse moi faire|laissez moi faire|\
             je prends ça|je prends|je gère|c' est pour moi|moi|je peux|je peux le faire|je peux m' en occuper|\
             je peux m' en charger|je vais le faire|je le ferai|je ferai ça|je vais m' en occuper|je fais ça|\
             compte sur moi|comptez sur moi|je peux faire ça|je peux prendre ça|je prends le relais|je vais m' en charger",
        ),
        (
            Cue::Offer,
            "veux tu que je|tu veux que je|vous voulez que je|voulez vous que je|je peux|est ce que je peux",
        ),
        (
            Cue::Request,
            "peux tu|tu peux|pourrais tu|tu pourrais|s' il te plaît|s' il te plait|stp|pouvez vous|\
             pourriez vous|s' il vous plaît|svp|merci de|tu t' occupes de|tu t' occupes du|tu t' occupes des|\
             peux tu aussi|tu dois|est ce que tu peux|est ce que tu pourrais|tu veux bien|veux tu bien|tu prends|tu fais",
        ),
        (
            Cue::WhoAsks,
            "qui peut|qui pourrait|qui veut|qui s' occupe de|qui s' occupe du|qui s' occupe des|\
             qui se charge de|qui se charge du|quelqu' un peut|quelqu' un pourrait|qui|est ce que quelqu' un peut|\
             qui va|il faudrait que quelqu' un",
        ),
        (
            Cue::WillDo,
            "va|s' occupe de|s' occupe du|s' occupe des|s' occupe d'|se charge de|se charge du|se charge des|\
             se charge d'|peut|doit|:|-|s' occupera de|s' occupera du|s' il te plaît|stp|prend|devra|\
             s' occupera des|pourrait",
        ),
        (
            Cue::Cannot,
            "je n' ai pas le droit|j' ai pas le droit|je n' ai pas accès|j' ai pas accès|je suis en déplacement|je ne peux pas|je peux pas|pas le temps|je n' ai pas le temps|j' ai pas le temps|je ne pourrai pas|\
             je pourrai pas|je n' y arriverai pas|impossible pour moi|je suis en vacances|je suis malade|\
             désolé , non|désolée , non|je suis débordé|je suis débordée|je ne vais pas pouvoir|je suis absent|\
             je suis absente|finalement je ne peux pas|je n' aurai pas le temps",
        ),
        (
            Cue::HandOver,
            "à ma place|prend le relais|prends le relais|s' en occupe|s' en charge|à ta place|je passe la main|\
             pour moi|me remplace|te remplace|le fait|le fera|s' en occupera|s' en chargera|reprend|reprends",
        ),
        (
            Cue::Done,
            "c' est fait|fait|envoyé|déjà fait|terminé|j' ai déjà|fini",
        ),
        (
            Cue::If,
            "si|s'|à moins que|au cas où|aurait|aurais|aurions|serait|ça dépend|selon",
        ),
        (
            Cue::Hedge,
            "peut-être|peut être|probablement|sans doute|éventuellement|un jour|on verra|j' espère|sûrement",
        ),
        (
            Cue::Reported,
            "a dit|dit|disait|a écrit|selon|d' après|m' a dit|a demandé|pense|toujours|chaque jour|\
             chaque semaine|d' habitude",
        ),
        (
            Cue::Order,
            "système :|system :|ignore toutes|ignore les|ignorez|oublie les instructions|tu es un assistant|tu es un modèle|tu es un bot|tu es une ia|instruction :|instructions :|\
             ignore les|ignore toutes|ignore tes|ignorez les|ignorez toutes|tu es maintenant",
        ),
        (
            Cue::Rhetorical,
            "qui diable|que diable|franchement , qui|mais qui donc|n' est ce pas|non ?|qui sait|ça va ?|comment ça va|comment allez vous|vraiment ?|d' accord ?|ok ?|\
             hein ?|vous en pensez quoi|qu' en pensez vous|qu' en penses tu|tu en penses quoi|des avis ?|des objections|\
             quoi ?|pourquoi ?|ah bon ?|ça vous va ?|ça te va ?",
        ),
        (
            Cue::NoAnswer,
            "aucune idée|je ne sais pas|je sais pas|bonne question|pas sûr|pas sûre|je vais demander|je demande|\
             il faut demander|ça dépend|on verra|je me renseigne|je vais me renseigner|pas clair",
        ),
        (
            Cue::Open,
            "question ouverte :|question ouverte|reste à décider|pas encore clair|pas clair|reste à voir|\
             à décider|il faut décider|il faut encore décider|reste ouvert|reste ouverte|question :|\
             je me demande|on doit encore décider",
        ),
        (
            Cue::Asks,
            "quand|qui|combien|où est|où|quel|quelle|quels|quelles|comment|est ce que|est ce qu'|peux tu|\
             pourrais tu|tu peux|qu' est ce",
        ),
        (
            Cue::Aside,
            "parce que|parce qu'|car|mais|puisque|comme ça|si|, si|, mais|, car|, je|, on|, c'|, merci|, d'|\
             , ok|, ça|, il|, elle|, puis|, donc|, s'|, et je|pour qu'|pour que|, pas",
        ),
        (Cue::It, "ça|cela|le|la|les|l'|en|y"),
        (Cue::We, "on|nous|notre|nos"),
    ],
    stop: "\
        à au aux avec ce ces cet cette ceci cela comme dans de des donc du elle en est et être eu fait \
        il ils je la le les leur lui ma mais me même mes moi mon ne nos notre nous on ont ou où par \
        pas pour pourquoi qu quand que quel quelle qui quoi sa sans se ses si son sont sur ta te tes \
        toi ton tu un une va vos votre vous y c d j l m n s t l' d' j' m' n' s' t' c' qu' ça oui non ok \
        merci bonjour salut plutôt plus bien aussi très peut peux peut-être encore faut fais faire \
        accord tout tous alors vais puis est-ce ai a as pourrait",
    common: "\
        demain semaine jour jours heure heures réunion équipe aujourd'hui prochain prochaine nouvelle \
        nouveau temps année mois marche parfait soir matin besoin d'accord quelqu'un propose préfère \
        deux trois quatre cinq six sept huit neuf dix avant après lieu date livre occupe décidé",
    work: "\
        rendre:rends:rend terminer:termine:termine finir:finis:finit livrer:livre:livre conduire:conduis:conduit \
        tenir:tiens:tient fournir:fournis:fournit choisir:choisis:choisit remplir:remplis:remplit animer:anime:anime \
        présenter:présente:présente photographier:photographie:photographie décorer:décore:décore poster:poste:poste \
        déposer:dépose:dépose ranger:range:range afficher:affiche:affiche distribuer:distribue:distribue \
        négocier:négocie:négocie calculer:calcule:calcule amener:amène:amène ramener:ramène:ramène monter:monte:monte \
        inscrire:inscris:inscrit remettre:remets:remet noter:note:note assurer:assure:assure diffuser:diffuse:diffuse \
        envoyer:envoie:envoie écrire:écris:écrit vérifier:vérifie:vérifie tester:teste:teste \
        réserver:réserve:réserve commander:commande:commande appeler:appelle:appelle \
        demander:demande:demande organiser:organise:organise acheter:achète:achète \
        apporter:apporte:apporte préparer:prépare:prépare créer:crée:crée faire:fais:fait \
        mettre:mets:met prendre:prends:prend chercher:cherche:cherche parler:parle:parle \
        publier:publie:publie imprimer:imprime:imprime réparer:répare:répare corriger:corrige:corrige \
        installer:installe:installe rédiger:rédige:rédige relire:relis:relit relancer:relance:relance \
        prévenir:préviens:prévient contacter:contacte:contacte dessiner:dessine:dessine \
        traduire:traduis:traduit payer:paie:paie confirmer:confirme:confirme cuisiner:cuisine:cuisine \
        nettoyer:nettoie:nettoie mesurer:mesure:mesure occuper:occupe:occupe charger:charge:charge \
        inviter:invite:invite informer:informe:informe louer:loue:loue regarder:regarde:regarde \
        ajouter:ajoute:ajoute résumer:résume:résume gérer:gère:gère déployer:déploie:déploie \
        partager:partage:partage planifier:planifie:planifie signer:signe:signe \
        transmettre:transmets:transmet récupérer:récupère:récupère coordonner:coordonne:coordonne \
        documenter:documente:documente terminer:termine:termine chiffrer:chiffre:chiffre \
        mettre:mets:met analyser:analyse:analyse comparer:compare:compare finir:finis:finit",
    idle: "être avoir aller pouvoir vouloir penser croire voir savoir attendre rester venir arriver dormir réfléchir",
    days: [
        "lundi|lundis",
        "mardi|mardis",
        "mercredi|mercredis",
        "jeudi|jeudis",
        "vendredi|vendredis",
        "samedi|samedis",
        "dimanche|dimanches",
    ],
    months: [
        "janvier",
        "février",
        "mars",
        "avril",
        "mai",
        "juin",
        "juillet",
        "août",
        "septembre",
        "octobre",
        "novembre",
        "décembre",
    ],
    fillers: "aussi alors donc vite merci encore déjà ok puis bien moi plaît svp stp moi-même",
    before_date: "avant pour le d' ici jusqu' à au ce la dès en de fin l' plus tard du",
    numbers: "deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze \
        seize dix-sept dix-huit dix-neuf vingt",
};
