/** Frames of the socket (docs/protocol.md). Unknown types are ignored, so the server can add types. */
import type { components } from './schema';

type S = components['schemas'];

/** Splits a union into one member for each event type. */
type Each<E extends { type: string }> = E extends unknown
  ? { [T in E['type']]: Omit<E, 'type'> & { type: T } }[E['type']]
  : never;
export type ServerEvent = Each<S['ServerEvent']>;
export type MessageCreated = Extract<ServerEvent, { type: 'message.created' }>;
export type ReactionChange = S['ReactionEvent']['data'];
/** Events of resolutions and their action items. */
export type OutcomeEvent = Each<S['ResolutionEvent'] | S['ActionItemEvent']>;

type TypedFrame = ServerEvent | S['LiveFrame'] | S['OwnFrame'] | S['ControlFrame'];
export type ServerFrame = TypedFrame | S['CompactDelta'];
type FrameOf<T extends TypedFrame['type']> = Extract<TypedFrame, { type: T }>;
/** Stream number, offset, and text. */
export type CompactDelta = S['CompactDelta'];
/** A streaming reply and its number in compact deltas. */
export type StreamStart = S['StreamStart'];
export type TaskDelta = FrameOf<'task.delta'>;
export type DroppableFrame = Exclude<S['LiveFrame'] | S['OwnFrame'], { type: 'heartbeat' }>;
/** A message that only this person sees. */
export type EphemeralMessage = FrameOf<'ephemeral'>;
export type ReadyFrame = FrameOf<'ready'>;
export type AckFrame = FrameOf<'ack'>;
export type ControlFrame = S['ControlFrame'] | FrameOf<'heartbeat'>;

/** Frames that the client sends. */
export type ClientFrame = S['ClientFrame'];

export const isDurable = (frame: TypedFrame): frame is ServerEvent => 'data' in frame && 'ts' in frame;
