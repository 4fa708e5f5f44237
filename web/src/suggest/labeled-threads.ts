/**
 * Threads labeled by hand before the rule was written: true if two people are deep in one question that deserves a place of its
 * own. A line is "AUTHOR MINUTE TEXT". Threads with an even position were used to choose the words that count; the others were
 * not looked at.
 */
export interface LabeledThread {
  isDeep: boolean;
  lines: string;
}

export const labeledThreads: LabeledThread[] = [
  {
    isDeep: true,
    lines: `
a 0 The importer drops rows when the file has a blank header column
b 1 Is that the importer itself or the parser before it?
a 2 The parser keeps the rows, I checked. The importer maps by header and skips blank ones
b 3 So rows with a value under the blank header vanish without a warning?
a 4 Yes. The importer should either name the column or refuse the file
b 5 Refusing is harsh, many files have a blank header at the end
a 6 Then the importer names it "column 7" and keeps the rows
b 7 Would the mapping screen show that header?
a 8 It has to, otherwise the rows land nowhere
b 9 And what does the importer do on the second run, same header names?`,
  },
  {
    isDeep: false,
    lines: `
a 0 Lunch?
b 1 Sure, noon?
a 1 Noon is fine. The new place?
b 2 It was full yesterday
a 2 Then the canteen
b 3 They have soup today
a 3 Soup it is
b 4 See you at the door
a 4 Bring an umbrella`,
  },
  {
    isDeep: true,
    lines: `
a 0 I do not trust the cache after a role change
b 1 The cache key has the user, not the role
a 2 Right, so a demoted user reads from the cache for five minutes
b 3 We could put the role in the key
a 4 Then every role change leaves a dead key in the cache
b 5 They expire. Five minutes of dead keys is nothing
a 6 But a role of a group changes too, and the key knows only the user's own role
b 7 So a version per workspace in the key, raised with every role change?
a 8 That empties the cache for everyone when one role changes
b 9 How often do roles change? Twice a day?
a 11 In big workspaces it is a script that changes hundreds`,
  },
  {
    isDeep: false,
    lines: `
a 0 Good morning!
b 0 Morning! Slept well?
a 1 Not really, the neighbors moved furniture until two
b 1 Oh no
a 2 Coffee number three already
b 3 I have cake in the kitchen if that helps
a 3 It always helps
b 4 Carrot cake
a 4 On my way`,
  },
  {
    isDeep: true,
    lines: `
a 0 Der Export bricht bei großen Ordnern ab
b 1 Ab welcher Größe? Bei mir lief ein Export mit 4000 Dateien
a 2 Bei 9000 Dateien ist Schluss, der Ordner der Buchhaltung
b 3 Ist es die Zeit oder der Speicher?
a 4 Der Speicher. Der Export hält alle Dateien im Ordner gleichzeitig offen
b 5 Dann müssen wir den Export in Stücke teilen
a 6 Aber der Index der Dateien steht am Anfang, den kennen wir erst am Ende
b 7 Wir können den Ordner zweimal lesen: erst Namen, dann Dateien
a 8 Und wenn sich der Ordner dazwischen ändert?
b 9 Dann stimmt der Index nicht, der Export müsste das melden`,
  },
  {
    isDeep: true,
    lines: `
a 0 Why does the invoice round each line and the total again?
b 1 Because the tax office wants the tax per line
a 2 Not per line, per rate. The total per rate is rounded once
b 4 Then the invoice and the ledger differ by a cent, as now
a 5 The ledger rounds per line too, that is the same bug
b 6 If we change rounding in the ledger, old invoices do not match
a 7 Old invoices keep their stored total, only new ones use the rate
b 8 And a credit note for an old invoice? It copies lines and rounds again
a 9 Good point, a credit note has to take the stored total
b 10 Then we need the rounding rule stored with each invoice`,
  },
  {
    isDeep: false,
    lines: `
a 0 Deploy of the api started
b 1 ok
a 3 Deploy of the api done
b 4 thanks, starting the deploy of the web app
a 5 ok
b 7 Deploy of the web app done
a 8 starting the worker
b 9 ok
a 10 worker done
b 11 great, all done`,
  },
  {
    isDeep: false,
    lines: `
a 0 Wann passt dir das Treffen nächste Woche?
b 1 Dienstag geht, Mittwoch nicht
a 2 Dienstag um zehn?
b 3 Um zehn habe ich Zahnarzt
a 4 Dann um zwei?
b 5 Zwei passt
a 6 Ich buche den kleinen Raum
b 7 Der kleine Raum hat keinen Bildschirm
a 8 Dann den großen
b 9 Perfekt, bis Dienstag`,
  },
  {
    isDeep: true,
    lines: `
a 0 The lease of a worker runs out while it still writes
b 1 Then two workers write the same row
a 2 Yes. The lease has a token, but the last write does not check the token
b 3 Which write, the one that ends the task?
a 4 No, the one that stores the draft before it ends the task
b 5 So a slow worker overwrites the draft of the second worker
a 6 Exactly. Adding the token to that write costs one more condition
b 7 And if the token is gone, the worker should stop, not retry the write
a 8 The worker stops at the next lease check anyway
b 9 That can be five seconds later, with three writes in between`,
  },
  {
    isDeep: true,
    lines: `
a 0 ¿Por qué la búsqueda no encuentra palabras con acento?
b 1 El índice guarda las palabras sin acento, la consulta no
a 2 Entonces hay que quitar el acento también en la consulta
b 3 Sí, pero la eñe no es un acento
a 4 Claro, "año" y "ano" no son las mismas palabras
b 5 El índice hoy las mezcla, eso ya es un error
a 6 Si cambiamos el índice, hay que construirlo otra vez
b 7 Son dos horas para un índice grande
a 8 Podemos guardar dos formas: con acento y sin acento
b 9 El índice crece, pero la consulta queda igual de rápida`,
  },
  {
    isDeep: false,
    lines: `
a 0 The printer is out of paper again
b 1 I filled it this morning
a 1 Somebody prints books
b 2 Probably the sales decks
a 3 There is paper in the basement
b 3 I'll get some
a 4 Thanks
b 12 Done
a 13 You are the best`,
  },
  {
    isDeep: true,
    lines: `
a 0 Should a guest see the member list of a channel?
b 1 A guest sees who writes, so names leak anyway
a 2 Who writes, yes. The member list shows people who never write
b 3 And their email? The list has a card with the email
a 4 That must be hidden from a guest in any case
b 5 Then let us show the list without the card
a 6 A mention completes names from the same list, so a guest could type letters and read all names
b 7 So for a guest the completion should only offer people who wrote in the channel
a 8 That breaks "ask Ada", if Ada never wrote
b 9 A guest can still write the name, just not complete it`,
  },
  {
    isDeep: false,
    lines: `
a 0 Who won yesterday?
b 0 3:1 for us
a 1 No way, I went to bed at 0:1
b 2 Three goals in ten minutes
a 2 And who scored?
b 3 The new one, twice
a 4 He cost a fortune
b 4 Worth every cent now
a 5 Next game is on Sunday
b 6 I have a spare ticket`,
  },
  {
    isDeep: true,
    lines: `
a 0 Die Rechnung zieht den Rabatt vor der Steuer ab, der Shop danach
b 1 Im Vertrag steht der Rabatt auf den Nettopreis, also vor der Steuer
a 2 Dann ist der Shop falsch, nicht die Rechnung
b 3 Aber der Kunde sieht im Shop den Preis mit Steuer und Rabatt
a 4 Bei einem festen Rabatt in Euro macht das einen Unterschied
b 5 Bei Prozent nicht, nur beim festen Rabatt
a 6 Also müsste der Shop den festen Rabatt um die Steuer kürzen
b 7 Das versteht kein Kunde: 10 Euro Rabatt, abgezogen werden 8,40
a 8 Dann der Rabatt brutto und auf der Rechnung umgerechnet
b 9 Das geht nur mit einem Steuersatz, auf der Rechnung sind oft zwei`,
  },
  {
    isDeep: false,
    lines: `
a 0 New password for the meeting room screen?
b 2 On the back of the remote
a 3 There is no remote
b 4 Then ask reception
a 6 They don't know
b 7 I wrote it in the wiki
a 8 Which page?
b 9 Office, screens
a 10 Found it, thanks
b 10 :)`,
  },
  {
    isDeep: true,
    lines: `
a 0 If we sort the feed by last reply, old threads jump up all day
b 1 That is the point, an old thread with a new reply is news
a 2 For the people in it. For the others it pushes new threads out of the feed
b 3 Then sort by replies that I have not read?
a 5 Every feed is different then, and "the third thread from above" means nothing
b 6 Nobody says that. People link a thread
a 7 What about two parts of the feed: threads with news for me, then the others by start
b 8 A thread would move between the parts when I read it
a 9 It should stay until I leave the feed
b 10 So the sort is frozen while the feed is open?`,
  },
  {
    isDeep: false,
    lines: `
a 0 Kaffee?
b 0 Immer
a 1 Küche oder draußen?
b 1 Draußen, die Sonne scheint
a 2 Jacke nicht vergessen
b 2 So kalt?
a 3 Im Schatten schon
b 3 Bin in fünf Minuten unten
a 4 Ich bestelle schon mal
b 4 Danke, mit Hafermilch`,
  },
  {
    isDeep: false,
    lines: `
a 0 Ticket 4411 is done
b 2 Which one is next?
a 3 Ticket 4415, small one
b 5 And 4420?
a 6 Blocked until Thursday
b 7 I can take ticket 4431
a 8 Please do
b 9 Assigned to me
a 10 I take 4415 then
b 11 Good plan`,
  },
  {
    isDeep: true,
    lines: `
a 0 The migration locks the messages table for two minutes
b 1 Because of the new column with a default?
a 2 No, because of the index. The column is instant
b 3 Then build the index concurrently
a 4 Not inside the migration, that runs in a transaction
b 5 Can a migration run without a transaction?
a 6 Ours cannot. And a failed concurrent index leaves an invalid index behind
b 7 We would check for an invalid index at the start and drop it
a 8 So the migration adds the column and a job builds the index later
b 9 Then the code must work without the index for a while`,
  },
  {
    isDeep: false,
    lines: `
a 0 ¿Vienes a la fiesta del viernes?
b 1 ¡Claro! ¿Qué llevo?
a 2 Algo de beber
b 3 ¿Vino o cerveza?
a 4 Vino, cerveza ya hay
b 5 ¿A qué hora?
a 6 A las ocho
b 7 Llego un poco tarde
a 8 No pasa nada
b 9 ¡Nos vemos!`,
  },
  {
    isDeep: true,
    lines: `
a 0 Our test for the clock fails at midnight
b 1 Which test? The one that compares the day?
a 2 Yes. It reads the clock twice and the day changes in between
b 3 Then pass one time into both calls
a 4 The function reads the clock itself, the test cannot pass a time
b 5 So give the function a clock, and the test a fixed one
a 6 Twelve functions call it. All of them would need the clock
b 7 Only the outer ones, the inner functions take the time as a value
a 8 I like that: read the clock once at the edge, pass the time down
b 9 And the test then needs no clock at all, just a time`,
  },
  {
    isDeep: false,
    lines: `
a 0 Happy birthday!!
b 1 Thank you!
a 1 Any plans?
b 2 Dinner with the family
a 3 Nice. Cake in the office at three?
b 3 There is cake?
a 4 Maybe
b 4 Best team ever
a 5 Act surprised
b 5 I can do that`,
  },
  {
    isDeep: true,
    lines: `
a 0 Welche Felder darf ein Mandant im Vertrag selbst ändern?
b 1 Adresse und Konto, sonst nichts
a 2 Das Konto ändert die Zahlung, das sollte jemand prüfen
b 3 Dann Adresse frei, Konto mit Prüfung
a 4 Wer prüft? Der Vertrag gehört oft niemandem mehr
b 5 Die Buchhaltung, die prüft jedes neue Konto ohnehin
a 6 Und bis zur Prüfung gilt das alte Konto?
b 7 Ja, sonst bräuchten wir keine Prüfung
a 8 Was sieht der Mandant so lange im Vertrag?
b 9 Das alte Konto mit dem Hinweis, dass die Prüfung läuft`,
  },
  {
    isDeep: false,
    lines: `
a 0 Is the site down for you too?
b 0 Works here
a 1 Now it is back
b 1 Maybe your wifi
a 2 Phone works
b 2 Restart the router?
a 3 Did that
b 7 And?
a 8 Seems fine now
b 8 Good`,
  },
  {
    isDeep: true,
    lines: `
a 0 Do we retry a webhook that returned 410?
b 1 Gone means gone, so no retry
a 2 Some hosts return 410 during a deploy, and the webhook is off for good then
b 3 One 410 should not switch it off. Three in a day?
a 4 A webhook with one event a day would take three days to be off
b 5 Is that bad? The retry costs nothing
a 6 The events of these days are lost if nobody looks
b 7 They are in the log, the owner can replay them after a retry fails
a 8 Who tells the owner? The webhook has no address
b 9 The person who created it. And after the last retry we post in the admin channel`,
  },
  {
    isDeep: false,
    lines: `
a 0 Kannst du kurz den Link schicken?
b 1 Welchen?
a 1 Zum Protokoll von gestern
b 2 Liegt im Ordner Team
a 3 Da ist nur das alte
b 4 Moment
b 5 Jetzt ist es da
a 6 Danke dir
b 6 Gern
a 7 Schönes Wochenende
b 8 Dir auch`,
  },
  {
    isDeep: true,
    lines: `
a 0 The model ignores the last paragraph of long prompts
b 1 Ignores, or never gets it? We cut prompts in the middle
a 2 It gets it, I looked at the request. The paragraph is there
b 3 Then the order matters. Put the question after the documents
a 4 It is after the documents, and the paragraph with the format comes after the question
b 5 Format before the documents, question last?
a 6 With ten documents the format is then forty pages away from the question
b 7 Repeat the format in one line next to the question
a 8 Tried with five prompts: four out of five follow the format now
b 9 And with short documents?`,
  },
  {
    isDeep: false,
    lines: `
a 0 Keyboard or touch?
b 0 Keyboard
a 1 Tabs or spaces?
b 1 Spaces
a 2 Dark or light?
b 2 Dark
a 3 Window or aisle?
b 3 Window
a 4 Cats or dogs?
b 4 Cats
a 5 We can work together`,
  },
  {
    isDeep: true,
    lines: `
a 0 Hay clientes que pagan dos veces la misma factura
b 1 ¿El banco manda dos avisos o pagan de verdad dos veces?
a 2 El banco manda el aviso dos veces, el pago es uno
b 3 Entonces guardamos el número del pago y no el del aviso
a 4 El número del pago cambia si el banco corrige el importe
b 5 ¿Y la factura con el importe corregido queda abierta?
a 6 Sí, queda abierta por la diferencia, eso está bien
b 7 Pues factura más importe más día como clave del pago
a 8 Dos pagos iguales el mismo día existen, por ejemplo cuotas
b 9 Las cuotas tienen cada una su factura`,
  },
  {
    isDeep: false,
    lines: `
a 0 Can you review my change?
b 1 Which one?
a 1 The small one with the labels
b 3 Looking
b 6 Two typos, otherwise good
a 7 Fixed
b 8 Approved
a 8 Merged
b 9 That was quick
a 9 Thanks!`,
  },
  {
    isDeep: true,
    lines: `
a 0 The phone app wakes up every minute, the battery suffers
b 1 It polls because push is off for half of the people
a 2 Could it poll less when the phone is idle?
b 3 Then a call arrives late for people without push
a 4 A call is rare. Poll every minute only while the app was used in the last hour
b 5 And after that every ten minutes? A late call is a missed call
a 6 People without push accept that, we can say it in the settings of the app
b 7 Or we ask them again to turn push on, with the battery as the reason
a 8 Both. The text about the battery next to the push switch
b 9 And the poll interval depends on use, not on the phone`,
  },
  {
    isDeep: false,
    lines: `
a 0 Zug hat Verspätung
b 1 Wie viel?
a 1 Zwanzig Minuten
b 2 Der Kunde kommt um neun
a 3 Ich weiß
b 3 Ich fange schon mal an
a 4 Folien liegen im Laufwerk
b 5 Habe sie
a 9 Jetzt dreißig Minuten
b 10 Kein Stress
a 24 Bin da`,
  },
  {
    isDeep: true,
    lines: `
a 0 Ein Agent liest Nachrichten, die nach seiner Frage kamen
b 1 Das ist Absicht, er soll ja auf dem neuesten Stand sein
a 2 Aber dann antwortet der Agent auf eine Korrektur, die seine Frage gar nicht betraf
b 3 Nur wenn zwei Nachrichten gleichzeitig laufen
a 4 Genau dann. Die Antwort passt nicht mehr zur Frage
b 5 Also friert man den Stand bei der Frage ein?
a 6 Bis zur Frage alles, danach nur Nachrichten von derselben Person
b 7 Und wenn eine andere Person die Frage richtigstellt?
a 8 Dann muss man den Agenten neu fragen, das ist ehrlicher
b 9 Die Antwort sollte dann sagen, bis zu welcher Nachricht der Agent gelesen hat`,
  },
  {
    isDeep: false,
    lines: `
a 0 Release notes: please add your lines
b 1 Added mine
a 2 Thanks. Carla?
c 3 On it
b 4 Do we mention the old browsers?
c 5 Yes
a 6 One line is enough
c 8 Added
b 9 Looks good
a 10 Sending
c 11 Great
b 12 Cheers`,
  },
  {
    isDeep: true,
    lines: `
a 0 The price list has one currency, but the Swiss shop wants francs
b 1 Convert at the rate of the day?
a 2 No, the price must not move every day. They want fixed francs
b 3 So a second price list per currency
a 4 Then somebody maintains 900 prices twice
b 5 Only where they differ. Otherwise euro price times a fixed rate, rounded to 5 centimes
a 6 The rate changes once a year, then all francs prices change at once
b 7 With a notice before. The price list has a date from which it is valid
a 8 Open orders keep the old price?
b 9 Yes, an order stores its price and currency`,
  },
  {
    isDeep: false,
    lines: `
a 0 Did you see the new bike lane?
b 1 Finally!
a 2 I was here in twelve minutes
b 3 From the lake?
a 3 Yes
b 4 Record
a 5 With wind from behind
b 6 That counts half
a 7 Ha
b 8 Race tomorrow?
a 8 Deal`,
  },
  {
    isDeep: true,
    lines: `
a 0 Wenn wir Backups verschlüsseln, wer hat den Schlüssel?
b 1 Der Betreiber, in einer Datei neben der Konfiguration
a 2 Dann liegt der Schlüssel auf demselben Server wie die Backups
b 3 Die Backups werden woanders hin kopiert, der Schlüssel nicht
a 4 Und wenn der Server brennt, ist der Schlüssel weg und die Backups sind nutzlos
b 5 Also den Schlüssel beim Einrichten einmal zeigen, zum Ausdrucken
a 6 Das macht niemand. Besser ein Passwort, aus dem der Schlüssel entsteht
b 7 Das Passwort steht dann im Skript, das die Backups startet
a 8 Öffentlicher Schlüssel auf dem Server, privater beim Menschen
b 9 Dann kann der Server seine Backups nicht selbst prüfen`,
  },
  {
    isDeep: false,
    lines: `
a 0 Bonjour the demo starts in ten minutes
b 1 Sound check?
a 2 Can you hear me in the demo room?
b 3 Yes, loud
a 4 Demo account is logged in
b 5 Screen is shared
a 6 Demo data looks fine
b 7 Guests are arriving in the room
a 8 Starting the demo
b 9 Good luck`,
  },
  {
    isDeep: false,
    lines: `
a 0 Numbers for June: 412
b 1 412 sign-ups?
a 1 Yes
b 2 May was 380
a 3 And April 395
b 30 Put them in the sheet please
a 31 Done
b 90 Board wants July too
a 92 In August
b 95 Ha, true`,
  },
  {
    isDeep: false,
    lines: `
a 0 Umzug: wer nimmt welchen Tisch?
b 1 Ich den Tisch am Fenster
a 2 Da sitzt schon Pia
b 3 Dann den Tisch an der Tür
a 4 Ich nehme den Tisch daneben
b 5 Kisten sind im Keller
a 6 Wie viele Kisten brauchst du?
b 7 Zwei Kisten
a 8 Ich auch zwei
b 9 Fertig`,
  },
];
