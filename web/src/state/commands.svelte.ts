import { focusComposer } from '../lib/focus';
import { commandFor, type Command } from '../lib/keys';
import { isPage, to, type PageName, type Router } from '../lib/router.svelte';
import { focusAdjacentThread } from '../lib/focus-adjacent';
import { threadTitle } from '../lib/text';
import type { Channel } from '../api/types';
import type { Here } from './steps';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

/** Titles of the pages across all channels. */
export const TITLES: Record<PageName, string> = {
  actions: 'Action items',
  decisions: 'Decisions',
  search: 'Search',
  inbox: 'Inbox',
  conversations: 'Conversations',
  drafts: 'Drafts',
  share: 'Send to…',
  schedules: 'Schedules',
  runs: 'History',
  workflows: 'Workflows',
  m: 'Message',
};

/** Global shortcuts, and the window title. Shortcuts on a message are handled by its row. */
export class Commands {
  #ws: WorkspaceState;
  #router: Router;
  #ui: Ui;

  constructor(ws: WorkspaceState, router: Router, ui: Ui) {
    this.#ws = ws;
    this.#router = router;
    this.#ui = ui;
  }

  get channel(): Channel | undefined {
    const r = this.#router.route;
    return r.name === 'channel' || r.name === 'thread' ? this.#ws.channels.find(r.channel) : undefined;
  }
  get title(): string {
    const r = this.#router.route;
    if (r.name === 'settings') return r.page === 'agents' ? 'Agents' : 'Settings';
    if (r.name === 'agent') return r.agent === 'new' ? 'New agent' : this.#ws.people.agentName(r.agent);
    if (isPage(r.name)) return TITLES[r.name];
    const panel = this.#router.panel;
    if (panel?.kind === 'dive' && this.#router.place.focus)
      return this.#ws.forkActions.get(panel.id)?.title ?? 'Deep dive';
    if (r.name === 'thread') return threadTitle(this.#ws.threads.map.get(r.thread));
    const c = this.channel;
    if (!c) return 'OpenVibe';
    return c.kind === 'direct' ? this.#ws.channels.title(c) : `#${c.name}`;
  }

  key(e: KeyboardEvent): void {
    const target = e.target as Element;
    const typing = target.closest('input, textarea, select, [contenteditable]') !== null;
    const command = commandFor(e, typing) ?? this.#inThreadList(e, target);
    if (!command || e.defaultPrevented) return;
    if (document.querySelector('dialog[open]') && command !== 'switcher') return;
    if (this.#run(command, target, typing)) e.preventDefault();
  }

  #run(command: Command, target: Element, typing: boolean): boolean {
    const ui = this.#ui;
    switch (command) {
      case 'switcher':
        ui.dialog = null;
        ui.switcher = !ui.switcher;
        return true;
      case 'search':
        if (this.#router.route.name !== 'search') this.#router.go(to.search(this.#ws.slug));
        else document.querySelector<HTMLInputElement>('[data-search]')?.select();
        return true;
      case 'find':
        return this.#find();
      case 'next-message':
      case 'previous-message':
        return this.#stepRow(command === 'next-message' ? 1 : -1, target);
      case 'next-unread-thread':
      case 'previous-unread-thread':
        return (
          !!this.channel &&
          this.#steps((to, here) => to.unreadThread(command === 'next-unread-thread' ? 1 : -1, here))
        );
      case 'inbox':
        if (this.#router.route.name !== 'inbox') this.#router.go(to.inbox(this.#ws.slug));
        return true;
      case 'keys':
        ui.dialog = { name: 'keys' };
        return true;
      case 'escape':
        if (ui.sidebar) ui.sidebar = false;
        else if (typing) (target as HTMLElement).blur();
        else if (this.#router.panel) this.#router.close();
        else return false;
        return true;
      case 'composer':
      case 'reply':
        focusComposer();
        return true;
      case 'new-thread':
        return this.#steps((to, here) => to.newThread(here));
      case 'new-chat':
        return this.#steps((to, here) => to.chat(here));
      case 'next-channel':
      case 'previous-channel':
        return this.#steps((to, here) => to.channel(command === 'next-channel' ? 1 : -1, false, here));
      case 'next-unread':
      case 'previous-unread':
        return this.#steps((to, here) => to.channel(command === 'next-unread' ? 1 : -1, true, here));
      default:
        return false; // e, u, and d are handled by the message list
    }
  }
  /** True if the main column shows the threads of a channel. */
  get listsThreads(): boolean {
    return this.#router.route.name === 'channel' && this.channel?.kind !== 'direct';
  }
  /** Moves to the next or previous thread of a list; in a conversation, the list of its messages handles the key. */
  #stepRow(way: 1 | -1, target: Element): boolean {
    const list = this.#ui.threadList;
    if (!list) return this.listsThreads && focusAdjacentThread(way);
    if (target.closest('[data-zone]')) return false;
    list.move(way);
    return true;
  }
  /** Command for an arrow key on a focused row. */
  #inThreadList(e: KeyboardEvent, target: Element): Command | null {
    if (!target.matches('a[data-thread]') || e.altKey || e.ctrlKey || e.metaKey) return null;
    return e.key === 'ArrowDown' ? 'next-message' : e.key === 'ArrowUp' ? 'previous-message' : null;
  }
  #hasThread(): boolean {
    const { channel } = this;
    return this.#router.route.name === 'thread' || (!!channel && this.#ws.channel(channel.id).ids.length > 0);
  }
  /** Opens the find bar. The second press opens the browser's own find instead. */
  #find(): boolean {
    const place = this.#router.route.name === 'thread' || this.channel?.kind === 'direct';
    if (!place || !this.#hasThread() || this.#ui.find || this.#router.place.focus) return false;
    this.#ui.find = true;
    return true;
  }
  #steps(step: (steps: typeof import('./steps'), here: Here) => void): true {
    const here = { channel: this.channel, ws: this.#ws, router: this.#router, ui: this.#ui };
    // Without the module, the next press tries again.
    import('./steps').then(
      (steps) => step(steps, here),
      () => undefined,
    );
    return true;
  }
}
