import { preview } from '../lib/text';
import { device } from '../lib/storage';
import { to } from '../lib/router.svelte';
import type { News, WorkspaceState } from './workspace.svelte';

const DECLINED = 'openvibe.notices';

/**
 * Desktop notifications for a mention, a direct message, and an answer to my question.
 * Permission is asked for on the first such event, never at load (UI.md §4).
 */
export class Notices {
  /** The sentence of the question, while it is asked. */
  asking = $state<string | null>(null);
  #go: (path: string) => void;

  constructor(go: (path: string) => void) {
    this.#go = go;
  }

  tell(news: News, ws: WorkspaceState): void {
    if (!('Notification' in window)) return;
    if (Notification.permission === 'default' && device.get(DECLINED) !== 'no') {
      const what =
        news.kind === 'mention' ? `${news.title} wrote to you.` : `${news.title} has answered you.`;
      this.asking = `${what} Be told of such things when OpenVibe is in the background?`;
      return;
    }
    if (Notification.permission !== 'granted' || document.visibilityState === 'visible') return;
    const m = news.message;
    const channel = ws.channels.map.get(m.channel_id);
    const notice = new Notification(news.title, {
      body: preview(m).slice(0, 200),
      tag: m.id,
      icon: '/favicon.svg',
    });
    notice.onclick = () => {
      window.focus();
      if (channel) this.#go(`${to.thread(ws.slug, ws.channels.segment(channel), m.thread_id)}#m-${m.id}`);
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
