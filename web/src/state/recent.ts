/** The places that were used last, made when first asked for. The one unused for longest is let go. */
export class Recent<T> {
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
  /** Without making one, and without it counting as a use. */
  known(id: string): T | undefined {
    return this.#map.get(id);
  }
  keys(): IterableIterator<string> {
    return this.#map.keys();
  }
  all(): IterableIterator<T> {
    return this.#map.values();
  }
}
