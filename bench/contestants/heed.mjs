/** heed, through its public API. */

/**
 * @param {object} options
 * @param {any} options.heed the imported package
 * @param {string} [options.build] 'relaxed-simd' | 'simd128'; by default the one that heed chooses
 * @param {string} options.dtype 'fp32' | 'q8'
 * @param {Record<string, Uint8Array>} options.files the model folder's files
 * @param {number} [options.threads]
 * @param {'wasm' | 'webgpu'} [options.device]
 * @returns {Promise<import('../harness.mjs').Contestant>}
 */
export async function heedContestant({ heed, build, dtype, files, threads, device }) {
  const runtime = await heed.load({ ...(build && { build }), ...(threads && { threads }) });
  const model = await runtime.fromPretrained(files, { dtype, ...(device && { device }) });
  return {
    name: `heed ${dtype} (${device ?? build})`,
    run: async (batch) => (await model.encode({ inputIds: batch })).lastHiddenState.data,
    dispose: () => runtime.dispose(),
  };
}
