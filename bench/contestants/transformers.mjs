/** transformers.js, which runs onnxruntime: its model without the tokenizer. */

/**
 * @param {object} options
 * @param {import('../suite.mjs').Place} options.place
 * @param {string} options.name shown in the table
 * @param {string} options.folder below `place.modelsRoot`
 * @param {string} options.file the graph's name in the folder `onnx`, without its extension
 * @returns {Promise<import('../harness.mjs').Contestant>}
 */
export async function transformersContestant({ place, name, folder, file }) {
  const { AutoModel, Tensor, env } = place.transformers;
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.localModelPath = place.modelsRoot;
  // 'fp32' adds no ending to the file's name.
  const model = await AutoModel.from_pretrained(folder, {
    dtype: 'fp32',
    device: place.transformersDevice,
    model_file_name: file,
  });
  return {
    name,
    async run(batch) {
      const shape = [batch.length, batch[0].length];
      const ids = BigInt64Array.from(batch.flat(), BigInt);
      const result = await model({
        input_ids: new Tensor('int64', ids, shape),
        attention_mask: new Tensor('int64', new BigInt64Array(ids.length).fill(1n), shape),
      });
      return result.last_hidden_state.data;
    },
    dispose: () => model.dispose(),
  };
}
