import type { DroppableFrame, MessageCreated, OutcomeEvent, ServerEvent } from '../api/events';
import type { Channel, Message, Task } from '../api/types';
import { counts, isFrom, mentionsMe } from '../lib/messages';
import type { OpenConversations } from './open-conversations';
import { placeOf } from './tasks.svelte';
import type { WorkspaceParts } from './workspace-parts';

interface Effects {
  /** Announces a text in the polite live region. */
  announce(text: string): void;
  /** Requests a running reply again because part of it is missing; the server sends the whole text. */
  resubscribe(place: string): void;
  /** Called when the user has left a channel, whose events may no longer arrive. */
  left(): void;
}

/** Applies the server's events and frames to the state of a workspace. */
export class Incoming {
  #ws: WorkspaceParts;
  #open: OpenConversations;
  #out: Effects;
  #fetching = new Set<string>();
  #outcomeListeners = new Set<(e: OutcomeEvent) => void>();
  #eventListeners = new Set<(e: ServerEvent) => void>();

  constructor(ws: WorkspaceParts, open: OpenConversations, out: Effects) {
    this.#ws = ws;
    this.#open = open;
    this.#out = out;
  }
  /** Subscribes a resolution editor to events. Returns a function that unsubscribes. */
  onOutcome(listener: (e: OutcomeEvent) => void): () => void {
    this.#outcomeListeners.add(listener);
    return () => this.#outcomeListeners.delete(listener);
  }
  /** Subscribes a list to events, after they have been applied. Returns a function that unsubscribes. */
  onEvent(listener: (e: ServerEvent) => void): () => void {
    this.#eventListeners.add(listener);
    return () => this.#eventListeners.delete(listener);
  }

  apply(e: ServerEvent): void {
    this.#noteGuests(e);
    this.#ws.people.apply(e);
    this.#apply(e);
    for (const listener of this.#eventListeners) listener(e);
  }
  #apply(e: ServerEvent): void {
    switch (e.type) {
      case 'workspace.updated':
        this.#ws.workspace = { ...this.#ws.workspace, ...e.data.workspace };
        return;
      case 'channel.created':
      case 'channel.updated':
      case 'channel.archived':
        return this.#ws.channels.put(e.data.channel);
      case 'channel.imported':
        return this.#open.reloadChannel(e.data.channel_id);
      case 'channel.member_added':
      case 'channel.member_removed':
        return this.#membership(e.type === 'channel.member_added', e.data.channel, e.data.user_id);
      case 'thread.created':
      case 'thread.updated':
        this.#ws.threads.put(e.data.thread);
        this.#open.variant(e.data.thread);
        return this.#open.list(this.#ws.threads.map.get(e.data.thread.id));
      case 'thread.deleted':
        return this.#ws.forgetThread(e.data.thread_id, e.data.channel_id);
      case 'message.created':
        return this.#created(e);
      case 'message.updated':
      case 'message.deleted': {
        const m = e.data.message;
        this.#ws.threads.changed(m);
        if (!m.fork_id && !isFrom(m, this.#ws.myId) && (m.deleted_at || m.edited_at))
          this.#ws.reads.changed(m);
        this.#open.changed(m, e);
        if (m.state !== 'streaming') this.#ws.streams.end(m.id);
        for (const state of this.#open.forks.all()) state.changed(m);
        if (e.type === 'message.deleted') this.#ws.inbox.spread();
        return;
      }
      case 'reaction.added':
      case 'reaction.removed':
        if (e.thread_id) this.#open.changed({ thread_id: e.thread_id, fork_id: e.fork_id ?? null }, e);
        return;
      case 'fork.created':
      case 'fork.updated':
        return this.#ws.forks.put(e.data.fork);
      case 'resolution.drafted':
      case 'resolution.updated':
      case 'resolution.published':
      case 'action_item.updated':
        return this.#outcome(e);
      case 'task.status_changed':
        return this.#task(e.data.task);
      case 'inbox.updated':
        return this.#ws.inbox.soon();
    }
  }
  onFrame(f: DroppableFrame): void {
    switch (f.type) {
      case 'task.delta': {
        const task = this.#ws.tasks.map.get(f.task_id);
        const place = task ? placeOf(task) : null;
        if (!this.#ws.streams.delta(f, place) && place) this.#out.resubscribe(place);
        return;
      }
      case 'typing': {
        const place = f.fork_id ?? f.thread_id;
        if (place && f.user_id !== this.#ws.myId) this.#ws.typing.started(place, f.user_id);
        return;
      }
      case 'presence':
        return this.#ws.people.seen(f);
      case 'read.updated':
        if ('channel_id' in f) {
          this.#ws.inbox.read({ channel: f.channel_id }, f.seq);
          return this.#ws.reads.readChannel(f.channel_id, f.seq);
        }
        this.#ws.inbox.read({ thread: f.thread_id }, f.seq);
        return this.#ws.reads.marked(f.thread_id, f.seq);
      case 'inbox.created':
        return this.#ws.inbox.soon();
      case 'ephemeral':
        return this.#ws.ephemeral.add(f);
      case 'follow.updated':
        this.#ws.inbox.soon();
        return this.#ws.reads.followed(f.thread_id, f.follow);
      case 'fork_read.updated':
        this.#ws.inbox.read({ fork: f.fork_id }, f.seq);
        return this.#ws.forkReads.marked(f.fork_id, f.seq);
      case 'fork_follow.updated':
        this.#ws.inbox.soon();
        this.#ws.reads.follows++;
        return this.#ws.forkReads.followed(f.fork_id, f.follow);
      case 'channel.activity':
        if (!this.#ws.channels.follows(f.channel_id)) this.#ws.channels.active.add(f.channel_id);
        return;
    }
  }

  #created(e: MessageCreated): void {
    const m = e.data.message;
    const mine = m.author.type === 'human' && m.author.id === this.#ws.myId;
    const open = this.#open.window(m);
    this.#ws.threads.created(m, this.#ws.myId);
    if (m.kind === 'resolution') this.#open.channels.known(m.channel_id)?.filtered.add(m.thread_id);
    if (!m.fork_id) this.#moved(m);
    this.#ws.forks.created(m, this.#ws.myId);
    open?.apply(e);
    if (mine && m.client_id) this.#ws.outbox.confirm(m.client_id, placeOf(m));
    if (m.author.type === 'human' && m.author.id) this.#ws.typing.stopped(placeOf(m), m.author.id);
    if (m.author.type === 'agent' && m.metadata.task_id) this.#ws.tasks.writes(m.metadata.task_id, m.id);
    if (counts(m, this.#ws.myId))
      this.#ws.channels.count(
        m.channel_id,
        this.#ws.threads.isMuted(m.thread_id),
        mentionsMe(m, this.#ws.myId),
        e.seq,
      );
    if ((m.author.type === 'human' || m.author.type === 'bot') && !mine && m.kind !== 'notice')
      this.#inbox(m);
  }
  /** Replies have no rows, and items of a channel no signal: both follow from messages. */
  #inbox(m: Message): void {
    const { inbox, threads } = this.#ws;
    const place = m.fork_id ? this.#ws.forks.get(m.fork_id) : threads.map.get(m.thread_id);
    const level = place?.follow?.level;
    if (level === 'all') inbox.soon();
    else inbox.spread();
  }
  /** Handles a message that moved its thread up in the list; a dropped thread is loaded again. */
  #moved(m: Message): void {
    const known = this.#ws.threads.map.get(m.thread_id);
    if (known) return this.#open.list(known);
    const list = this.#open.channels.known(m.channel_id);
    if (!list || list.status !== 'ready' || this.#fetching.has(m.thread_id)) return;
    this.#fetching.add(m.thread_id);
    const { version } = this.#ws.threads;
    this.#ws.api
      .thread(m.thread_id)
      .then(
        (thread) => this.#ws.learnThread(thread, version),
        () => undefined, // the next load of the list includes the thread
      )
      .finally(() => this.#fetching.delete(m.thread_id));
  }
  #outcome(e: OutcomeEvent): void {
    this.#ws.outcomes.apply(e);
    for (const listener of this.#outcomeListeners) listener(e);
  }
  #task(task: Task): void {
    const before = this.#ws.tasks.map.get(task.id)?.status;
    this.#ws.tasks.put(task);
    if (!this.#open.window(task)?.watching || before === task.status) return;
    const name = this.#ws.people.agentName(task.agent_id);
    if (task.kind !== 'reply') return; // the editor shows the progress of a draft
    if (task.status === 'running') this.#out.announce(`${name} is replying`);
    else if (task.status === 'completed') this.#out.announce(`${name} replied`);
    else if (task.status === 'cancelled') this.#out.announce('Stopped');
    else if (task.status === 'failed') this.#out.announce(`${name} couldn’t reply`);
  }
  #membership(added: boolean, channel: Channel, user: string): void {
    if (user === this.#ws.myId) {
      if (added) return this.#ws.channels.join(channel);
      this.#ws.channels.leave(channel.id);
      this.#ws.inbox.spread();
      return this.#out.left();
    }
    if (this.#ws.channels.map.has(channel.id)) this.#ws.channels.put(channel);
  }
  /** Notes where the number of guests may have changed: an event about a guest does not name all their channels. */
  #noteGuests(e: ServerEvent): void {
    const { people, channels } = this.#ws;
    const isGuest = (user: string) => people.members.get(user)?.role === 'guest';
    switch (e.type) {
      case 'channel.member_added':
      case 'channel.member_removed':
        if (isGuest(e.data.user_id)) channels.miscounted.add(e.data.channel.id);
        return;
      case 'member.joined':
      case 'member.updated':
      case 'member.removed':
        if (e.data.member.role !== 'guest' && !isGuest(e.data.member.user_id)) return;
        for (const id of channels.map.keys()) channels.miscounted.add(id);
    }
  }
}
