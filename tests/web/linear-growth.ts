/** Compares the CPU time of two sizes of input, on a machine that may be busy. */

/** The sizes that are compared. */
const MANY = 200_000;
const FEW = MANY / 4;
/** How many times as long MANY may take. Linear work takes 4 times as long, n log n 4.5 times, and quadratic work 16 times. */
const FACTOR = 8;
/** Milliseconds below which the ratio says nothing, because caches, compilation and garbage collection decide. */
const UNMEASURABLE = 400;

/** Measures both sizes up to three times, until the smallest times grow like the sizes. `measure`: CPU time in milliseconds. */
export async function expectLinear(measure: (n: number) => Promise<number>): Promise<void> {
  const times = { few: Infinity, many: Infinity };
  for (let run = 0; run < 3; run++) {
    times.few = Math.min(times.few, await measure(FEW));
    times.many = Math.min(times.many, await measure(MANY));
    if (times.many <= Math.max(UNMEASURABLE, FACTOR * times.few)) return;
  }
  throw new Error(`${FEW} took ${times.few} ms, and ${MANY} took ${times.many} ms`);
}
