/** Socket frames (docs/protocol.md) as one union. Unknown types are ignored, so the server can add types. */
import type {
  ActionItem,
  Agent,
  Channel,
  Follow,
  Fork,
  Member,
  Message,
  Presence,
  Reaction,
  Resolution,
  Task,
  Thread,
  Workspace,
} from './types';

interface Durable<T extends string, D> {
  type: T;
  seq: number;
  ts: string;
  channel_id?: string | null;
  thread_id?: string | null;
  fork_id?: string | null;
  data: D;
}
export interface ReactionChange {
  message_id: string;
  emoji: string;
  user_id: string;
  reactions: Reaction[];
}

export type MessageCreated = Durable<'message.created', { message: Message }>;
/** Events of results and their action items. */
export type OutcomeEvent =
  | Durable<'resolution.drafted' | 'resolution.updated' | 'resolution.published', { resolution: Resolution }>
  | Durable<'action_item.updated', { action_item: ActionItem }>;

export type ServerEvent =
  | Durable<'workspace.updated', { workspace: Workspace }>
  | Durable<'member.joined' | 'member.updated' | 'member.removed', { member: Member }>
  | Durable<'channel.created' | 'channel.updated' | 'channel.archived', { channel: Channel }>
  | Durable<'channel.member_added' | 'channel.member_removed', { channel: Channel; user_id: string }>
  | Durable<'thread.created' | 'thread.updated', { thread: Thread }>
  | MessageCreated
  | Durable<'message.updated' | 'message.deleted', { message: Message }>
  | Durable<'reaction.added' | 'reaction.removed', ReactionChange>
  | Durable<'fork.created' | 'fork.updated', { fork: Fork }>
  | OutcomeEvent
  | Durable<'task.status_changed', { task: Task }>
  | Durable<'agent.created' | 'agent.updated' | 'agent.archived', { agent: Agent }>;

export interface TaskDelta {
  type: 'task.delta';
  task_id: string;
  message_id: string;
  attempt: number;
  offset: number;
  text: string;
}
export type DroppableFrame =
  | TaskDelta
  | { type: 'typing'; thread_id?: string | null; fork_id?: string | null; user_id: string }
  | ({ type: 'presence' } & Presence)
  | { type: 'read.updated'; thread_id: string; seq: number }
  /** A whole channel was marked as read. */
  | { type: 'read.updated'; channel_id: string; thread_id: null; seq: number }
  | { type: 'follow.updated'; thread_id: string; follow: Follow };

export interface ReadyFrame {
  type: 'ready';
  protocol: number;
  session_id: string;
  epoch: string;
  seq: number;
  heartbeat_ms: number;
  resumed: boolean;
  resync?: boolean;
}
export type ControlFrame =
  | ReadyFrame
  | { type: 'live'; seq: number }
  | { type: 'heartbeat'; seq: number }
  | { type: 'ack'; id: string; data?: unknown }
  | { type: 'error'; id: string | null; error: { type: string; code: string; message: string } };

export type ServerFrame = ServerEvent | DroppableFrame | ControlFrame;

export const isDurable = (frame: ServerFrame): frame is ServerEvent =>
  'seq' in frame &&
  !['ready', 'live', 'heartbeat', 'read.updated'].includes(frame.type) &&
  'data' in frame &&
  'ts' in frame;
