import type { CodeApi, CodeSession } from '../api/code';
import { errorMessage } from '../api/problem';
import { inSlices, parsePatch, PatchParser, type PatchFile } from './patch';
import { rowsOf, type Layout, type Row } from './rows';

/** Which changes are shown: all, or those of files that have changed since the last push. */
export type Scope = 'all' | 'pushed';
const STEP_LINES = 500;
/** Interval at which rows are added to the page while a patch is read. */
const SHOW_MS = 150;

const signature = ({ path, old_path, status, notes, index }: PatchFile): string =>
  JSON.stringify([path, old_path, status, notes, index]);
/** A file that was changed by the push, and is now as it was before. */
const reverted = (file: PatchFile): PatchFile => ({
  ...file,
  old_path: null,
  status: 'modified',
  additions: 0,
  deletions: 0,
  notes: ['Has no changes any more'],
  hunks: [],
});

/** Changes of a session, as they are read and arranged without blocking the page. */
export class PatchView {
  files = $state.raw<PatchFile[]>([]);
  rows = $state.raw<Row[]>([]);
  status = $state<'loading' | 'ready' | 'failed'>('loading');
  problem = $state('');
  /** Tree that is shown. */
  tree = $state<string | null>(null);
  #api: Pick<CodeApi, 'patch'>;
  #run = 0;
  #pause: (() => Promise<void>) | undefined;

  constructor(api: Pick<CodeApi, 'patch'>, pause?: () => Promise<void>) {
    this.#api = api;
    this.#pause = pause;
  }
  async load(session: CodeSession, scope: Scope, layout: Layout): Promise<void> {
    const run = ++this.#run;
    this.status = 'loading';
    this.tree = session.tree;
    try {
      const earlier = scope === 'pushed' ? session.pushed?.tree : undefined;
      const [text, before] = await Promise.all([
        session.tree === null ? '' : this.#api.patch(session.id),
        earlier ? this.#api.patch(session.id, earlier) : null,
      ]);
      if (run !== this.#run) return;
      const pushed = before === null ? null : await parsePatch(before, undefined, this.#pause);
      await this.#read(run, text, pushed, layout);
    } catch (e) {
      if (run !== this.#run) return;
      this.status = 'failed';
      this.problem = errorMessage(e);
    }
  }
  /** Shows the same changes in another layout. */
  async arrange(layout: Layout): Promise<void> {
    const { files } = this;
    await this.#build(++this.#run, files, layout, () => false);
  }
  async #read(run: number, text: string, pushed: PatchFile[] | null, layout: Layout): Promise<void> {
    const parser = new PatchParser(text);
    const known = new Set(pushed?.map(signature));
    const files: PatchFile[] = [];
    let taken = 0;
    const take = (until: number) => {
      for (; taken < until; taken++) {
        const file = parser.files[taken]!;
        if (!known.has(signature(file))) files.push(file);
      }
    };
    await this.#build(run, files, layout, () => {
      const more = parser.step(STEP_LINES);
      // The last file can still grow.
      take(parser.files.length - (more ? 1 : 0));
      if (!more && pushed) {
        const paths = new Set(parser.files.flatMap((file) => [file.path, file.old_path]));
        files.push(...pushed.filter((file) => !paths.has(file.path)).map(reverted));
      }
      return more;
    });
  }
  /** Makes the rows of files, to which `read` adds others until it returns false. */
  async #build(run: number, files: PatchFile[], layout: Layout, read: () => boolean): Promise<void> {
    const rows: Row[] = [];
    let built = 0;
    let isRead = false;
    let shownAt = -Infinity;
    const show = () => {
      this.files = files.slice();
      this.rows = rows.slice();
      shownAt = performance.now();
    };
    await inSlices(
      () => {
        if (run !== this.#run) return false;
        isRead ||= !read();
        const file = files[built];
        if (!file) return !isRead;
        for (const row of rowsOf(file, built, layout)) rows.push(row);
        built++;
        return !isRead || built < files.length;
      },
      () => {
        if (run === this.#run && rows.length && performance.now() - shownAt > SHOW_MS) show();
      },
      this.#pause,
    );
    if (run !== this.#run) return;
    show();
    this.status = 'ready';
  }
}
