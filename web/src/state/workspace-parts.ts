import type { Api } from '../api/api';
import type { DroppableFrame, ServerEvent } from '../api/events';
import type { ErrorCode } from '../api/problem';
import type { AgentsState, ChecklistStep, Task, Thread, Workspace } from '../api/types';
import type { DeviceCopy } from '../offline/device-copy';
import type { InboxFeed } from '../inbox/feed.svelte';
import type { Uploads } from '../files/uploads.svelte';
import type { Channels } from './channels.svelte';
import type { Connection } from './connection.svelte';
import type { Drafts } from './drafts.svelte';
import type { EphemeralMessages } from './ephemeral.svelte';
import type { ForkActions } from './fork-actions.svelte';
import type { ForkReads } from './fork-reads';
import type { Forks } from './forks.svelte';
import type { Outbox } from './outbox.svelte';
import type { Outcomes } from './outcomes.svelte';
import type { People } from './people.svelte';
import type { Reads } from './reads.svelte';
import type { Streams } from './streams.svelte';
import type { Tasks } from './tasks.svelte';
import type { Threads } from './threads.svelte';
import type { Typing } from './typing.svelte';
import type { Loading } from './window.svelte';

/**
 * Interface through which the parts of a workspace's state use each other, so that they do not depend on
 * `WorkspaceState`, which contains them.
 */
export interface WorkspaceParts {
  readonly id: string;
  readonly myId: string;
  readonly api: Api;
  readonly people: People;
  readonly channels: Channels;
  readonly threads: Threads;
  readonly forks: Forks;
  readonly tasks: Tasks;
  readonly streams: Streams;
  readonly connection: Connection;
  readonly typing: Typing;
  readonly ephemeral: EphemeralMessages;
  readonly drafts: Drafts;
  readonly outbox: Outbox;
  readonly reads: Reads;
  readonly forkActions: ForkActions;
  readonly forkReads: ForkReads;
  readonly outcomes: Outcomes;
  readonly inbox: InboxFeed;
  readonly copy: DeviceCopy | null;
  readonly uploads: Uploads | null;
  status: Loading;
  problem: string;
  /** Code of the server's refusal to open the workspace. */
  refusal: ErrorCode | null;
  workspace: Workspace;
  fileBytesMax: number;
  agentsState: AgentsState;
  checklist: ChecklistStep[] | null;
  apply(e: ServerEvent): void;
  onFrame(f: DroppableFrame): void;
  learnThread(thread: Thread, version?: number): void;
  forgetThread(thread: string, channel: string): void;
  learnTasks(tasks: Task[]): void;
  stop(): void;
}
