/** The fixtures of tests/fixtures/onnx, read from the safetensors that transformers 5 wrote beside the ONNX files. */
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { expectClose } from './fixtures.js';
import { onnxCases, onnxExpected, onnxFolder, onnxFolders, onnxResults } from './onnx-fixtures.js';

describe.each(onnxFolders)('%s', (name) => {
  test("gives PyTorch's results", async () => {
    const heed = await load();
    using model = await heed.fromPretrained(onnxFolder(name));
    const results = await onnxResults(model, name);
    const expected = onnxExpected(name, 'exact');
    expect([...results.keys()]).toEqual([...expected.keys()].sort());
    for (const [key, value] of results) expectClose(value, expected.get(key), key);
  });

  test('has the files that cases.json lists', () => {
    const files = Object.keys(onnxFolder(name)).filter((path) => path.endsWith('.onnx'));
    const listed = onnxCases.filter(({ folder }) => folder === name);
    expect(files.sort()).toEqual(listed.map(({ file }) => `onnx/${file}`).sort());
    for (const { expected } of listed) expect(onnxExpected(name, expected).size).toBeGreaterThan(0);
  });
});
