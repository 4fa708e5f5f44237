import type { Api } from '../api/api';
import type { Publisher, Resolution, Task } from '../api/types';
import type { FieldName } from '../lib/resolution';
import type { EditStorage, StoredEdit } from './edit-storage';

export type DraftingApi = Pick<Api, 'resolve' | 'resolution' | 'patchResolution' | 'publish' | 'stopTask'>;
export interface DraftingDeps {
  readonly api: DraftingApi;
  readonly myId: string;
  readonly editStorage: EditStorage<StoredEdit>;
  learnTasks(tasks: Task[]): void;
  /** Name of the drafting agent, for messages. */
  drafter(): string;
}

/** `opening`: loading the state. `closed`: the fork was resolved or abandoned in the meantime. */
export type Phase = 'opening' | 'drafting' | 'editing' | 'closed' | 'error';
/** `later`: no network. `long`: text over the limit waits on the device. `refused`: see `saveProblem`. */
export type Saving = 'saved' | 'unsaved' | 'saving' | 'later' | 'long' | 'refused';
export interface Clash {
  theirs: Resolution;
  fields: FieldName[];
  who: string | null;
}
export interface Closed {
  by: Publisher | null;
  card: string | null;
}
