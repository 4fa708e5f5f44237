import type { Component } from 'svelte';
import AlarmClock from '@lucide/svelte/icons/alarm-clock';
import BotMessageSquare from '@lucide/svelte/icons/bot-message-square';
import Bookmark from '@lucide/svelte/icons/bookmark';
import Brain from '@lucide/svelte/icons/brain';
import Copy from '@lucide/svelte/icons/copy';
import GitFork from '@lucide/svelte/icons/git-fork';
import Link from '@lucide/svelte/icons/link';
import MailOpen from '@lucide/svelte/icons/mail-open';
import Pencil from '@lucide/svelte/icons/pencil';
import Pin from '@lucide/svelte/icons/pin';
import Play from '@lucide/svelte/icons/play';
import Quote from '@lucide/svelte/icons/quote';
import RotateCcw from '@lucide/svelte/icons/rotate-ccw';
import Trash2 from '@lucide/svelte/icons/trash-2';
import Users from '@lucide/svelte/icons/users';
import type { Message } from '../api/types';
import { isQuotable } from '../chats/quotes';
import { saveMessage } from '../inbox/save';
import type { Router } from '../lib/router.svelte';
import { copyText } from '../lib/secure';
import '../lib/single-keys'; // loaded with the shortcuts of messages
import { rulesOf, stopText } from '../memory/stops';
import { quoteInFork, canQuoteInFork, canFork, startFork } from './start-fork';
import { ThreadState } from './thread.svelte';
import { canPin, togglePin } from './pins';
import { canRunAgain, isChat } from './thread-actions';
import type { Ui } from './ui.svelte';
import type { MessageWindow } from './window.svelte';
import type { WorkspaceState } from './workspace.svelte';

export interface Action {
  label: string;
  icon: Component<{ size?: number }>;
  /** Key that performs the action on the focused message. */
  key?: string;
  /** Shown in the toolbar of the row, not only in the menu. */
  quick: boolean;
  bad?: boolean;
  /** Disabled without a connection; true or undefined, as attributes are. */
  server?: true;
  /** Amber style. */
  fork?: boolean;
  run: () => void;
}

export interface ActionContext {
  ws: WorkspaceState;
  ui: Ui;
  router: Router;
  place: MessageWindow;
  edit: () => void;
  remove: () => void;
}

/** Actions on a message; shared by the toolbar, the menu, the sheet on touch screens, and the shortcuts. */
export function actionsFor(m: Message, { ws, ui, router, place, edit, remove }: ActionContext): Action[] {
  const mine = m.author.type === 'human' && m.author.id === ws.myId && ws.people.canWrite;
  const copy = async (text: string, done: string) =>
    ui.show((await copyText(text)) ? done : 'The browser blocked copying');
  // Without the channel, which can be renamed.
  const link = () => void copy(`${location.origin}/${ws.slug}/m/${m.id}`, 'Link copied');
  const list: Action[] = [];
  if (canFork(m, ws))
    list.push(
      {
        label: 'Deep dive from here',
        icon: GitFork,
        key: 'd',
        quick: true,
        fork: true,
        run: () => startFork(m, { ws, ui, router }),
      },
      {
        label: 'Have agents discuss it',
        server: true,
        icon: GitFork,
        quick: false,
        run: () => (ui.dialog = { name: 'ask-agents', message: m, empty: null }),
      },
      {
        label: 'Start a workflow…',
        server: true,
        icon: Play,
        quick: false,
        run: () => (ui.dialog = { name: 'run-workflow', message: m }),
      },
    );
  if (canQuoteInFork(m, { ws, router }))
    list.push({
      label: 'Quote in dive',
      icon: Quote,
      quick: true,
      fork: true,
      run: () => quoteInFork(m, { ws, router }),
    });
  if (ws.people.canWrite && ws.people.agents.length > 0 && isQuotable(m))
    list.push({
      label: 'Ask an agent…',
      icon: BotMessageSquare,
      key: 'a',
      quick: false,
      run: () => (ui.dialog = { name: 'ask-agent', message: m }),
    });
  const thread = ws.threads.map.get(m.thread_id);
  if (thread && !m.fork_id && isChat(thread, ws) && ws.people.canWrite && isQuotable(m))
    list.push({
      label: 'Bring to the team…',
      icon: Users,
      quick: false,
      run: () => (ui.dialog = { name: 'bring-to-team', message: m }),
    });
  if (mine && thread && isChat(thread, ws) && canRunAgain(m, thread)) {
    const again = (change: 'text' | 'agent') => () => (ui.dialog = { name: 'run-again', message: m, change });
    list.push({ label: 'Edit and run again…', icon: RotateCcw, quick: false, run: again('text') });
    if (ws.people.agents.some((a) => a.id !== thread.agent_id))
      list.push({
        label: 'Try with another agent…',
        icon: BotMessageSquare,
        quick: false,
        run: again('agent'),
      });
  }
  if (mine && m.kind === 'text') list.push({ label: 'Edit', icon: Pencil, key: 'e', quick: true, run: edit });
  list.push(
    { label: 'Copy link', icon: Link, quick: true, run: link },
    { label: 'Copy text', icon: Copy, quick: false, run: () => void copy(m.content, 'Text copied') },
  );
  if (canPin(m, ws))
    list.push({
      label: m.metadata.pinned_by ? 'Unpin' : 'Pin to channel',
      icon: Pin,
      quick: false,
      server: true,
      run: () => void togglePin(m, { ws, ui }),
    });
  if (m.state === 'complete')
    list.push(
      {
        label: 'Save',
        icon: Bookmark,
        quick: false,
        server: true,
        run: () => void saveMessage(m.id, null, { ws, ui }),
      },
      {
        label: 'Remind me…',
        server: true,
        icon: AlarmClock,
        quick: false,
        run: () => (ui.dialog = { name: 'remind', message: m }),
      },
    );
  const rules = rulesOf(ws);
  const isStopped = rules !== null && stopText('conversations', rules, ws.workspace.name) !== '';
  const remembers = !isStopped && ws.threads.map.get(m.thread_id)?.memory === 'on';
  if (remembers && ws.people.canWrite && m.state === 'complete')
    list.push({
      label: 'Remember…',
      server: true,
      icon: Brain,
      quick: false,
      run: () => (ui.dialog = { name: 'remember', message: m }),
    });
  if (place instanceof ThreadState)
    list.push({
      label: 'Mark unread from here',
      icon: MailOpen,
      key: 'u',
      quick: false,
      run: () => void place.markUnreadFrom(m),
    });
  if (mine) list.push({ label: 'Delete', icon: Trash2, quick: false, bad: true, server: true, run: remove });
  return list;
}
