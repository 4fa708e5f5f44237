/** The objects of the contract (PROTOCOL.md §3). One place to change when the generated document arrives. */
export type Role = 'admin' | 'member' | 'viewer';
export type ChannelKind = 'public' | 'private' | 'direct';
export type TaskStatus = 'queued' | 'running' | 'completed' | 'failed' | 'cancelled';

export interface List<T> {
  object: 'list';
  data: T[];
  has_more: boolean;
  first_id?: string | null;
  last_id?: string | null;
  next_cursor?: string | null;
}

export interface User {
  id: string;
  email: string;
  name: string;
  avatar_url: string | null;
  created_at: string;
}
export interface WorkspaceRef {
  id: string;
  name: string;
  slug: string;
  role: Role;
}
export interface Account {
  user: User;
  workspaces: WorkspaceRef[];
}
export interface Setup {
  needs_setup: boolean;
  signup: 'first' | 'open' | 'invite';
  setup_token_required: boolean;
}
export interface SignInSession {
  id: string;
  current: boolean;
  created_at: string;
  last_seen_at: string;
  expires_at: string;
  user_agent: string | null;
  address: string | null;
}

export interface Workspace {
  id: string;
  name: string;
  slug: string;
  role?: Role;
  default_agent_id: string | null;
  created_at: string;
}
export interface Member {
  user_id: string;
  name: string;
  handle: string;
  email: string;
  avatar_url: string | null;
  role: Role;
  joined_at: string;
}
export interface Me {
  id: string;
  email: string;
  name: string;
  handle: string;
  role: Role;
  avatar_url: string | null;
}
export interface Invite {
  id: string;
  token?: string;
  url?: string;
  email: string | null;
  role: Role;
  max_uses: number | null;
  uses: number;
  expires_at: string | null;
  created_by: string;
  created_at: string;
}
export interface InvitePreview {
  workspace: { id: string; name: string; slug: string };
  role: Role;
  email: string | null;
  expires_at: string | null;
}

/** What only the asking person sees of a channel; events do not carry it. */
export interface ChannelOwn {
  is_member: boolean;
  unread_count: number;
  mention_count: number;
  read_seq: number;
}
export interface Channel extends Partial<ChannelOwn> {
  id: string;
  workspace_id: string;
  kind: ChannelKind;
  name: string | null;
  topic: string | null;
  agent_id: string | null;
  member_ids?: string[];
  created_by: string | null;
  created_at: string;
  archived_at: string | null;
}

export interface Participant {
  type: 'human' | 'agent' | 'system';
  id: string | null;
  name: string;
}
export interface ThreadOwn {
  root_message: Message | null;
  last_message: Message | null;
  active_tasks: Task[];
  unread_count: number;
  mention_count: number;
  read_seq: number;
}
export interface Thread extends Partial<ThreadOwn> {
  id: string;
  workspace_id: string;
  channel_id: string;
  title: string | null;
  status: 'open' | 'archived';
  agent_id: string | null;
  agent_version: number | null;
  auto_reply: boolean;
  root_message_id: string | null;
  reply_count: number;
  participants: Participant[];
  last_activity_at: string;
  last_seq: number;
  created_by: string | null;
  created_at: string;
}

export interface Mention {
  type: 'agent' | 'user' | 'group';
  id: string | null;
  handle: string;
  start: number;
  length: number;
}
export interface Reaction {
  emoji: string;
  user_ids: string[];
}
export interface MessageMetadata {
  agent_id?: string;
  agent_version?: number;
  task_id?: string;
  truncated?: boolean;
  [key: string]: unknown;
}
export interface Message {
  id: string;
  workspace_id: string;
  channel_id: string;
  thread_id: string;
  fork_id: string | null;
  parent_id: string | null;
  seq: number;
  author: { type: 'human' | 'agent' | 'system'; id: string | null; name: string; avatar_url: string | null };
  kind: 'text' | 'resolution' | 'notice';
  state: 'complete' | 'streaming' | 'interrupted';
  content: string;
  content_plain: string;
  mentions: Mention[];
  reactions: Reaction[];
  attachments: unknown[];
  metadata: MessageMetadata;
  client_id: string | null;
  created_at: string;
  edited_at: string | null;
  deleted_at: string | null;
}

export interface TaskUsage {
  input_tokens: number;
  output_tokens: number;
  model: string;
  cost_usd: number | null;
  estimated: boolean;
}
export interface Task {
  id: string;
  workspace_id: string;
  channel_id: string;
  kind: string;
  status: TaskStatus;
  agent_id: string;
  agent_version: number;
  thread_id: string;
  fork_id: string | null;
  trigger_message_id: string | null;
  requested_by: string | null;
  retry_of: string | null;
  attempt: number;
  retry_at: string | null;
  wait_reason: 'rate_limited' | 'unavailable' | 'budget' | 'approval' | null;
  output: { message_id?: string | null; response_length?: number } | null;
  reply_message_id: string | null;
  token_usage: TaskUsage | null;
  error: { code: string; message: string } | null;
  created_at: string;
  queued_at: string;
  started_at: string | null;
  completed_at: string | null;
}

export interface TaskContext {
  task_id: string;
  attempt: number;
  model: string | null;
  asked_by: { id: string; name: string; role: string } | null;
  system: { text: string; tokens: number };
  turns: { role: 'user' | 'assistant'; content: string }[];
  messages: {
    message_id: string;
    author: { type: 'human' | 'agent' | 'system'; id: string | null; name: string };
    role: string;
    tokens: number;
    excerpt: string;
    deleted: boolean;
  }[];
  left_out: { reason: string; count: number; message_ids: string[] }[];
  budget: {
    context_window: number;
    reserve: number;
    used: number;
    segments: { name: string; tokens: number }[];
  };
  attempts: {
    attempt: number;
    started_at: string | null;
    ended_at: string | null;
    outcome: 'completed' | 'failed' | 'cancelled' | 'retry' | 'running';
    error: { code: string; message: string } | null;
    waited_ms: number;
  }[];
}

export interface Agent {
  id: string;
  name: string;
  display_name: string | null;
  description: string | null;
  avatar: { emoji?: string | null; color?: string | null } | null;
  capabilities: string[];
  role: string;
  model: string | null;
  mentionable: boolean;
  is_default: boolean;
  is_system: boolean;
  status: 'active' | 'inactive' | 'archived';
  version: number;
  created_at: string;
  updated_at: string;
}
export interface AgentProfile extends Agent {
  instructions: string;
  max_output_tokens: number | null;
  temperature: number | null;
  top_p: number | null;
}

export interface Presence {
  user_id: string;
  status: 'online' | 'offline';
}
export interface Snapshot {
  epoch: string;
  seq: number;
  me: Me;
  workspace: Workspace;
  members: Member[];
  channels: Channel[];
  agents: Agent[];
  active_tasks: Task[];
  presence: Presence[];
}
