import {
  loadNotifyQuestion,
  loadUploads,
  NOT_LOADED,
  loadSlashCommands,
  type SlashModule,
} from '../lib/lazy';
import { isBlank } from '../lib/markdown-later';
import { parseSlash, unescaped } from '../lib/slash';
import type { Agent } from '../api/types';
import type { Held } from '../files/upload.svelte';
import type { SlashDeps } from './slashes';
import type { ComposerContext } from './composer-context';

/** The current composer of a `Writing`. */
export interface Box {
  /** Draft key. */
  place(): string;
  context(): ComposerContext;
  /** False once the composer is unmounted. */
  isHere(): boolean;
  /** `notify` is false if a mention of the whole channel notifies nobody. */
  onsend(content: string, files: Held[], notify?: boolean): void;
  /** Called when the text contains an incomplete or restored command: opens its completion menu. */
  onback(): void;
}

/** Possible mention of the whole channel. */
const GROUP = /[@＠](?:everyone|channel|here)/i;
/** Maximum number of members that such a mention notifies without a question. */
export const NOTIFIED_MAX = 100;

/** Turns the text of one composer into a message, or executes its command. */
export class Writing {
  /** A running command; later messages wait for it. True after a question, which a second Enter does not repeat. */
  running = $state.raw<Promise<unknown> | null>(null);
  #deps: SlashDeps;
  #box: Box;
  /** Text with an unknown command that the user chose to send as it is. */
  #asText: string | null = null;

  constructor(deps: SlashDeps, box: Box) {
    this.#deps = deps;
    this.#box = box;
  }

  /** `notify`: answer to the question about a mention of the whole channel. */
  send(notify?: boolean): void {
    const { ws, ui } = this.#deps;
    const box = this.#box;
    if (this.running) return void this.running.then((asked) => asked || (box.isHere() && this.send()));
    const place = box.place();
    const text = ws.drafts.get(place);
    const slash = text === this.#asText ? null : parseSlash(text, ws.people.commands);
    // without a conversation, the message starts a thread anyway
    const starts = slash?.name === 'new' && !box.context().conversation;
    if (slash?.name === 'unknown') {
      const sendAsText = () => {
        this.#asText = text;
        if (box.isHere() && box.place() === place) this.send();
      };
      return ui.show(`No command is named /${slash.command}`, { label: 'Send as text', run: sendAsText });
    }
    if (slash && !starts) {
      if (slash.name === 'list' || ('query' in slash && !slash.query)) return box.onback();
      return this.#run((part, context) => part.runSlash(slash, context, this.#deps));
    }
    if (notify === undefined && ws.people.members.size > NOTIFIED_MAX && GROUP.test(text)) {
      const asked = loadNotifyQuestion().then((part) => part.askToNotify(text, box.context(), this.#deps));
      this.running = asked
        .catch(() => true) // offline, for example
        .then((answer) => this.#answered(answer, place));
      return;
    }
    if (!ws.uploads && ws.drafts.files(place)) {
      return void loadUploads().then(
        (part) => part.uploadsOf(ws, ui) && box.isHere() && this.send(notify),
        () => ui.show(NOT_LOADED),
      );
    }
    if (ws.outbox.full) return; // the composer's status line gives the reason
    const files = ws.uploads?.take(place) ?? [];
    const content = starts ? slash.text : unescaped(text).trim();
    const sends = files.length > 0 || !isBlank(content);
    // Stored in the outbox before the draft is cleared: a crash in between keeps the text.
    if (sends) box.onsend(content, files, notify);
    if (sends || starts) ws.drafts.clear(place);
  }
  /** Sends the text after the question, unless it was dismissed. */
  #answered(notify: boolean | null, place: string): true {
    this.running = null;
    if (notify !== null && this.#box.isHere() && this.#box.place() === place) this.send(notify);
    return true;
  }
  /** Sets the agent that was picked from the agent list; null for none. */
  choose(agent: Agent | null): void {
    this.#run((part, context) => part.choose(agent, context, this.#deps));
  }

  /** Executes a command. The composer is cleared immediately; the text of a failed command is restored. */
  #run(work: (part: SlashModule, context: ComposerContext) => Promise<boolean>): void {
    const { ws, ui } = this.#deps;
    const [place, context] = [this.#box.place(), this.#box.context()]; // the command may navigate away
    const before = ws.drafts.get(place);
    ws.drafts.clear(place);
    this.running = loadSlashCommands()
      .then((part) => work(part, context))
      .catch(() => ui.show(NOT_LOADED))
      .then((done) => {
        this.running = null;
        if (done) return;
        const key = ws.drafts.current(place);
        const since = ws.drafts.get(key);
        ws.drafts.set(key, since ? `${before} ${since}` : before);
        if (this.#box.isHere()) this.#box.onback();
      });
  }
}
