import type { Action, Waiting } from '../api/actions';
import type { AdaptationState } from '../api/adaptation';
import type { ListedNode } from '../api/admin-types';
import { Api } from '../api/api';
import type { Bot } from '../api/bots';
import type { CommandResult } from '../api/commands';
import type { ServerEvent } from '../api/events';
import type { FollowedConversation } from '../api/following';
import type { DependentPerson, IdentityProvider, ScimToken } from '../api/identity';
import type { StylePreset } from '../api/reply-styles';
import type { Run, Workflow } from '../api/runs';
import type { Schedule } from '../api/schedules';
import type { SearchHit } from '../api/search';
import type { ServerInfo } from '../api/server';
import type { Fork, Message, Task, Thread } from '../api/types';
import { WorkspaceState } from '../state/workspace.svelte';
import { AT, Browser, fork, message, myChannel, snapshot, thread } from './make';
import type { Inbox } from './inbox';
import type { TaskTree } from '../api/task-trees';
import type { CodeRoutes } from './make-code';
import { waiting } from './make-actions';
import type { SignInRules } from '../settings/sign-in-rules';
import type { StoredFile, VersionedObject } from './versioned';

/** In-memory server: implements the routes that the state uses, with data from the test. */
export class Backend {
  threads = new Map<string, Thread>();
  /** Threads of a channel, as in its list. */
  lists = new Map<string, Thread[]>();
  forks = new Map<string, Fork>();
  messages: Message[] = [];
  tasks: Task[] = [];
  /** Tree that contains `tasks`. */
  tree: TaskTree | null = null;
  /** Mia's adaptation states. */
  adaptation: AdaptationState[] = [];
  /** Reply styles of the workspace. */
  presets: StylePreset[] = [{ id: 'concise', name: 'Brief', description: '', addons: [] }];
  /** Tool calls, by ID. */
  actions = new Map<string, Action>();
  /** Mia's open decisions. */
  waiting: Waiting = waiting();
  /** Repositories and sessions, for tests of them. */
  code: CodeRoutes | null = null;
  /** Mia's inbox, for tests of it. */
  inbox: Inbox | null = null;
  /** Hits of each search. */
  hits: SearchHit[] = [];
  /** Mia's followed conversations. */
  following: FollowedConversation[] = [];
  workflows: Workflow[] = [];
  bots: Bot[] = [];
  /** Answer of bots to commands. */
  commandAnswer: CommandResult = { message: null, text: null };
  schedules: Schedule[] = [];
  /** Runs by ID. Requests that start or change a run return its entry. */
  runs = new Map<string, Run>();
  /** Registered servers. */
  tools: { id: string; title: string }[] = [];
  /** Nodes, if Mia's workspace is the oldest; otherwise null. */
  nodes: ListedNode[] | null = null;
  fileBytesInDatabase = 0;
  /** State of the server, as after each request. */
  server: ServerInfo | null = null;
  providers: IdentityProvider[] = [];
  scimTokens: ScimToken[] = [];
  /** People who sign in only with a provider. */
  dependents: DependentPerson[] = [];
  /** Demands of the workspace on sessions. */
  signIn: SignInRules = {
    second_factor: 'off',
    from: null,
    providers: null,
    idle_s: 2_592_000,
    age_s: 15_552_000,
  };
  /** Threads of published resolutions. */
  calls: string[] = [];
  bodies: unknown[] = [];
  snapshot = snapshot();
  fail: number | null = null;
  /** If set, only requests with these paths fail. */
  refuse: RegExp | null = null;
  /** Requests with these paths get no response. */
  lost: RegExp | null = null;
  failure: object = { code: 'x', message: 'No.' };
  /** While set, responses wait for this promise. */
  gate: Promise<void> | null = null;
  /** Versioned objects by path. */
  objects = new Map<string, VersionedObject>();
  /** Files of the workspace. */
  sharedFiles: StoredFile[] = [];
  /** Number of members of #general. */
  memberCount = 2;
  /** The workspace context as it is sent. */
  contextText = '';

  fetch = async (request: Request): Promise<Response> => {
    const url = new URL(request.url);
    const call = `${request.method} ${url.pathname}`;
    this.calls.push(call);
    const text = await request.text();
    const body = text ? (JSON.parse(text) as Record<string, unknown>) : {};
    this.bodies.push(body);
    await this.gate;
    if (this.lost?.test(call)) throw new TypeError('no response');
    if (this.refuse?.test(call)) return Response.json({ error: this.failure }, { status: 409 });
    if (this.fail) return Response.json({ error: this.failure }, { status: this.fail });
    const object = this.objects.get(url.pathname);
    if (object) return object.answer(request, body);
    const code = this.code?.answer(call, url, body);
    if (code) return code;
    if (call === 'GET /v1/nodes' && !this.nodes)
      return Response.json({ error: this.failure }, { status: 404 });
    return Response.json(this.#answer(call, url, body));
  };
  #scimTokens(call: string): unknown {
    if (call.startsWith('POST')) {
      const made = { id: `scim_${this.scimTokens.length + 1}`, created_at: AT, last_used_at: null };
      this.scimTokens = [...this.scimTokens, made];
      return { ...made, token: `ovscim_${made.id}` };
    }
    if (call.startsWith('DELETE'))
      this.scimTokens = this.scimTokens.filter((token) => !call.endsWith(token.id));
    return { object: 'list', data: this.scimTokens, has_more: false };
  }
  #server(call: string, server: ServerInfo, body: Record<string, unknown>): unknown {
    const { backups, update } = server;
    if (call === 'PATCH /v1/server')
      this.server = {
        ...server,
        backups: { ...backups, key_copied: body.key_copied === true || backups.key_copied },
        update: { ...update, enabled: body.look_for_updates === true },
      };
    if (/^POST .*(backups|drill)$/.test(call))
      this.server = { ...server, backups: { ...backups, running: true } };
    if (call === 'POST /v1/server/checks') return { data: server.checks };
    if (call === 'POST /v1/server/resume') {
      this.server = { ...server, agents_state: 'running' };
      return { tasks: 2 };
    }
    return this.server;
  }
  #answer(call: string, url: URL, body: Record<string, unknown>): unknown {
    const list = (data: unknown[]) => ({ object: 'list', data, has_more: false });
    const id = url.pathname.split('/')[3]!;
    if (call === 'GET /v1/snapshot') return this.snapshot;
    if (call === 'GET /v1/tasks') return list(this.tasks);
    if (/^GET \/v1\/tasks\/\w+\/tree$/.test(call)) return this.tree;
    if (/^(GET|POST) \/v1\/tasks\/\w+(\/(cancel|retry))?$/.test(call))
      return this.tasks.find((t) => t.id === id);
    if (call === 'GET /v1/waiting') return this.waiting;
    if (url.pathname.startsWith('/v1/inbox') || url.pathname.endsWith('/saved'))
      return (
        this.inbox?.answer(call, url, body) ?? { ...list([]), open: 0, seq: this.snapshot.seq, resync: false }
      );
    if (call === 'GET /v1/workspaces/ws_1/files')
      return list(this.sharedFiles.filter((f) => f.content !== null).map((f) => f.summary()));
    if (call === 'GET /v1/workspaces/ws_1/context') return { text: this.contextText, tokens: 0, parts: [] };
    if (call === 'GET /v1/tools') return list(this.tools);
    if (call === 'GET /v1/channels') return list([{ ...myChannel(), member_count: this.memberCount }]);
    if (call === 'GET /v1/nodes')
      return { ...list(this.nodes!), file_bytes_in_database: this.fileBytesInDatabase };
    if (call === 'GET /v1/identity-providers') return list(this.providers);
    if (/^PATCH \/v1\/identity-providers\/\w+$/.test(call)) {
      this.providers = this.providers.map((p) => (p.id === id ? { ...p, ...body } : p));
      return this.providers.find((p) => p.id === id);
    }
    if (/^GET \/v1\/identity-providers\/\w+\/people$/.test(call)) return list(this.dependents);
    if (/^POST \/v1\/identity-providers\/\w+\/links$/.test(call)) return { people: this.dependents.length };
    if (url.pathname.includes('/scim-tokens')) return this.#scimTokens(call);
    if (url.pathname === '/v1/workspaces/ws_1') {
      this.signIn = { ...this.signIn, ...(body.sign_in as Partial<SignInRules> | undefined) };
      const second_factors = { people: 40, without_factor: 3 };
      return { ...this.snapshot.workspace, sign_in: this.signIn, second_factors };
    }
    if (call === 'GET /v1/auth/methods') {
      const providers = this.providers.map(({ id, name }) => ({ id, name, for_domain: false }));
      return { password: true, passkey: false, providers };
    }
    if (/^GET .v1.auth.(identities|passkeys)$/.test(call)) return list([]);
    if (call === 'GET /v1/auth/factors') return { app: false, passkeys: 0, recovery_codes: 0 };
    if (this.server && url.pathname.startsWith('/v1/server')) return this.#server(call, this.server, body);
    if (call === 'GET /v1/actions') {
      const [task, state] = [url.searchParams.get('task_id'), url.searchParams.get('state')];
      const fits = (a: Action) => (!task || a.task_id === task) && (!state || a.state === state);
      return list([...this.actions.values()].filter(fits));
    }
    if (/^(GET|POST) \/v1\/actions\/\w+(\/\w+)?$/.test(call)) return this.actions.get(id);
    if (/^DELETE \/v1\/grants\/\w+$/.test(call)) {
      this.waiting = { ...this.waiting, grants: this.waiting.grants.filter((g) => g.id !== id) };
      return {};
    }
    if (call === 'GET /v1/search') return list(this.hits);
    if (call === 'GET /v1/following') return list(this.following);
    if (call === 'GET /v1/workflows') {
      const name = url.searchParams.get('name');
      return list(this.workflows.filter((w) => !name || w.name === name));
    }
    if (/^GET \/v1\/workflows\/\w+$/.test(call)) return this.workflows.find((w) => w.id === id);
    if (/^POST \/v1\/workflows\/\w+\/runs$/.test(call)) {
      const run = [...this.runs.values()].find((r) => r.workflow_id === id)!;
      return { run, task: this.tasks.find((t) => t.id === run.root_task_id) };
    }
    if (call === 'GET /v1/bots') return list(this.bots);
    if (/^POST \/v1\/commands\/[\w-]+$/.test(call)) return this.commandAnswer;
    if (call === 'GET /v1/schedules') return list(this.schedules);
    if (call === 'POST /v1/schedules/preview') return { next: [] };
    if (call === 'GET /v1/runs') return list([...this.runs.values()]);
    if (/^(GET|POST) \/v1\/runs\/\w+(\/\w+)?$/.test(call)) return this.runs.get(id);
    if (call === 'GET /v1/action-items') return list([]);
    if (call === 'GET /v1/decisions') return list([]);
    if (/^GET \/v1\/(threads|forks)\/\w+\/compactions$/.test(call)) return { ...list([]), window: null };
    if (/^GET \/v1\/threads\/\w+\/messages$/.test(call)) {
      const base = this.threads.get(id)?.variant_of;
      const until = this.messages.find((m) => m.id === base?.message_id)?.seq ?? 0;
      const isShown = (m: Message) =>
        m.thread_id === id || (m.thread_id === base?.thread_id && m.seq < until);
      return list(this.messages.filter((m) => !m.fork_id && isShown(m)));
    }
    if (/^GET \/v1\/forks\/\w+\/messages$/.test(call))
      return list(this.messages.filter((m) => m.fork_id === id));
    if (/^(GET|PATCH) \/v1\/threads\/\w+$/.test(call))
      return { first_unread_id: null, variants: [], ...this.threads.get(id)!, ...body };
    if (/^GET \/v1\/channels\/\w+\/threads$/.test(call)) return list(this.lists.get(id) ?? []);
    if (/^POST \/v1\/channels\/\w+\/threads$/.test(call)) {
      const { content, client_id, agent_id } = body as {
        content: string;
        client_id: string;
        agent_id?: string;
      };
      const said = mine({ content, client_id, thread_id: 'thread_new' });
      return { thread: thread({ id: 'thread_new', agent_id: agent_id ?? null }), message: said, tasks: [] };
    }
    if (/^GET \/v1\/threads\/\w+\/forks$/.test(call)) return list([...this.forks.values()]);
    if (/^POST \/v1\/threads\/\w+\/forks$/.test(call)) {
      const made = fork({ id: 'fork_new', message_id: body.message_id as string, created_by: 'user_me' });
      this.forks.set(made.id, made);
      return { fork: made };
    }
    if (/^POST \/v1\/forks\/\w+\/messages$/.test(call)) {
      const { content, client_id } = body as { content: string; client_id: string };
      const said = mine({ content, client_id, fork_id: id });
      this.messages.push(said);
      return { message: said, tasks: [] };
    }
    if (/^(GET|PATCH) \/v1\/forks\/\w+$/.test(call)) return { ...this.forks.get(id)!, ...body };
    if (/^GET \/v1\/messages\/\w+$/.test(call)) return this.messages.find((m) => m.id === id);
    if (/^PUT .*\/read$/.test(call))
      return { thread_id: 'thread_1', seq: body.seq, unread_count: 0, mention_count: 0 };
    if (
      /^(GET \/v1\/channels\/\w+|PUT \/v1\/channels\/\w+\/level|POST \/v1\/channels\/\w+\/read)$/.test(call)
    )
      return this.snapshot.channels[0];
    if (call === 'GET /v1/adaptation') {
      const from = Number(url.searchParams.get('cursor') ?? 0);
      const to = from + Number(url.searchParams.get('limit'));
      const has_more = to < this.adaptation.length;
      const data = this.adaptation.slice(from, to);
      return { ...list(data), has_more, next_cursor: has_more ? String(to) : null };
    }
    if (call === 'DELETE /v1/adaptation') {
      const deleted = this.adaptation.length;
      this.adaptation = [];
      return { deleted };
    }
    if (/^DELETE \/v1\/agents\/\w+\/state$/.test(call)) {
      const thread = url.searchParams.get('thread_id');
      this.adaptation = this.adaptation.filter((s) => s.agent_id !== id || s.thread_id !== thread);
      return { deleted: true };
    }
    if (call === 'PATCH /v1/auth/me') return {};
    if (call === 'GET /v1/prompt-profiles') return { presets: this.presets };
    if (/^(PUT|DELETE) .*\/follow$/.test(call)) return { level: body.level ?? 'mentions', cause: null };
    if (/^PUT .*reactions/.test(call)) return this.messages[0];
    throw new Error(`unexpected ${call}`);
  }
}
export const mine = (x: Partial<Message> = {}): Message =>
  message({ author: { type: 'human', id: 'user_me', name: 'Mia', avatar_url: null }, ...x });

/** Mia's workspace on a `Backend`, and its outgoing calls. */
export class Scene {
  backend = new Backend();
  said: string[] = [];
  /** Frames that were sent over the socket. */
  sent: Record<string, unknown>[] = [];
  seq = 100;
  visible = true;
  /** True if this window's user is still signed in. */
  current = true;
  /** Resolves to true if the server confirms that the session is Mia's. */
  confirmed = Promise.resolve(true);
  ended = 0;
  readonly browser: Browser;
  ws: WorkspaceState;
  #transport: { onopen: (() => void) | null; onmessage: ((e: { data: unknown }) => void) | null } | null =
    null;

  constructor(browser = new Browser()) {
    this.browser = browser;
    const { store, locks } = browser.open();
    this.backend.threads.set('thread_1', {
      ...thread({ last_seq: 0 }),
      unread_count: 0,
      mention_count: 0,
      read_seq: 0,
      active_tasks: [],
    });
    this.ws = new WorkspaceState(
      { id: 'ws_1', slug: 'northwind' },
      'user_me',
      new Api({ fetch: this.backend.fetch, base: 'http://x' }),
      {
        store,
        locks,
        socketUrl: 'ws://x',
        socket: {
          open: () => {
            const transport = {
              onopen: null,
              onmessage: null,
              onclose: null,
              send: (data: string) => void this.sent.push(JSON.parse(data) as Record<string, unknown>),
              close: () => undefined,
            };
            this.#transport = transport;
            return transport;
          },
          random: () => 0.5,
          setTimeout: () => 0,
          clearTimeout: () => undefined,
        },
        visible: () => this.visible,
        isCurrentUser: () => this.current,
        confirmed: () => this.confirmed,
        onEnded: () => void this.ended++,
        announce: (t) => void this.said.push(t),
      },
    );
  }
  /** Delivers the frames after which the socket is live. */
  live(): void {
    const frame = (f: object) => this.#transport?.onmessage?.({ data: JSON.stringify(f) });
    frame({ type: 'ready', protocol: 1, session_id: 's', epoch: 'e1', seq: 0, heartbeat_ms: 20_000 });
    frame({ type: 'live', seq: 0 });
  }
  event = (type: ServerEvent['type'], data: unknown, more: object = {}): void =>
    this.ws.apply({
      type,
      seq: ++this.seq,
      ts: AT,
      channel_id: 'chan_1',
      thread_id: 'thread_1',
      fork_id: null,
      data,
      ...more,
    } as ServerEvent);
  created = (m: Partial<Message> = {}): Message => {
    const full = message({ seq: this.seq + 1, ...m });
    this.event('message.created', { message: full }, { fork_id: full.fork_id });
    return full;
  };
}
