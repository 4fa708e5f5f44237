/**
 * The objects of the contract, from the server's own document (schema.ts, `npm run api`).
 * Two things are said here that the document leaves open: fields that may be null are always sent,
 * and strings with a fixed set of values are that set.
 */
import type { components } from './schema';

type S = components['schemas'];
/** In an answer a field that may be null is there, as null. */
type Sent<T> = { [K in keyof T]-?: Exclude<T[K], undefined> };
type Narrow<T, N> = Omit<T, keyof N> & N;

export type Role = S['Role'];
export type ChannelKind = 'public' | 'private' | 'direct';
export type TaskStatus = 'queued' | 'running' | 'completed' | 'failed' | 'cancelled';
type AuthorType = 'human' | 'agent' | 'system';

export interface List<T> {
  data: T[];
  has_more: boolean;
  next_cursor?: string | null;
}

export type User = Sent<S['User']>;
export type WorkspaceRef = S['MyWorkspace'];
export type Account = Narrow<S['Account'], { user: User }>;
export type Setup = Narrow<S['Setup'], { signup: 'first' | 'open' | 'invite' }>;
export type SignInSession = Sent<S['MySession']>;

/** The role is that of the person who asks; events do not carry it. */
export type Workspace = Sent<S['Workspace']> & { role?: Role };
export type Member = Sent<S['Member']>;
export type Me = Sent<S['Me']>;
/** Token and link are in the answer to its making only. */
export type Invite = Narrow<Sent<S['Invite']>, { role: Role }> & { token?: string; url?: string };
export type InvitePreview = Narrow<Sent<S['InvitePreview']>, { role: Role }>;

/** What only the asking person sees of a channel; events do not carry it. */
export type ChannelOwn = Pick<S['MyChannel'], 'is_member' | 'unread_count' | 'mention_count' | 'read_seq'>;
export type Channel = Narrow<Sent<S['Channel']>, { kind: ChannelKind; member_ids?: string[] | null }> &
  Partial<ChannelOwn>;

export type Participant = Narrow<S['Participant'], { type: AuthorType }>;
export interface ThreadOwn {
  root_message: Message | null;
  last_message: Message | null;
  active_tasks: Task[];
  unread_count: number;
  mention_count: number;
  read_seq: number;
}
export type Thread = Narrow<
  Sent<S['Thread']>,
  {
    status: S['ThreadStatus'];
    root_message_id: string | null;
    participants: Participant[];
    created_by: string | null;
  }
> &
  Partial<ThreadOwn>;

export type Mention = Narrow<Sent<S['Mention']>, { type: 'agent' | 'user' | 'group' }>;
export type Reaction = S['Reaction'];
export type Author = Narrow<Sent<S['MessageAuthor']>, { type: AuthorType }>;
export type Message = Narrow<
  Sent<S['Message']>,
  {
    kind: 'text' | 'resolution' | 'notice';
    state: 'complete' | 'streaming' | 'interrupted';
    author: Author;
    mentions: Mention[];
    metadata: S['MessageMetadata'] & {
      resolution_id?: string | null;
      /** Who is told of a result besides those whom its text names. */
      notify_user_ids?: string[];
    };
  }
>;

export type ForkStatus = 'active' | 'resolved' | 'abandoned';
/** What its partner knows: the forked message alone, or the thread up to it. */
export type ForkContext = 'message' | 'thread';
/** Shown to people as a "deep dive". */
export interface Fork {
  id: string;
  workspace_id: string;
  channel_id: string;
  thread_id: string;
  /** The forked message. */
  message_id: string;
  title: string;
  description: string | null;
  /** The partner, which answers every message. */
  agent_id: string | null;
  agent_version: number | null;
  auto_reply: boolean;
  context: ForkContext;
  status: ForkStatus;
  /** Something was said, changed or deleted since the newest draft or result. */
  stale: boolean;
  /** Tombstones and notices count too. */
  message_count: number;
  created_by: string;
  created_at: string;
  resolved_at: string | null;
  /** The newest published result; kept when the dive is opened again. */
  resolution_id: string | null;
  draft_id: string | null;
}
export interface ForkPatch {
  title?: string;
  description?: string | null;
  agent_id?: string | null;
  auto_reply?: boolean;
  context?: ForkContext;
}

/** One line of a result, with the messages of the dive that it rests on. */
export interface ResolutionPoint {
  text: string;
  sources: string[];
}
export interface ResolutionAction extends ResolutionPoint {
  id: string;
  owner_id: string | null;
  /** A name that the draft took from the text, when it is nobody here. */
  owner_name: string | null;
  /** A day, `2026-01-31`. */
  due: string | null;
  done: boolean;
}
export interface Publisher {
  type: 'human' | 'agent';
  id: string;
  name: string;
}
/** Shown to people as a "result". */
export interface Resolution {
  id: string;
  workspace_id: string;
  channel_id: string;
  thread_id: string;
  fork_id: string;
  fork_title: string;
  version: number;
  status: 'draft' | 'published' | 'superseded';
  /** An agent, `builtin`, or null: written by hand. */
  generated_by: string | null;
  edited_by: string[];
  headline: string;
  conclusion: string;
  key_points: ResolutionPoint[];
  action_items: ResolutionAction[];
  open_questions: ResolutionPoint[];
  deferred_items: ResolutionPoint[];
  /** The newest message of the dive that it was made from. */
  covers_seq: number;
  /** The number of its `ETag`. */
  revision: number;
  /** The card in the thread. */
  message_id: string | null;
  published_by: Publisher | null;
  created_at: string;
  updated_at: string;
  published_at: string | null;
}
/** Each field replaces the whole of what is there. An action item without an id is a new one. */
export interface ResolutionEdit {
  headline?: string;
  conclusion?: string;
  key_points?: ResolutionPoint[];
  action_items?: (Partial<Omit<ResolutionAction, 'text'>> & { text: string })[];
  open_questions?: ResolutionPoint[];
  deferred_items?: ResolutionPoint[];
}
/** What somebody took on, with the result that it belongs to. */
export interface ActionItem extends ResolutionAction {
  workspace_id: string;
  channel_id: string;
  thread_id: string;
  fork_id: string;
  resolution_id: string;
  message_id: string;
  headline: string;
  created_at: string;
  done_at: string | null;
  done_by: string | null;
}
export interface ActionItemPatch {
  done?: boolean;
  owner_id?: string | null;
  due?: string | null;
}

export type Task = Narrow<
  Sent<S['Task']>,
  {
    status: TaskStatus;
    wait_reason: 'rate_limited' | 'unavailable' | 'budget' | 'approval' | null;
    requested_by: string | null;
    token_usage: Sent<S['TokenUsage']> | null;
  }
>;
export type TaskContext = Narrow<
  S['TaskContext'],
  {
    messages: (Omit<S['MessageSeen'], 'author'> & {
      author: Narrow<Sent<S['SeenAuthor']>, { type: AuthorType }>;
    })[];
  }
>;

export type AgentStatus = S['SettableStatus'] | 'archived';
export type Agent = Narrow<Sent<S['AgentSummary']>, { status: AgentStatus }>;
export type AgentProfile = Narrow<Sent<S['Agent']>, { status: AgentStatus }>;
export type AgentPatch = S['AgentPatch'];

export interface Presence {
  user_id: string;
  status: 'online' | 'offline';
}
export type Snapshot = Narrow<
  S['Snapshot'],
  {
    me: Me;
    workspace: Workspace;
    members: Member[];
    channels: Channel[];
    agents: Agent[];
    open_forks: Fork[];
    active_tasks: Task[];
    presence: Presence[];
  }
>;
