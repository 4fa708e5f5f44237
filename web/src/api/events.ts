/** Frames of the socket (docs/protocol.md). Unknown types are ignored, so the server can add types. */
import type { components } from './schema';

type S = components['schemas'];

/** One member of the union for each type. */
type Each<E extends { type: string }> = E extends unknown
  ? { [T in E['type']]: Omit<E, 'type'> & { type: T } }[E['type']]
  : never;
export type ServerEvent = Each<S['ServerEvent']>;
export type MessageCreated = Extract<ServerEvent, { type: 'message.created' }>;
export type ReactionChange = S['ReactionEvent']['data'];
/** Events of results and their action items. */
export type OutcomeEvent = Each<S['ResolutionEvent'] | S['ActionItemEvent']>;

export type ServerFrame = ServerEvent | S['LiveFrame'] | S['OwnFrame'] | S['ControlFrame'];
type FrameOf<T extends ServerFrame['type']> = Extract<ServerFrame, { type: T }>;
export type TaskDelta = FrameOf<'task.delta'>;
export type DroppableFrame = FrameOf<
  'task.delta' | 'typing' | 'presence' | 'read.updated' | 'follow.updated'
>;
export type ReadyFrame = FrameOf<'ready'>;
export type ControlFrame = S['ControlFrame'] | FrameOf<'heartbeat'>;

/** Frames that the client sends. */
export type ClientFrame = S['ClientFrame'];

export const isDurable = (frame: ServerFrame): frame is ServerEvent => 'data' in frame && 'ts' in frame;
