// Every app runs this, regardless of how it was bundled: attention, the bundled model, an error, and, if workers are
// available, the model in a worker. Returns plain data, which the test compares with the result in Node.
export async function smoke(heed, { worker = true } = {}) {
  const runtime = await heed.load();
  const { output } = runtime.attention([[1, 0]], [[1, 0], [0, 1]], [[1, 2], [3, 4]]); // biome-ignore format: a matrix per argument
  const texts = ['A quiet street.', 'A silent road at night, with nobody on it.', 'Boiled eggs'];
  const fp32 = { dtype: 'fp32' }; // in q8, vectors depend on the build
  const model = await runtime.fromPretrained(undefined, fp32);
  const vectors = await model.embed(texts);
  model.dispose();
  const result = { build: runtime.info.build, output: output.toArray(), vectors: vectors.toArray() };
  try {
    await runtime.fromPretrained({});
  } catch (error) {
    result.error = error instanceof heed.HeedError && error.code;
  }
  if (worker) {
    const remote = await runtime.fromPretrained(undefined, { ...fp32, worker: true });
    result.workerVectors = (await remote.embed(texts)).toArray();
    await remote.dispose();
  }
  return result;
}

/** Runs smoke() and stores the result where the test reads it. */
export function report(heed, options) {
  globalThis.smokeResult = smoke(heed, options).then(
    (result) => ({ result }),
    (error) => ({ failure: `${error?.name}: ${error?.message}\n${error?.stack}` }),
  );
  return globalThis.smokeResult;
}
