/**
 * The relevant part of the Cache API in memory: entries appear once they are complete, and returned responses outlive
 * their entries.
 */
class MemoryCache {
  readonly entries = new Map<string, { body: Uint8Array<ArrayBuffer>; headers: Headers }>();

  constructor(readonly owner: MemoryCaches) {}

  async match(request: string | { url: string }): Promise<Response | undefined> {
    const found = this.entries.get(urlOf(request));
    if (!found) return undefined;
    const { owner } = this;
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          owner.reads++;
          if (found.body.length > 0) controller.enqueue(found.body.slice());
          controller.close();
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(body, { headers: found.headers });
  }

  async put(request: string | { url: string }, response: Response): Promise<void> {
    const body = new Uint8Array(await response.arrayBuffer());
    this.entries.set(urlOf(request), { body, headers: response.headers });
  }

  async delete(request: string | { url: string }): Promise<boolean> {
    return this.entries.delete(urlOf(request));
  }

  async keys(): Promise<{ url: string }[]> {
    return [...this.entries.keys()].map((url) => ({ url }));
  }
}

const urlOf = (request: string | { url: string }) => {
  const url = new URL(typeof request === 'string' ? request : request.url);
  url.hash = '';
  return url.href;
};

export class MemoryCaches {
  readonly #caches = new Map<string, MemoryCache>();
  /** Number of times that a body has been read. */
  reads = 0;

  async open(name: string): Promise<MemoryCache> {
    const cache = this.#caches.get(name) ?? new MemoryCache(this);
    this.#caches.set(name, cache);
    return cache;
  }

  /** A deleted cache that is in use continues to work, separately from caches that are opened later. */
  async delete(name: string): Promise<boolean> {
    return this.#caches.delete(name);
  }

  keysOf(name: string): string[] {
    return [...(this.#caches.get(name)?.entries.keys() ?? [])];
  }

  remove(name: string, key: string): void {
    this.#caches.get(name)!.entries.delete(key);
  }
}
