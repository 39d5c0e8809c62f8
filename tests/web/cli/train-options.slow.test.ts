/** Options of `heed train classifier` and `heed evaluate` that change what is learned and measured. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { modelFolder, run } from './support.js';

const { folder, path } = modelFolder();
// The second text alone decides the label, and one label is rare.
const rows = Array.from({ length: 12 }, (_, i) => (i % 4 === 0 ? 'the,brown fox,rare' : 'the,x y z,often'));
writeFileSync(path('pairs.csv'), `text,second,label\n${rows.join('\n')}\n`);

/** Trains and returns the folder with the classifier. */
async function trained(name: string, ...options: string[]): Promise<string> {
  const args = ['train', 'classifier', path('pairs.csv'), '--out', path(name), '--seed', '1', ...options];
  expect(await run([...args, '--model', folder])).toMatchObject({ code: 0 });
  return path(name);
}
/** The weights of the classifier, a dense layer after the pooling. */
const weightsOf = (out: string) =>
  readFileSync(join(out, readdirSync(out).find((name) => name.endsWith('_Dense'))!, 'model.safetensors'));

test('--pair names the second text, in training and in evaluation', async () => {
  const model = await trained('with', '--pair', 'second');
  const evaluate = (...options: string[]) =>
    run(['evaluate', path('pairs.csv'), '--model', model, '--json', ...options]);
  const { out, err } = await evaluate('--pair', 'second');
  expect(err).toBe('');
  expect(JSON.parse(out)).toMatchObject({ count: 12, accuracy: 1 });
  // Without it, equal texts have different labels.
  expect(await evaluate()).toMatchObject({ code: 2, err: expect.stringContaining("got 'often' for 'the'") });
});

test('--balanced weights labels by the inverse of their number', async () => {
  const plain = weightsOf(await trained('plain', '--pair', 'second'));
  expect(weightsOf(await trained('balanced', '--pair', 'second', '--balanced')).equals(plain)).toBe(false);
});
