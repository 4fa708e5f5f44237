import type { InboxChanges } from '../api/inbox';
import type { Thread } from '../api/types';
import type { StoredConversation, StoredList } from './database';

/** Message between the windows of a user. */
export type WindowMessage =
  | {
      /** Conversations and lists that are open in the sending window, which has applied all events up to `seq`. */
      type: 'opened';
      epoch: string;
      seq: number;
      conversations: StoredConversation[];
      lists: StoredList[];
      threads: Thread[];
    }
  /** Changes of the inbox since `since`, which the leading window read. */
  | { type: 'inbox'; since: number; changes: InboxChanges }
  /** The sending window keeps a change until there is a connection. */
  | { type: 'change' }
  /** The leading window asks whether another window is visible, before it shows a notification. */
  | { type: 'visible?' }
  | { type: 'visible' };

export interface Windows {
  post(message: WindowMessage): void;
  /** Returns a function that stops it. */
  listen(listener: (message: WindowMessage) => void): () => void;
}

/** The other windows of a user in this browser; none if the browser has no channels. */
export function windowsOf(scope: string): Windows {
  if (!('BroadcastChannel' in globalThis)) return { post: () => undefined, listen: () => () => undefined };
  const channel = new BroadcastChannel(`openvibe.${scope}`);
  return {
    post: (message) => channel.postMessage(message),
    listen: (listener) => {
      const onmessage = (e: MessageEvent<WindowMessage>) => listener(e.data);
      channel.addEventListener('message', onmessage);
      return () => channel.removeEventListener('message', onmessage);
    },
  };
}
