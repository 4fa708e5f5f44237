/** Names for the API's objects, which are generated from the OpenAPI document (schema.ts, `make api`). */
import type { components } from './schema';

type S = components['schemas'];

export type Role = S['Role'];
export type ChannelKind = S['ChannelKind'];
export type ChannelAgent = S['ChannelAgent'];
export type ChannelAgentMode = S['ChannelAgentMode'];
export type TaskStatus = S['TaskStatus'];
export type AgentsState = S['AgentsState'];
export type ChecklistStep = S['ChecklistStep'];

export interface List<T> {
  data: T[];
  has_more: boolean;
  next_cursor?: string | null;
}

export type User = S['AccountUser'];
export type WorkspaceRef = S['MyWorkspace'];
export type Account = S['Account'];
export type Setup = S['Setup'];
export type SignInSession = S['MySession'];

/** The role of the current user; events omit it. */
export type Workspace = S['Workspace'] & { role?: Role };
export type Member = S['Member'];
export type Me = S['Me'];
export type Invite = S['Invite'];
export type NewInvite = S['NewInviteAnswer'];
export type InvitePreview = S['InvitePreview'];

/** Fields of a channel that depend on the current user; events omit them. */
export type ChannelOwn = Omit<S['MyChannel'], keyof S['Channel']>;
export type MyChannel = S['MyChannel'];
export type Channel = S['Channel'] & Partial<ChannelOwn>;

export type Participant = S['Participant'];
/** Fields of a thread that depend on the current user; events omit them. */
export type ThreadOwn = Omit<S['MyThread'], keyof S['Thread'] | 'root_message' | 'last_message'> &
  Record<'root_message' | 'last_message', Message | null>;
export type Follow = S['Follow'];
export type FollowLevel = S['FollowLevel'];
export type FollowCause = S['FollowCause'];
export type Thread = S['Thread'] & Partial<ThreadOwn>;
/** `first_unread_id`: where to start reading; null if nothing is unread. */
export type OpenedThread = S['OpenedThread'];
export type ChatVariant = S['ChatVariant'];
/** Omitted fields are unchanged; null clears a nullable field. */
export type ThreadPatch = S['ThreadChange'];

export type Mention = S['Mention'];
export type Reaction = S['Reaction'];
/** A file, before and after it is uploaded and attached to a message. */
export type Attachment = Omit<S['UploadedFile'], 'object' | 'workspace_id' | 'created_by' | 'created_at'>;
export type Author = S['MessageAuthor'];
/** Messages that are not sent yet have the attachments of the composer. */
export type Message = Omit<S['Message'], 'attachments'> & { attachments: Attachment[] };

export type ForkStatus = S['ForkStatus'];
export type ForkContext = S['ForkContext'];
/** Shown to people as a "deep dive". */
export type Fork = S['Fork'] & Partial<ForkOwn>;
/** Fields of a fork that depend on the current user; events omit them. */
export type ForkOwn = Omit<S['MyFork'], keyof S['Fork']>;
/** Omitted fields are unchanged; null clears a nullable field. */
export type ForkPatch = S['ForkChange'];
export type Collaboration = S['Collaboration'];
export type NewFork = S['ForkForm'] & { client_id: string };

/** One line of a resolution, with its source messages in the fork. */
export type ResolutionPoint = S['SourcedText'];
export type ResolutionAction = S['ResolutionItem'];
export type Publisher = S['Publisher'];
/** Shown to people as a "result". */
export type Resolution = S['Resolution'];
/** Each field replaces the whole value. An action item without an ID is new. */
export type ResolutionEdit = Partial<
  Pick<Resolution, 'headline' | 'conclusion' | 'key_points' | 'open_questions' | 'deferred_items'>
> & { action_items?: (Partial<ResolutionAction> & Pick<ResolutionAction, 'text'>)[] };
/** An action item with its resolution. */
export type ActionItem = S['ActionItem'];
export type ActionItemPatch = S['ItemChange'];

export type Task = S['Task'];
export type FailCode = S['FailCode'];
export type TaskContext = S['TaskContext'];
export type LeftOutReason = S['LeftOutReason'];

export type { Agent, AgentProfile, AgentStatus } from './agent-types';

export type Presence = S['Presence'];
export type Snapshot = S['Snapshot'];
