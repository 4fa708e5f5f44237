/**
 * Types of the API's objects, from the OpenAPI document (schema.ts, `npm run api`).
 * They are narrowed in two ways that the document leaves open: nullable fields are always present,
 * and strings with fixed values become unions.
 */
import type { Agent } from './agent-types';
import type { components } from './schema';

type S = components['schemas'];
/** Nullable fields are always present in responses. */
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

export type User = Sent<S['AccountUser']>;
export type WorkspaceRef = S['MyWorkspace'];
export type Account = Narrow<S['Account'], { user: User }>;
export type Setup = Narrow<S['Setup'], { signup: 'first' | 'open' | 'invite' }>;
export type SignInSession = Sent<S['MySession']>;

/** The role of the current user; events omit it. */
export type Workspace = Sent<S['Workspace']> & { role?: Role };
export type Member = Sent<S['Member']>;
export type Me = Sent<S['Me']>;
/** Token and link are only in the response that creates the invite. */
export type Invite = Narrow<Sent<S['Invite']>, { role: Role }> & { token?: string; url?: string };
export type InvitePreview = Narrow<Sent<S['InvitePreview']>, { role: Role }>;

/** Fields of a channel that depend on the current user; events omit them. */
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
  follow: Follow;
}
export type Follow = S['Follow'];
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

/** `first_unread_id`: where to start reading; null if nothing is unread. */
export type OpenedThread = Thread & { first_unread_id: string | null };

/** Omitted fields are unchanged; null clears a nullable field. */
export type ThreadPatch = Pick<S['ThreadChange'], 'title' | 'agent_id'> & {
  auto_reply?: boolean;
  status?: S['ThreadStatus'];
};

export type Mention = Narrow<Sent<S['Mention']>, { type: 'agent' | 'user' | 'group' }>;
export type Reaction = S['Reaction'];
/** A file, before and after it is attached to a message. It has no ID until it is uploaded. */
export type Attachment = Pick<
  Sent<S['UploadedFile']>,
  'id' | 'name' | 'content_type' | 'size_bytes' | 'width' | 'height' | 'message_id' | 'url'
>;
export type Author = Narrow<Sent<S['MessageAuthor']>, { type: AuthorType }>;
export type Message = Narrow<
  Sent<S['Message']>,
  {
    kind: 'text' | 'resolution' | 'notice';
    state: 'complete' | 'streaming' | 'interrupted';
    author: Author;
    mentions: Mention[];
    attachments: Attachment[];
    metadata: S['MessageMetadata'];
  }
>;

export type ForkStatus = 'active' | 'resolved' | 'abandoned';
export type ForkContext = S['ForkContext'];
/** Shown to people as a "deep dive". */
export type Fork = Narrow<Sent<S['Fork']>, { status: ForkStatus; context: ForkContext }>;
/** Omitted fields are unchanged; null clears a nullable field. */
export type ForkPatch = Pick<S['ForkChange'], 'description' | 'agent_id'> & {
  title?: string;
  auto_reply?: boolean;
  context?: ForkContext;
};
/** A start that is sent again with the same ID creates one fork. */
export type NewFork = S['ForkForm'] & { client_id: string };

/** One line of a result, with the source messages in the dive. */
export type ResolutionPoint = S['SourcedText'];
export type ResolutionAction = Sent<S['ResolutionItem']>;
export type Publisher = Narrow<S['Publisher'], { type: 'human' | 'agent' }>;
/** Shown to people as a "result". */
export type Resolution = Narrow<
  Sent<S['Resolution']>,
  {
    status: 'draft' | 'published' | 'superseded';
    action_items: ResolutionAction[];
    published_by: Publisher | null;
  }
>;
/** Each field replaces the whole value. An action item without an ID is new. */
export interface ResolutionEdit {
  headline?: string;
  conclusion?: string;
  key_points?: ResolutionPoint[];
  action_items?: (Partial<Omit<ResolutionAction, 'text'>> & { text: string })[];
  open_questions?: ResolutionPoint[];
  deferred_items?: ResolutionPoint[];
}
/** An action item with its published result, which always has a message in the thread. */
export type ActionItem = Narrow<Sent<S['ActionItem']>, { message_id: string }>;
export type ActionItemPatch = Omit<S['ItemChange'], 'done'> & { done?: boolean };

/** A task of a conversation; tasks of `/v1/responses` have none and are not shown. */
export type Task = Narrow<
  Sent<S['Task']>,
  {
    agent_id: string;
    agent_version: number;
    channel_id: string;
    thread_id: string;
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

export type { Agent, AgentProfile, AgentStatus } from './agent-types';

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
