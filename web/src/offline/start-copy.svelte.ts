import type { Api } from '../api/api';
import type { InboxItem } from '../api/inbox';
import { PushApi } from '../api/push';
import type { Account } from '../api/types';
import { to } from '../lib/router.svelte';
import { device } from '../lib/storage';
import { HiddenNotifications } from '../push/hidden';
import type { WorkspaceState } from '../state/workspace.svelte';
import { disableControls, OFFLINE_TEXT } from './controls';
import { eraseLeftovers, indexedDatabase } from './database';
import { DeviceCopy } from './device-copy';
import type { ShownNotification } from './notification';
import { windowsOf } from './windows';

interface CopyStart {
  /** User and workspace, as `USER.WS`. */
  scope: string;
  /** The server itself, never the copy. */
  api: Api;
  account: () => Account | null;
  /** Shows a text to the user. */
  say: (text: string) => void;
  /** Opens a page of the client. */
  go: (path: string) => void;
}

/**
 * Attaches the copy on this device to a workspace, disables what needs the server while there is no connection, and shows notifications
 * while all windows are hidden.
 */
export function startCopy(ws: WorkspaceState, { scope, api, account, say, go }: CopyStart): void {
  const copy = new DeviceCopy(ws, {
    scope,
    store: device,
    database: indexedDatabase(scope),
    windows: windowsOf(scope),
    api,
    account,
    isVisible: () => document.visibilityState === 'visible',
  });
  const write = () => void copy.flush();
  for (const type of ['offline', 'pagehide']) addEventListener(type, write);
  document.addEventListener('visibilitychange', write);
  copy.onDispose(() => {
    for (const type of ['offline', 'pagehide']) removeEventListener(type, write);
    document.removeEventListener('visibilitychange', write);
  });
  copy.onDispose(
    $effect.root(() => {
      $effect(() => {
        if (ws.connection.net !== 'offline') return;
        return disableControls(document, () => say(OFFLINE_TEXT));
      });
    }),
  );
  eraseLeftovers(device).catch(() => undefined); // the next start tries again
  const hidden = new HiddenNotifications({
    seq: ws.inbox.seq,
    mayShow: () => ws.outbox.leads && 'Notification' in globalThis && Notification.permission === 'granted',
    isAnyVisible: () => copy.isAnyVisible(),
    settings: () => api.part(PushApi).settings(),
    previewMax: () => (ws.people.isGuest ? Promise.resolve(null) : api.part(PushApi).previewMax(ws.id)),
    channel: (id) => ws.channels.map.get(id),
    pathOf: (item) => pathOf(ws, item),
    show: (notification) => void show(notification, go),
  });
  copy.onDispose(ws.inbox.follow(hidden));
  ws.copy = copy;
  if (ws.connection.live) void copy.live(false);
}

function pathOf(ws: WorkspaceState, { channel_id, thread_id, fork_id, message_id }: InboxItem): string {
  const channel = channel_id ? ws.channels.map.get(channel_id) : undefined;
  if (!channel || !thread_id) return to.inbox(ws.slug);
  const segment = ws.channels.segment(channel);
  if (fork_id) return to.fork(ws.slug, segment, thread_id, fork_id, message_id);
  return `${to.thread(ws.slug, segment, thread_id)}${message_id ? `#m-${message_id}` : ''}`;
}
/** Shows a notification through the service worker, whose clicks work like those of push messages, or else by this window. */
async function show({ title, options }: ShownNotification, go: (path: string) => void): Promise<void> {
  const worker = await navigator.serviceWorker?.getRegistration();
  if (worker) return worker.showNotification(title, options);
  const { body, tag, icon, silent, data } = options;
  const notice = new Notification(title, { body, tag, icon, silent } as NotificationOptions);
  notice.onclick = () => {
    window.focus();
    go((data as { url: string }).url);
    notice.close();
  };
}
