/** LRU cache of conversations, created on first use. The least recently used one is dropped. */
export class LruCache<T> {
  #map = new Map<string, T>();
  #max: number;
  #make: (id: string) => T;

  constructor(max: number, make: (id: string) => T) {
    this.#max = max;
    this.#make = make;
  }
  get(id: string): T {
    const place = this.#map.get(id) ?? this.#make(id);
    this.#map.delete(id);
    this.#map.set(id, place); // the newest goes last
    if (this.#map.size > this.#max) this.#map.delete(this.#map.keys().next().value!);
    return place;
  }
  /** Returns an existing entry; does not create one, and does not count as a use. */
  known(id: string): T | undefined {
    return this.#map.get(id);
  }
  drop(which: (id: string) => boolean): void {
    for (const id of this.#map.keys()) if (which(id)) this.#map.delete(id);
  }
  keys(): IterableIterator<string> {
    return this.#map.keys();
  }
  all(): IterableIterator<T> {
    return this.#map.values();
  }
}
