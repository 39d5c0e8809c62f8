import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Core } from '../../web/src/base/wasm/core.js';

/** A fake FinalizationRegistry, for which the test simulates garbage collection. */
class FakeRegistry {
  static last: FakeRegistry;
  readonly held = new Map<object, { held: unknown; token: object | undefined }>();

  constructor(readonly cleanup: (held: unknown) => void) {
    FakeRegistry.last = this;
  }

  register(target: object, held: unknown, token?: object): void {
    this.held.set(target, { held, token });
  }

  unregister(token: object): void {
    for (const [target, entry] of this.held) if (entry.token === token) this.held.delete(target);
  }

  collect(target: object): void {
    const entry = this.held.get(target);
    this.held.delete(target);
    if (entry) this.cleanup(entry.held);
  }
}

describe('Owned', () => {
  beforeEach(() => {
    vi.resetModules();
    vi.stubGlobal('FinalizationRegistry', FakeRegistry);
  });
  afterEach(() => vi.unstubAllGlobals());

  async function make() {
    const { Owned } = await import('../../web/src/base/owned.js');
    class Thing extends Owned<{ delete(): void }> {}
    const raw = { delete: vi.fn() };
    const runtime = { core: {} as Core, calls: {} as Core, owned: new Set<{ delete(): void }>(), hub: {} };
    return { thing: new Thing('Thing', runtime, raw), raw, runtime };
  }

  it('frees once, by dispose', async () => {
    const { thing, raw } = await make();
    expect(thing.disposed).toBe(false);
    thing.dispose();
    thing.dispose();
    expect(thing.disposed).toBe(true);
    expect(raw.delete).toHaveBeenCalledTimes(1);
    FakeRegistry.last.collect(thing);
    expect(raw.delete).toHaveBeenCalledTimes(1);
  });

  it('frees when it is collected', async () => {
    const { thing, raw } = await make();
    FakeRegistry.last.collect(thing);
    expect(raw.delete).toHaveBeenCalledTimes(1);
  });

  it('frees at the end of `using`', async () => {
    const { thing, raw } = await make();
    {
      using scoped = thing;
      expect(scoped.disposed).toBe(false);
    }
    expect(raw.delete).toHaveBeenCalledTimes(1);
  });

  it('cannot be used afterwards', async () => {
    const { thing } = await make();
    thing.dispose();
    expect(() => thing.raw).toThrow(
      expect.objectContaining({
        code: 'DISPOSED',
        message: expect.stringContaining('Thing: used after dispose()'),
      }),
    );
  });
});
