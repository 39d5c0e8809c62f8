/** Every file of tests/fixtures/onnx gives PyTorch's results on the weights that it stands for. */
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { expectClose } from './fixtures.js';
import { onnxCases, onnxExpected, onnxFolder, onnxFolders, onnxResults } from './onnx-fixtures.js';

describe.each(onnxFolders)('%s', (folder) => {
  const { 'model.safetensors': safetensors, ...files } = onnxFolder(folder);

  test.each(onnxCases.filter((each) => each.folder === folder))('$file', async ({ file, expected, exact }) => {
    const heed = await load();
    using model = await heed.fromPretrained(files, { weights: `onnx/${file}` });
    const results = await onnxResults(model, folder);
    for (const [key, value] of onnxExpected(folder, expected)) expectClose(results.get(key)!, value, key);
    expect(model.config.unusedTensors).toEqual([]);
    if (!exact) return;
    // The same bits as from the state dict.
    using like = await heed.fromPretrained({ ...files, 'model.safetensors': safetensors! });
    for (const [key, { data }] of await onnxResults(like, folder)) expect(results.get(key)!.data, key).toEqual(data);
  });
});
