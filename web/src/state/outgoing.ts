import type { ApiError } from '../api/problem';
import type { Follow, Message, Task, Thread } from '../api/types';
import type { Held } from '../files/upload.svelte';
import { toggled } from '../lib/messages';
import type { OpenConversations } from './open-conversations';
import type { OutItem, Target } from './outbox-item';
import type { Steering } from './steering';
import type { WorkspaceParts } from './workspace-parts';

/** Follow level of a thread for the user who started it; loading the thread confirms it. */
const STARTED: Follow = { level: 'all', cause: 'started' };

/** Actions of the user on messages and tasks. */
export class Outgoing {
  #ws: WorkspaceParts;
  #open: OpenConversations;
  /** Set once a composer can steer running replies. */
  steering: Steering | null = null;
  constructor(ws: WorkspaceParts, open: OpenConversations) {
    this.#ws = ws;
    this.#open = open;
  }

  send(target: Target, content: string, then?: (place: string) => void, files: Held[] = []): void {
    const shown = files.map((f) => f.shown);
    const fork_start = this.#ws.forkActions.startOf(target.fork_id);
    if (fork_start) target = { ...target, fork_start };
    target = { ...target, steer: this.steering?.of(target) };
    const id = this.#ws.outbox.add(target, content, this.#ws.connection.net !== 'offline', then, shown);
    if (files.length) this.#ws.uploads?.sent(id, files);
    const place = target.fork_id ?? target.thread_id;
    if (place) this.#ws.typing.sent(place);
  }
  /** Newest open thread of a direct channel. */
  async newestThread(channel: string): Promise<string | null> {
    const open = (t: Thread) => t.status !== 'archived';
    const known = this.#ws.threads.inChannel(channel).find(open);
    return known?.id ?? (await this.#ws.api.threads(channel)).data.find(open)?.id ?? null;
  }
  /** Posts a message of the outbox; resolves with its conversation. */
  async post(item: OutItem): Promise<string> {
    try {
      return await this.#post(item);
    } catch (e) {
      if (!item.steer || (e as Partial<ApiError>).param !== 'steer') throw e;
      const place = await this.#post({ ...item, steer: undefined });
      this.steering?.missed(item);
      return place;
    }
  }
  async #post(item: OutItem): Promise<string> {
    const { content, client_id, attachments, notify, steer } = item;
    const body = {
      content,
      client_id,
      ...(notify === false && { notify }),
      steer, // undefined fields are not sent
      ...(attachments?.length && { attachments: attachments.map((a) => a.id) }),
    };
    if (item.fork_id) {
      const fork = await this.#ws.forkActions.settled(item.fork_id, item.fork_start);
      const { message, tasks } = await this.#ws.api.postToFork(fork, body);
      this.#ws.learnTasks(tasks);
      this.#open.forks.known(fork)?.add(message);
      return fork;
    }
    if (item.thread_id) {
      const { message, tasks } = await this.#ws.api.reply(item.thread_id, body);
      this.#ws.learnTasks(tasks);
      this.#open.threads.known(item.thread_id)?.add(message);
      return item.thread_id;
    }
    const { agent_id, from_thread_id } = item;
    const start = { ...body, agent_id, from_thread_id };
    const { thread, message, tasks } = await this.#ws.api.startThread(item.channel_id, start);
    this.#ws.learnTasks(tasks);
    const known = this.#ws.threads.map.get(thread.id);
    const own = { root_message: message, last_message: message, follow: STARTED };
    if (!known) this.#ws.learnThread({ ...thread, ...own });
    else if (!known.follow) this.#ws.threads.patch(thread.id, { follow: STARTED });
    this.#open.threads.get(thread.id).seed(message);
    return thread.id;
  }
  /** Shows the reaction immediately; the event with everyone's reactions replaces it. */
  async react(m: Message, emoji: string): Promise<void> {
    const on = !m.reactions.find((r) => r.emoji === emoji)?.user_ids.includes(this.#ws.myId);
    const open = this.#open.window(m);
    open?.react(m.id, toggled(m.reactions, emoji, this.#ws.myId, on));
    try {
      await this.#ws.api.react(m.id, emoji, on);
    } catch (e) {
      const now = open?.messages.find((x) => x.id === m.id)?.reactions ?? [];
      open?.react(m.id, toggled(now, emoji, this.#ws.myId, !on));
      throw e;
    }
  }
  async edit(m: Message, content: string): Promise<void> {
    const edited = await this.#ws.api.editMessage(m.id, content);
    this.#open.window(m)?.replace(edited);
    this.#ws.threads.changed(edited);
  }
  async remove(m: Message): Promise<void> {
    const gone = await this.#ws.api.deleteMessage(m.id);
    this.#open.window(m)?.replace(gone);
    this.#ws.threads.changed(gone);
  }
  async stopTask(task: Task): Promise<void> {
    this.#ws.tasks.learn(await this.#ws.api.stopTask(task.id));
  }
  async retryTask(task: Task): Promise<void> {
    this.#ws.tasks.learn(await this.#ws.api.retryTask(task.id));
  }
}
