/** Runs and times a function that returns a loss. */
export async function timed(run) {
  const before = performance.now();
  const loss = await run();
  return { ms: performance.now() - before, loss };
}
