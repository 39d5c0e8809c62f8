import { type Heed, load } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { relaxedSimd } from 'wasm-feature-detect';
import { type Case, cases } from './cases.js';
import { worstError } from './reading.js';

// Both builds if the engine supports them, because relaxed SIMD rounds differently.
const relaxed = await relaxedSimd();

describe.each(relaxed ? (['simd128', 'relaxed-simd'] as const) : (['simd128'] as const))(
  'PyTorch, %s build',
  (build) => {
    let heed: Heed;
    const errors: { name: string; error: number }[] = [];

    beforeAll(async () => {
      heed = await load({ build });
      expect(heed.info.build).toBe(build);
    });

    it.each(cases)('$name', (fixture) => {
      const error = worstError(run(heed, fixture), fixture.expected);
      errors.push({ name: fixture.name, error });
      expect(error, 'largest error, in units of 1e-5 + 1e-4 |expected|').toBeLessThanOrEqual(1);
    });

    afterAll(() => {
      errors.sort((a, b) => b.error - a.error);
      const worst = errors.slice(0, 3).map(({ name, error }) => `${error.toFixed(3)} (${name})`);
      console.log(`${build}: ${errors.length} cases, largest errors in units of the tolerance: ${worst.join(', ')}`);
    });
  },
);

/** Runs a case through the public API. */
function run(heed: Heed, { call, layer, options, state, arguments: given }: Case): unknown {
  if (call !== undefined) {
    const path = call.split('.');
    const method = path.pop()!;
    const owner = path.reduce<unknown>((object, name) => (object as Record<string, unknown>)[name], heed);
    return (owner as Record<string, (...a: unknown[]) => unknown>)[method]!(...given);
  }
  const made = new (heed as unknown as Record<string, new (o: unknown) => AnyLayer>)[layer!]!(options);
  try {
    made.loadStateDict(state!);
    return made.forward(...given);
  } finally {
    made.dispose();
  }
}

interface AnyLayer {
  loadStateDict(state: object): unknown;
  forward(...given: unknown[]): unknown;
  dispose(): void;
}
