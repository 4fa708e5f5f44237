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

/** The text of a draft on screen, beside what the server has of it. */
export abstract class DraftText {
  fields = $state<Fields>(noFields());
  /** As the server last gave it; null: it has none yet. */
  resolution = $state.raw<Resolution | null>(null);

  readonly edit: FullEdit = $derived(editOf(this.fields));
  readonly problems: string[] = $derived(problems(this.edit));
  readonly empty: boolean = $derived(changedFields(NOTHING, this.edit).length === 0);

  /** What was typed is told from this. */
  protected base: FullEdit = NOTHING;
  /** For `If-Match`; 0 while the server has nothing. */
  protected revision = 0;

  get dirty(): boolean {
    return changedFields(this.base, this.edit).length > 0;
  }
  /** Nothing was changed since the result that is posted already. */
  get unchanged(): boolean {
    return this.resolution?.status === 'published' && !this.dirty;
  }

  /** Something was typed, added, moved or taken away. */
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

  /** What the server has becomes what is told from, and `shown` what stands in the fields; lines that are the same keep their place and focus. */
  protected put(r: Resolution | null, revision: number, shown: FullEdit): void {
    const next = fieldsOf(shown, this.fields);
    for (const name of changedFields(this.edit, shown)) Object.assign(this.fields, { [name]: next[name] });
    this.base = r ? editOf(fieldsOf(r)) : NOTHING;
    this.revision = revision;
    this.resolution = r;
    // The same words may be other items to the server.
    if (r && !changedFields(this.base, this.edit).includes('action_items'))
      this.learnIds(this.filledActions(), r);
  }
  /** The keys of the action items that are sent, in order. */
  protected filledActions(): string[] {
    return this.fields.action_items.filter((e) => e.text.trim()).map((e) => e.key);
  }
  /** New action items get their ids from the server, in the order in which they were sent. */
  protected learnIds(keys: readonly string[], r: Resolution): void {
    if (keys.length !== r.action_items.length) return;
    for (const [i, key] of keys.entries()) {
      const entry = this.fields.action_items.find((e) => e.key === key);
      if (entry) entry.id = r.action_items[i]!.id;
    }
  }
  /** An item that came back from an earlier draft is a new one to this draft. */
  protected forgetIds(): void {
    const known = new Set(this.resolution?.action_items.map((a) => a.id));
    for (const entry of this.fields.action_items) if (entry.id && !known.has(entry.id)) entry.id = null;
  }
}
