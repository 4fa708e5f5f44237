import { to } from '../lib/router.svelte';
import { tagOf } from '../push/ids';
import type { UserNotification } from './notifications';
import type { WorkspaceState } from './workspace.svelte';

/**
 * Shows a notification at once while all windows are hidden, if the user permitted notifications. A later push message about the same
 * conversation has the same tag and replaces it.
 */
export async function showNotification(
  notification: UserNotification,
  ws: WorkspaceState,
  go: (path: string) => void,
): Promise<void> {
  if (!('Notification' in window) || Notification.permission !== 'granted') return;
  if (document.visibilityState === 'visible' || (await ws.copy?.isAnyVisible())) return;
  const { channel_id, thread_id, fork_id, message_id } = notification.place;
  const channel = ws.channels.map.get(channel_id);
  const segment = channel && ws.channels.segment(channel);
  const thread = segment && `${to.thread(ws.slug, segment, thread_id)}#m-${message_id}`;
  const url = fork_id && segment ? to.fork(ws.slug, segment, thread_id, fork_id, message_id) : thread;
  const options = {
    body: notification.text.slice(0, 200),
    tag: await tagOf(fork_id ?? thread_id),
    icon: '/favicon.svg',
    data: { url: url ?? '/', item: null },
  };
  const worker = await navigator.serviceWorker?.getRegistration();
  if (worker) return worker.showNotification(notification.title, options);
  const notice = new Notification(notification.title, options);
  notice.onclick = () => {
    window.focus();
    go(options.data.url);
    notice.close();
  };
}
