import type { Component } from 'svelte';
import Copy from '@lucide/svelte/icons/copy';
import Link from '@lucide/svelte/icons/link';
import MailOpen from '@lucide/svelte/icons/mail-open';
import Pencil from '@lucide/svelte/icons/pencil';
import Trash2 from '@lucide/svelte/icons/trash-2';
import type { Message } from '../api/types';
import { to } from '../lib/router.svelte';
import { copyText } from '../lib/secure';
import type { ThreadState } from './thread.svelte';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

export interface Action {
  label: string;
  icon: Component<{ size?: number }>;
  /** Shown in the bar over the row, not only in the menu. */
  quick: boolean;
  bad?: boolean;
  run: () => void;
}

export interface ActionContext {
  ws: WorkspaceState;
  ui: Ui;
  thread: ThreadState;
  edit: () => void;
  remove: () => void;
}

/** What one may do with a message: the bar, the menu and the sheet on touch all show this list. */
export function actionsFor(m: Message, { ws, ui, thread, edit, remove }: ActionContext): Action[] {
  const mine = m.author.type === 'human' && m.author.id === ws.myId && ws.people.canWrite;
  const copy = async (text: string, done: string) =>
    ui.show((await copyText(text)) ? done : 'The browser did not allow copying');
  const link = () => {
    const channel = ws.channels.map.get(m.channel_id);
    if (!channel) return;
    const path = to.thread(ws.slug, ws.channels.segment(channel), m.thread_id);
    void copy(`${location.origin}${path}#m-${m.id}`, 'Link copied');
  };
  const list: Action[] = [];
  if (mine && m.kind === 'text') list.push({ label: 'Edit', icon: Pencil, quick: true, run: edit });
  list.push(
    { label: 'Copy link', icon: Link, quick: true, run: link },
    { label: 'Copy text', icon: Copy, quick: false, run: () => void copy(m.content, 'Text copied') },
    {
      label: 'Mark unread from here',
      icon: MailOpen,
      quick: false,
      run: () => void thread.markUnreadFrom(m),
    },
  );
  if (mine) list.push({ label: 'Delete', icon: Trash2, quick: false, bad: true, run: remove });
  return list;
}
