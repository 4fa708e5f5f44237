import type { InboxChanges, InboxItem, InboxReason } from '../api/inbox';
import type { NotificationSettings, PreviewMax } from '../api/push';
import type { Channel } from '../api/types';
import type { InboxReader } from '../inbox/feed.svelte';
import { notificationOf, type ShownNotification } from '../offline/notification';
import { limited } from '../settings/preview-limits';
import { tagOf } from './ids';
import { isHeldBack } from './quiet';

/** Number of items whose last change is remembered. */
const REMEMBERED_MAX = 500;
/** Number of notifications for changes that are read together, such as after a sleep of the computer. */
const AT_ONCE_MAX = 5;
const BODY_MAX = 300;

interface HiddenDeps {
  /** Event up to which the inbox was read before. */
  readonly seq: number;
  /** True in the one window that shows notifications, if the user permitted them. */
  mayShow(): boolean;
  /** True if a window of the user is on screen. */
  isAnyVisible(): Promise<boolean>;
  settings(): Promise<NotificationSettings>;
  /** Most that the workspace shows; null for guests, who cannot read it. */
  previewMax(): Promise<PreviewMax | null>;
  channel(id: string): Pick<Channel, 'kind' | 'name'> | undefined;
  /** Path of an item's conversation, or else of the inbox. */
  pathOf(item: InboxItem): string;
  show(notification: ShownNotification): void;
  now?(): Date;
}

/**
 * Notifications of items that opened, shown at once while all windows are hidden. A later push message about the same conversation
 * has the same tag and replaces them.
 */
export class HiddenNotifications implements InboxReader {
  #deps: HiddenDeps;
  #now: () => Date;
  /** Items that changed before were there when the inbox was loaded. */
  #since: number;
  /** Last change by item, oldest first: changes of the newest event are read twice. */
  #handled = new Map<string, number>();
  /** Resolves after the notifications so far, which are shown in order. */
  settled: Promise<void> = Promise.resolve();

  constructor(deps: HiddenDeps) {
    this.#deps = deps;
    this.#now = deps.now ?? (() => new Date());
    this.#since = deps.seq;
  }
  changed({ data, seq, resync }: InboxChanges): void {
    if (resync) this.#since = seq;
    const opened = data.filter((i) => this.#isNew(i) && isNotifying(i));
    if (resync || !opened.length || !this.#deps.mayShow()) return;
    const newest = opened.slice(-AT_ONCE_MAX);
    this.settled = this.settled.then(() => this.#notify(newest)).catch(() => undefined); // a push message follows
  }
  read(): void {
    // Items that were read change, too.
  }
  #isNew({ id, changed_seq }: InboxItem): boolean {
    if (changed_seq <= this.#since || (this.#handled.get(id) ?? 0) >= changed_seq) return false;
    this.#handled.delete(id);
    this.#handled.set(id, changed_seq);
    if (this.#handled.size > REMEMBERED_MAX) this.#handled.delete(this.#handled.keys().next().value!);
    return true;
  }
  async #notify(items: readonly InboxItem[]): Promise<void> {
    if (await this.#deps.isAnyVisible()) return;
    const [settings, max] = await Promise.all([this.#deps.settings(), this.#deps.previewMax()]);
    if (isHeldBack(settings, this.#now())) return;
    for (const item of items) this.#deps.show(await this.#notificationOf(item, settings, max));
  }
  async #notificationOf(
    i: InboxItem,
    settings: NotificationSettings,
    max: PreviewMax | null,
  ): Promise<ShownNotification> {
    const channel = i.channel_id ? this.#deps.channel(i.channel_id) : undefined;
    // A push message with more follows.
    const most = !max ? 'none' : channel?.kind === 'public' ? max.public : max.private;
    const preview = limited(settings.preview, most);
    const happened = describe(i);
    let [title, body] = [happened, ''];
    if (preview === 'none') title = 'New message';
    if (preview === 'full') {
      if (i.from && channel?.name) title = `${i.from.name} in #${channel.name}`;
      else if (i.from && i.message_id) title = i.from.name;
      body = (i.text || i.title).slice(0, BODY_MAX);
    }
    const tag = await tagOf(i.fork_id ?? i.thread_id ?? i.id);
    const payload = { item: i.id, tag, title, body, url: this.#deps.pathOf(i), badge: null };
    return notificationOf(JSON.stringify(payload), false);
  }
}

/** True if an item is open, its level notifies, and the user has not read it, as the server decides for push messages. */
const isNotifying = (i: InboxItem): boolean =>
  i.state === 'open' && i.notifies && (i.unread || !i.message_id || i.reason === 'saved');

const TEXTS: Record<InboxReason, (from: string) => string> = {
  mention: (from) => `${from} mentioned you`,
  direct: (from) => `${from} sent you a message`,
  group: (from) => `${from} mentioned everyone`,
  thread: (from) => `${from} started a thread`,
  answer: (from) => `${from} replied`,
  reply: (from) => `${from} replied`,
  assigned: (from) => `${from} assigned you an action item`,
  result: () => 'A deep dive has a result',
  failed: () => 'Something you started failed',
  resolve: () => 'A deep dive waits for you',
  draft: () => 'A draft is ready',
  approval: () => 'An action waits for your approval',
  notice: () => 'Something needs attention',
  saved: () => 'A message that you saved',
};
/** Describes the event behind an item without naming its place, with the words of push messages. */
const describe = (i: InboxItem): string => TEXTS[i.reason](i.from?.name.trim() || 'Somebody');
