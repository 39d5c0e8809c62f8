/** onnxruntime, in WebAssembly (`onnxruntime-web`) and native (`onnxruntime-node`): the same graphs, one thread unless told otherwise. */

/**
 * @param {object} options
 * @param {any} options.ort the imported package
 * @param {string} options.name shown in the table
 * @param {Uint8Array} options.graph bytes of the .onnx file
 * @param {object} [options.session] session options
 * @returns {Promise<import('../harness.mjs').Contestant>}
 */
export async function onnxContestant({ ort, name, graph, session = {} }) {
  const encoder = await ort.InferenceSession.create(graph, { graphOptimizationLevel: 'all', ...session });
  return {
    name,
    async run(batch) {
      const [n, l] = [batch.length, batch[0].length];
      const int64 = (fill) => new ort.Tensor('int64', BigInt64Array.from({ length: n * l }, fill), [n, l]);
      const feeds = {
        input_ids: int64((_, i) => BigInt(batch[Math.floor(i / l)][i % l])),
        attention_mask: int64(() => 1n),
        token_type_ids: int64(() => 0n),
      };
      for (const name of Object.keys(feeds)) if (!encoder.inputNames.includes(name)) delete feeds[name];
      return (await encoder.run(feeds)).last_hidden_state.data;
    },
    dispose: () => encoder.release(),
  };
}
