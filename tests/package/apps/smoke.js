// What every app runs with the package, in whatever way it was bundled: a formula, the shipped model, an error, and, where the
// place has workers, the same through one. Plain data comes back, for the test to compare with Node's.
export async function smoke(heed, { worker = true } = {}) {
  const runtime = await heed.load();
  const { output } = runtime.attention([[1, 0]], [[1, 0], [0, 1]], [[1, 2], [3, 4]]); // biome-ignore format: a matrix per argument
  const texts = ['A quiet street.', 'A silent road at night, with nobody on it.', 'Boiled eggs'];
  const model = await runtime.fromPretrained();
  const vectors = await model.embed(texts);
  model.dispose();
  const result = { build: runtime.info.build, output: output.toArray(), vectors: vectors.toArray() };
  try {
    await runtime.fromPretrained({});
  } catch (error) {
    result.error = error instanceof heed.HeedError && error.code;
  }
  if (worker) {
    const remote = await runtime.fromPretrained(undefined, { worker: true });
    result.workerVectors = (await remote.embed(texts)).toArray();
    await remote.dispose();
  }
  return result;
}

/** Runs it and leaves the result where a test finds it. */
export function report(heed, options) {
  globalThis.smokeResult = smoke(heed, options).then(
    (result) => ({ result }),
    (error) => ({ failure: `${error?.name}: ${error?.message}\n${error?.stack}` }),
  );
  return globalThis.smokeResult;
}
