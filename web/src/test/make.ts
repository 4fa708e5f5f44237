/** API objects for unit tests; tests specify only the relevant fields. */
import type { KeyValueStore } from '../lib/storage';
import type { WindowLocks } from '../lib/window-locks';
import type { Agent, Channel, Fork, Member, Message, MyChannel, Snapshot, Task, Thread } from '../api/types';

export const AT = '2026-01-05T09:00:00.000Z';
let seq = 0;
export const nextSeq = (): number => ++seq;

export function message(x: Partial<Message> = {}): Message {
  const n = x.seq ?? nextSeq();
  const content = x.content ?? `message ${n}`;
  return {
    id: `msg_${n}`,
    workspace_id: 'ws_1',
    channel_id: 'chan_1',
    thread_id: 'thread_1',
    fork_id: null,
    parent_id: null,
    seq: n,
    author: { type: 'human', id: 'user_bo', name: 'Bo', avatar_url: null },
    kind: 'text',
    state: 'complete',
    content,
    content_plain: content,
    mentions: [],
    reactions: [],
    attachments: [],
    metadata: {},
    client_id: null,
    created_at: AT,
    edited_at: null,
    deleted_at: null,
    ...x,
  };
}
export const fromAgent = (x: Partial<Message> = {}): Message =>
  message({ author: { type: 'agent', id: 'agent_vibe', name: 'Vibe', avatar_url: null }, ...x });

export function task(x: Partial<Task> = {}): Task {
  return {
    id: 'task_1',
    workspace_id: 'ws_1',
    channel_id: 'chan_1',
    kind: 'reply',
    status: 'queued',
    agent_id: 'agent_vibe',
    agent_version: 1,
    thread_id: 'thread_1',
    fork_id: null,
    trigger_message_id: 'msg_1',
    requested_by: 'user_me',
    retry_of: null,
    parent_task_id: null,
    root_task_id: 'task_1',
    after_task_id: null,
    run_id: null,
    step_id: null,
    depth: 0,
    attempt: 1,
    round: 0,
    retry_at: null,
    wait_reason: null,
    input: { prompt: 'what now?' },
    output: null,
    reply_message_id: null,
    token_usage: null,
    error: null,
    queued_at: AT,
    started_at: null,
    completed_at: null,
    ...x,
  };
}
export function thread(x: Partial<Thread> = {}): Thread {
  return {
    id: 'thread_1',
    workspace_id: 'ws_1',
    channel_id: 'chan_1',
    title: null,
    status: 'open',
    agent_id: null,
    agent_version: null,
    auto_reply: false,
    memory: 'on',
    presets: [],
    root_message_id: 'msg_1',
    reply_count: 0,
    participants: [],
    last_activity_at: AT,
    last_seq: 1,
    variant_of: null,
    created_by: 'user_bo',
    created_at: AT,
    ...x,
  };
}
export function fork(x: Partial<Fork> = {}): Fork {
  return {
    id: 'fork_1',
    workspace_id: 'ws_1',
    channel_id: 'chan_1',
    thread_id: 'thread_1',
    message_id: 'msg_1',
    title: 'What breaks offline?',
    description: null,
    agent_id: 'agent_vibe',
    agent_version: null,
    auto_reply: true,
    context: 'message',
    presets: [],
    status: 'active',
    stale: false,
    message_count: 0,
    created_by: 'user_bo',
    created_at: AT,
    resolved_at: null,
    resolution_id: null,
    draft_id: null,
    collaboration: null,
    ...x,
  };
}
export function channel(x: Partial<Channel> = {}): Channel {
  return {
    id: 'chan_1',
    workspace_id: 'ws_1',
    kind: 'public',
    name: 'general',
    topic: null,
    agent_id: null,
    agent: null,
    created_by: 'user_bo',
    created_at: AT,
    archived_at: null,
    ...x,
  };
}
export const myChannel = (x: Partial<MyChannel> = {}): MyChannel => ({
  ...channel(),
  is_member: true,
  unread_count: 0,
  mention_count: 0,
  read_seq: 0,
  level: 'mentions',
  ...x,
});
export const member = (id: string, name: string, handle: string): Member => ({
  user_id: id,
  name,
  handle,
  email: `${handle}@example.com`,
  avatar_url: null,
  role: 'member',
  status: 'active',
  joined_at: AT,
});
export const agent = (id: string, name: string, display: string): Agent => ({
  id,
  object: 'agent_profile',
  name,
  display_name: display,
  description: null,
  avatar: null,
  capabilities: [],
  role: 'specialist',
  model: null,
  mentionable: true,
  is_default: false,
  is_system: false,
  adapts: false,
  status: 'active',
  version: 1,
  base_profile_id: null,
  access_control: null,
  created_at: AT,
  updated_at: AT,
});
export function snapshot(x: Partial<Snapshot> = {}): Snapshot {
  return {
    epoch: 'e1',
    seq: 0,
    me: {
      id: 'user_me',
      email: 'me@example.com',
      name: 'Mia',
      handle: 'mia',
      role: 'member',
      avatar_url: null,
    },
    workspace: {
      id: 'ws_1',
      name: 'Northwind',
      slug: 'northwind',
      default_agent_id: null,
      guests_use_agents: true,
      created_at: AT,
    },
    members: [member('user_me', 'Mia', 'mia'), member('user_bo', 'Bo', 'bo')],
    bots: [],
    channels: [myChannel()],
    agents: [agent('agent_vibe', 'vibe', 'Vibe'), agent('agent_coder', 'coder', 'Coder')],
    open_forks: [],
    agents_truncated: false,
    muted_threads: [],
    inbox: { open: 0, seq: 0 },
    active_tasks: [],
    presence: [],
    limits: { upload_bytes_max: 25 * 1024 * 1024 },
    agents_state: 'running',
    checklist: null,
    ...x,
  };
}

/** In-memory storage of a browser with one window. */
export function store(browser = new Browser()): KeyValueStore & { kept: Map<string, string> } {
  return Object.assign(browser.open().store, { kept: browser.kept });
}

interface FakeWindow {
  store: KeyValueStore;
  locks: WindowLocks;
  /** Suspends the window: other windows get its locks, and its watchers stop. */
  close(): void;
}
interface Claim {
  window: object;
  onheld: () => void;
  onlost: (() => void) | undefined;
}

/**
 * Storage and locks of one browser, shared by its windows. Other windows see a change in a later task, as in browsers.
 */
export class Browser {
  readonly kept = new Map<string, string>();
  /** True to reject all writes. */
  full = false;
  #watchers = new Map<(key: string) => void, object>();
  #claims = new Map<string, Claim[]>();

  /** `shared`: false as on plain http, where windows do not share locks. */
  open({ shared = true } = {}): FakeWindow {
    const window = {};
    const send = (key: string) => {
      for (const [watcher, of] of this.#watchers)
        if (of !== window) queueMicrotask(() => this.#watchers.has(watcher) && watcher(key));
    };
    const kept: KeyValueStore = {
      get: (key) => this.kept.get(key) ?? null,
      set: (key, value) => {
        if (this.full) return false;
        if (this.kept.get(key) === value) return true; // no event without a change, as in browsers
        this.kept.set(key, value);
        send(key);
        return true;
      },
      remove: (key) => {
        if (this.kept.delete(key)) send(key);
      },
      keys: (prefix) => [...this.kept.keys()].filter((key) => key.startsWith(prefix)),
      watch: (onchange) => {
        this.#watchers.set(onchange, window);
        return () => this.#watchers.delete(onchange);
      },
    };
    const locks: WindowLocks = {
      shared,
      hold: (name, onheld, { onlost, steal = false } = {}) => {
        if (!shared) {
          onheld();
          return () => undefined;
        }
        const claim: Claim = { window, onheld, onlost };
        const queue = this.#claims.get(name) ?? [];
        this.#claims.set(name, queue);
        if (steal) {
          queue.splice(0, 1, claim)[0]?.onlost?.();
          onheld();
        } else if (queue.push(claim) === 1) onheld();
        return () => this.#leave(queue, claim);
      },
    };
    const close = () => {
      for (const [watcher, of] of this.#watchers) if (of === window) this.#watchers.delete(watcher);
      for (const queue of this.#claims.values())
        for (const claim of [...queue]) if (claim.window === window) this.#leave(queue, claim);
    };
    return { store: kept, locks, close };
  }
  #leave(queue: Claim[], claim: Claim): void {
    const at = queue.indexOf(claim);
    if (at < 0) return;
    queue.splice(at, 1);
    if (at === 0) queue[0]?.onheld();
  }
}
