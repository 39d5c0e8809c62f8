// An edge server. The compiled module and the model's file are part of the program; nothing is compiled, read or fetched.
import * as heed from './heed/index.js';
import wasm from './heed.wasm';
import bytes from './model.js';

export async function answer() {
  const runtime = await heed.load({ wasm });
  const { output } = runtime.attention([[1, 0]], [[1, 0], [0, 1]], [[1, 2], [3, 4]]); // biome-ignore format: a matrix per argument
  const texts = ['A quiet street.', 'A silent road at night, with nobody on it.', 'Boiled eggs'];
  const model = await runtime.fromPretrained(bytes);
  const vectors = await model.embed(texts);
  const result = { build: runtime.info.build, output: output.toArray(), vectors: vectors.toArray() };
  try {
    await runtime.fromPretrained({});
  } catch (error) {
    result.error = error instanceof heed.HeedError && error.code;
  }
  model.dispose();
  return result;
}

export default {
  async fetch() {
    return Response.json(await answer().then((result) => ({ result }), (error) => ({ failure: `${error}\n${error.stack}` }))); // biome-ignore format: one call
  },
};
