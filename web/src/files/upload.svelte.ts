import type { Attachment } from '../api/types';
import { newId } from '../lib/secure';

/** A file to be attached to a message. */
export interface Held {
  /** The attachment as shown; without an ID until it is uploaded. */
  readonly shown: Attachment;
}
/** One file, uploading or uploaded. */
export class Upload implements Held {
  readonly key = newId();
  readonly name: string;
  readonly type: string;
  readonly size: number;
  /** Null if the file was uploaded before the page was opened. */
  readonly blob: File | null;
  /** `waiting`: for its turn, or for the network. */
  status = $state<'waiting' | 'sending' | 'done' | 'failed'>('waiting');
  part = $state(0);
  problem = $state('');
  file = $state.raw<Attachment | null>(null);
  off: AbortController | null = null;

  constructor(of: File | Attachment) {
    const done = 'id' in of ? of : null;
    this.blob = 'id' in of ? null : of;
    this.name = of.name;
    this.type = 'id' in of ? of.content_type : of.type;
    this.size = 'id' in of ? of.size_bytes : of.size;
    this.file = done;
    if (done) this.status = 'done';
  }
  get shown(): Attachment {
    return (
      this.file ?? {
        id: '',
        name: this.name,
        content_type: this.type,
        size_bytes: this.size,
        width: null,
        height: null,
        message_id: null,
        alt: null,
        url: '',
      }
    );
  }
}

/** Files as they are stored with a draft. */
export const isFiles = (x: unknown): x is Attachment[] =>
  Array.isArray(x) &&
  x.every((f: unknown) => typeof f === 'object' && f !== null && 'id' in f && 'name' in f);
