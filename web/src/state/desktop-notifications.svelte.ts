import { device } from '../lib/storage';
import { to } from '../lib/router.svelte';
import type { UserNotification } from './notifications';
import type { WorkspaceState } from './workspace.svelte';

const DECLINED = 'openvibe.notices';
const WHAT: Record<UserNotification['kind'], (title: string) => string> = {
  mention: (title) => `${title} wrote to you.`,
  answer: (title) => `${title} replied to you.`,
  result: (title) => `${title} posted the result of a dive.`,
  item: (title) => `You were assigned an action item: ${title}.`,
};

/**
 * Desktop notifications for mentions, direct messages, replies to the user's messages, and resolutions and
 * action items of forks. Permission is requested on the first such event, never on page load.
 */
export class DesktopNotifications {
  /** Text of the permission prompt, while it is shown. */
  asking = $state<string | null>(null);
  #go: (path: string) => void;

  constructor(go: (path: string) => void) {
    this.#go = go;
  }

  notify(notification: UserNotification, ws: WorkspaceState): void {
    if (!('Notification' in window)) return;
    if (Notification.permission === 'default' && device.get(DECLINED) !== 'no') {
      this.asking = `${WHAT[notification.kind](notification.title)} Turn on notifications for when OpenVibe is in the background?`;
      return;
    }
    if (Notification.permission !== 'granted' || document.visibilityState === 'visible') return;
    const { channel_id, thread_id, fork_id, message_id } = notification.place;
    const channel = ws.channels.map.get(channel_id);
    const notice = new Notification(notification.title, {
      body: notification.text.slice(0, 200),
      tag: notification.tag,
      icon: '/favicon.svg',
    });
    notice.onclick = () => {
      window.focus();
      if (channel) {
        const segment = ws.channels.segment(channel);
        this.#go(
          fork_id
            ? to.fork(ws.slug, segment, thread_id, fork_id, message_id)
            : `${to.thread(ws.slug, segment, thread_id)}#m-${message_id}`,
        );
      }
      notice.close();
    };
  }
  async allow(): Promise<void> {
    this.asking = null;
    await Notification.requestPermission();
  }
  decline(): void {
    this.asking = null;
    device.set(DECLINED, 'no');
  }
}
