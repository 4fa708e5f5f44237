import { Conflict, errorMessage } from '../api/problem';
import type { ReplyStyles, ReplyStylesApi, StyleAddon, StylesForm } from '../api/reply-styles';
import { same } from '../lib/merge';
import type { EditStorage } from '../state/edit-storage';
import { SharedEdit, type KeptEdit } from '../state/shared-edit.svelte';

export interface EditedAddon extends StyleAddon {
  key: number;
}
export interface EditedPreset {
  key: number;
  id: string;
  name: string;
  description: string;
  addons: string[];
}
export interface EditedRule {
  key: number;
  /** Keywords, one per line. */
  keywords: string;
  min_length: number | null;
  max_length: number | null;
  preset: string;
  priority: number | null;
}
export interface EditedDefault {
  key: number;
  mode: string;
  preset: string;
}

/** The form for the reply styles of a workspace. `fields` is the document as it was last shown or typed. */
export class StylesEdit extends SharedEdit<StylesForm> {
  addons = $state<EditedAddon[]>([]);
  presets = $state<EditedPreset[]>([]);
  rules = $state<EditedRule[]>([]);
  defaults = $state<EditedDefault[]>([]);
  every = $state<number | null>(null);
  afterSummaries = $state(false);
  /** The document as someone else saved it in the meantime; the user decides how to proceed. */
  theirs = $state.raw<ReplyStyles | null>(null);
  /** True if the two documents are compared; until then `theirs` is only announced. */
  comparing = $state(false);
  busy = $state(false);
  problem = $state('');
  #api: ReplyStylesApi;
  /** Newest known document. */
  #newest: ReplyStyles;
  #key = 0;
  readonly dirty = $derived(!same(this.start, this.form));

  constructor(api: ReplyStylesApi, stored: ReplyStyles, storage: EditStorage<KeptEdit<StylesForm>>) {
    super(storage);
    this.#api = api;
    this.#newest = stored;
    this.#begin(stored);
    this.restore();
  }
  protected override received(): void {
    this.#show(this.fields);
    if (this.#newest.version <= this.version) this.#compared();
    else if (this.isMissingIn(formOf(this.#newest))) this.theirs = this.#newest;
    else {
      this.#begin(this.#newest);
      this.keep();
    }
  }
  #begin(stored: ReplyStyles): void {
    this.#newest = stored;
    this.version = stored.version;
    this.start = formOf(stored);
    this.#show(this.start);
    this.#compared();
    this.restored = false;
    this.problem = '';
  }
  #compared(): void {
    this.theirs = null;
    this.comparing = false;
  }
  #show(form: StylesForm): void {
    const { addons, presets, routing, rules } = form;
    this.fields = form;
    this.addons = addons.map((a) => ({ key: this.#next(), ...a }));
    this.presets = presets.map((p) => ({
      key: this.#next(),
      ...p,
      description: p.description ?? '',
      addons: [...p.addons],
    }));
    this.rules = rules.map((r) => ({
      key: this.#next(),
      keywords: (r.keywords ?? []).join('\n'),
      min_length: r.min_length ?? null,
      max_length: r.max_length ?? null,
      preset: r.preset,
      priority: r.priority ?? 0,
    }));
    this.defaults = Object.entries(routing.default_preset_by_mode).map(([mode, preset]) => ({
      key: this.#next(),
      mode,
      preset,
    }));
    this.every = routing.review_every_n_turns;
    this.afterSummaries = routing.force_review_on_compaction;
  }
  /** Called after a change to the lists, which are edited in place. */
  typed(): void {
    this.fields = this.form;
    this.keepSoon();
  }
  /** Discards the changes in favor of the newest document. */
  discard(): void {
    this.#begin(this.#newest);
    this.keep();
  }
  /** Applies the merged document on top of the newer one. */
  rebase(merged: StylesForm): void {
    const { theirs } = this;
    if (!theirs) return;
    this.#begin(theirs);
    this.#show(merged);
    this.keep();
  }
  /** The document as it would be sent. */
  get form(): StylesForm {
    return {
      addons: this.addons.map(({ id, text }) => ({ id, text })),
      presets: this.presets.map(({ id, name, description, addons }) => ({
        id,
        name,
        description,
        addons: [...addons],
      })),
      routing: {
        review_every_n_turns: this.every ?? 0,
        force_review_on_compaction: this.afterSummaries,
        default_preset_by_mode: Object.fromEntries(
          this.defaults.map(({ mode, preset }): [string, string] => [mode.trim(), preset]).sort(byMode),
        ),
      },
      rules: this.rules.map(({ keywords, min_length, max_length, preset, priority }) => ({
        keywords: lines(keywords),
        min_length,
        max_length,
        preset,
        priority: priority ?? 0,
      })),
    };
  }

  addAddon(): void {
    this.addons.push({ key: this.#next(), id: '', text: '' });
  }
  addPreset(): void {
    this.presets.push({ key: this.#next(), id: '', name: '', description: '', addons: [] });
  }
  addRule(): void {
    this.rules.push({
      key: this.#next(),
      keywords: '',
      min_length: null,
      max_length: null,
      preset: this.presets[0]?.id ?? '',
      priority: 0,
    });
  }
  addDefault(): void {
    this.defaults.push({ key: this.#next(), mode: '', preset: this.presets[0]?.id ?? '' });
  }
  /** Appends an add-on to a preset, or removes it. The prompt has the add-ons in this order. */
  toggle(preset: EditedPreset, addon: string): void {
    preset.addons = preset.addons.includes(addon)
      ? preset.addons.filter((id) => id !== addon)
      : [...preset.addons, addon];
  }

  /** Returns true if the document is stored; otherwise, `problem` or `theirs` contains the reason. */
  async save(): Promise<boolean> {
    if (this.busy) return false;
    if (this.theirs) {
      this.comparing = true;
      return false;
    }
    this.busy = true;
    this.problem = '';
    try {
      this.#begin(await this.#api.put(this.version, this.form));
      this.keep();
      return true;
    } catch (e) {
      if (e instanceof Conflict) {
        this.theirs = this.#newest = e.current as ReplyStyles;
        this.comparing = true;
      } else this.problem = errorMessage(e);
      return false;
    } finally {
      this.busy = false;
    }
  }
  #next(): number {
    return ++this.#key;
  }
}

const lines = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
const byMode = ([a]: [string, string], [b]: [string, string]) => (a < b ? -1 : 1);

/** The writable part of a document, with every field. */
export function formOf({ addons, presets, routing, rules }: ReplyStyles): StylesForm {
  const modes = Object.entries(routing.default_preset_by_mode).sort(byMode);
  return {
    addons: addons.map(({ id, text }) => ({ id, text })),
    presets: presets.map((p) => ({
      id: p.id,
      name: p.name,
      description: p.description ?? '',
      addons: p.addons,
    })),
    routing: {
      review_every_n_turns: routing.review_every_n_turns,
      force_review_on_compaction: routing.force_review_on_compaction,
      default_preset_by_mode: Object.fromEntries(modes),
    },
    rules: rules.map((r) => ({
      keywords: r.keywords ?? [],
      min_length: r.min_length ?? null,
      max_length: r.max_length ?? null,
      preset: r.preset,
      priority: r.priority ?? 0,
    })),
  };
}
