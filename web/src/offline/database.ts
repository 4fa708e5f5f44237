import type { InboxItem } from '../api/inbox';
import type { Fork, Message, Snapshot, Thread } from '../api/types';
import type { KeyValueStore } from '../lib/storage';
import { databaseOf, eraseCopy, isCopied } from './kept';

/** The newest messages of a thread or fork. */
export interface StoredConversation {
  id: string;
  channel_id: string;
  messages: Message[];
  hasOlder: boolean;
}
/** The newest threads of a channel. */
export interface StoredList {
  channel_id: string;
  threads: string[];
}
/** State of a workspace after the event `snapshot.seq` of `snapshot.epoch`. */
export interface StoredState {
  snapshot: Snapshot;
  /** Event up to which the counts of channels include all events: this one or a later one. */
  exact: number;
  /** Time of the write, in ms since 1970. */
  at: number;
  /** Conversations, last opened last. */
  order: string[];
  lists: StoredList[];
  threads: Thread[];
  forks: Fork[];
  /** Items of the inbox as of `snapshot.inbox.seq`; null if they were not read yet. */
  items: InboxItem[] | null;
}
export interface StoredCopy {
  state: StoredState;
  conversations: StoredConversation[];
}
export interface CopyChange {
  state: StoredState;
  /** Conversations that changed since the last write. */
  changed: StoredConversation[];
  removed: string[];
  /** True if `changed` has all conversations: what is stored of others is erased. */
  isComplete: boolean;
}
/** Storage of a copy. */
export interface CopyDatabase {
  read(): Promise<StoredCopy | null>;
  /** Stores everything, or nothing. */
  write(change: CopyChange): Promise<void>;
}

const VERSION = 1;
const STATE = 'state';
const CONVERSATIONS = 'conversations';
const KEY = 'workspace';

const done = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error('the browser rejected a request'));
  });
const committed = (transaction: IDBTransaction): Promise<void> =>
  new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error ?? new Error('the browser rejected a write'));
  });

/**
 * Copy in IndexedDB. It is opened for each use, so that erasing it never waits for a window that is suspended.
 * `scope`: user and workspace, as `USER.WS`.
 */
export function indexedDatabase(scope: string): CopyDatabase {
  const open = (): Promise<IDBDatabase> => {
    const request = indexedDB.open(databaseOf(scope), VERSION);
    request.onupgradeneeded = () => {
      request.result.createObjectStore(STATE);
      request.result.createObjectStore(CONVERSATIONS, { keyPath: 'id' });
    };
    return done(request);
  };
  return {
    async read() {
      const database = await open();
      try {
        const transaction = database.transaction([STATE, CONVERSATIONS]);
        const [state, conversations] = await Promise.all([
          done(transaction.objectStore(STATE).get(KEY) as IDBRequest<StoredState | undefined>),
          done(transaction.objectStore(CONVERSATIONS).getAll() as IDBRequest<StoredConversation[]>),
        ]);
        return state ? { state, conversations } : null;
      } finally {
        database.close();
      }
    },
    async write({ state, changed, removed, isComplete }) {
      const database = await open();
      try {
        const transaction = database.transaction([STATE, CONVERSATIONS], 'readwrite');
        const ended = committed(transaction);
        const store = transaction.objectStore(CONVERSATIONS);
        try {
          if (isComplete) store.clear();
          for (const id of removed) store.delete(id);
          for (const conversation of changed) store.put(conversation);
          transaction.objectStore(STATE).put(state, KEY);
        } catch (e) {
          transaction.abort(); // otherwise a part would be stored
          ended.catch(() => undefined);
          throw e;
        }
        await ended;
      } finally {
        database.close();
      }
    },
  };
}

/** Erases databases of copies that were erased just before the browser was closed. */
export async function eraseLeftovers(store: KeyValueStore): Promise<void> {
  if (!('databases' in indexedDB)) return;
  const prefix = databaseOf('');
  for (const { name } of await indexedDB.databases())
    if (name?.startsWith(prefix) && !isCopied(store, name.slice(prefix.length)))
      eraseCopy(store, name.slice(prefix.length));
}
