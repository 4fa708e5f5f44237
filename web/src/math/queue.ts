export interface Formula {
  source: string;
  display: boolean;
}
type FormulaWorker = Pick<Worker, 'postMessage' | 'terminate' | 'onmessage' | 'onerror'>;

/** Time for one formula; the worker is ended then. */
const LIMIT_MS = 200;
/** Time in which the worker must start. */
const START_MS = 20_000;
/** Slow formulas after which no more are drawn, because each costs a worker. */
const SLOW_MAX = 5;
const CACHE_MAX = 500;

const keyOf = ({ source, display }: Formula) => `${display ? 'd' : 'i'}${source}`;

/** Renders one formula after another in a worker, and caches the results. */
export class FormulaQueue {
  #make: () => FormulaWorker;
  #worker: FormulaWorker | null = null;
  #tail: Promise<unknown> = Promise.resolve();
  #slow = 0;
  /** MathML by formula; null if it cannot be drawn. */
  #cache = new Map<string, string | null>();

  constructor(make: () => FormulaWorker) {
    this.#make = make;
  }
  /** The result of an earlier call; undefined if there is none. */
  known(formula: Formula): string | null | undefined {
    return this.#cache.get(keyOf(formula));
  }
  /** MathML that still has to be sanitized; null if the formula cannot be drawn. */
  render(formula: Formula): Promise<string | null> {
    const done = this.#tail.then(async () => {
      const known = this.known(formula);
      if (known !== undefined) return known;
      const worker = await this.#start();
      if (!worker) return null;
      const html = await this.#run(worker, formula);
      if (this.#cache.size >= CACHE_MAX) this.#cache.delete(this.#cache.keys().next().value!);
      this.#cache.set(keyOf(formula), html);
      return html;
    });
    this.#tail = done.catch(() => undefined);
    return done;
  }
  async #start(): Promise<FormulaWorker | null> {
    if (this.#slow >= SLOW_MAX) return null;
    if (this.#worker) return this.#worker;
    const worker = this.#make();
    const started = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), START_MS);
      const end = (ok: boolean) => {
        clearTimeout(timer);
        resolve(ok);
      };
      worker.onmessage = () => end(true);
      worker.onerror = () => end(false);
    });
    if (started) this.#worker = worker;
    else worker.terminate();
    return this.#worker;
  }
  #run(worker: FormulaWorker, formula: Formula): Promise<string | null> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        worker.terminate();
        this.#worker = null;
        this.#slow++;
        resolve(null);
      }, LIMIT_MS);
      worker.onmessage = ({ data }: MessageEvent<unknown>) => {
        clearTimeout(timer);
        resolve(typeof data === 'string' ? data : null);
      };
      const { source, display } = formula; // others of its properties cannot be sent
      worker.postMessage({ source, display });
    });
  }
}
