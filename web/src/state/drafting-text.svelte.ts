import type { Resolution } from '../api/types';
import {
  changedFields,
  editOf,
  fieldsOf,
  newEntry,
  noFields,
  NOTHING,
  problems,
  type Fields,
  type FullEdit,
  type ListName,
} from '../lib/resolution';

/** Edited text of a draft, and its saved version. */
export abstract class DraftText {
  fields = $state<Fields>(noFields());
  /** The server's latest version; null if there is none. */
  resolution = $state.raw<Resolution | null>(null);

  readonly edit: FullEdit = $derived(editOf(this.fields));
  readonly problems: string[] = $derived(problems(this.edit));
  readonly empty: boolean = $derived(changedFields(NOTHING, this.edit).length === 0);

  /** Base for detecting edits. */
  protected base: FullEdit = NOTHING;
  /** Version to send as `If-Match`; 0 while the server has no draft. */
  protected revision = 0;

  get dirty(): boolean {
    return changedFields(this.base, this.edit).length > 0;
  }
  /** True if nothing has changed since the resolution was posted. */
  get unchanged(): boolean {
    return this.resolution?.status === 'published' && !this.dirty;
  }

  /** Called when the user has edited, added, moved, or removed something. */
  abstract touched(): void;

  add(list: ListName): void {
    this.fields[list].push(newEntry()); // empty: nothing to save yet
  }
  remove(list: ListName, at: number): void {
    this.fields[list].splice(at, 1);
    this.touched();
  }
  move(list: ListName, at: number, by: 1 | -1): boolean {
    const to = at + by;
    if (to < 0 || to >= this.fields[list].length) return false;
    const [entry] = this.fields[list].splice(at, 1);
    this.fields[list].splice(to, 0, entry!);
    this.touched();
    return true;
  }

  /**
   * The server's version becomes the base, and `shown` fills the fields; unchanged lines keep their position and
   * focus.
   */
  protected put(r: Resolution | null, revision: number, shown: FullEdit): void {
    const next = fieldsOf(shown, this.fields);
    for (const name of changedFields(this.edit, shown)) Object.assign(this.fields, { [name]: next[name] });
    this.base = r ? editOf(fieldsOf(r)) : NOTHING;
    this.revision = revision;
    this.resolution = r;
    // The server may treat the same text as a different item.
    if (r && !changedFields(this.base, this.edit).includes('action_items'))
      this.learnIds(this.filledActions(), r);
  }
  /** Keys of the sent action items, in order. */
  protected filledActions(): string[] {
    return this.fields.action_items.filter((e) => e.text.trim()).map((e) => e.key);
  }
  /** Adopts the IDs that the server gave to new action items, in the order in which they were sent. */
  protected learnIds(keys: readonly string[], r: Resolution): void {
    if (keys.length !== r.action_items.length) return;
    for (const [i, key] of keys.entries()) {
      const entry = this.fields.action_items.find((e) => e.key === key);
      if (entry) entry.id = r.action_items[i]!.id;
    }
  }
  /** Removes the IDs of items that were restored from an earlier draft, because they are new to this draft. */
  protected forgetIds(): void {
    const known = new Set(this.resolution?.action_items.map((a) => a.id));
    for (const entry of this.fields.action_items) if (entry.id && !known.has(entry.id)) entry.id = null;
  }
}
