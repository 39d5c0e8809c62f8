/** A classifier as the text of a link: engine/learning/shared.ts. */
import { describe, expect, it } from 'vitest';
import { pack, unpack } from '../../demo/src/engine/learning/shared';

const width = 384;
const row = (seed: number) => Array.from({ length: width }, (_, i) => Math.sin(seed * 31 + i) * seed);
const classifier = (count: number) => ({
  labels: Array.from({ length: count }, (_, i) => (i === 1 ? 'label “ä”' : `label ${i}`)),
  weight: Array.from({ length: count }, (_, i) => row(i + 1)),
  bias: Array.from({ length: count }, (_, i) => i / 8),
});

describe('a shared classifier', () => {
  it('has each weight within half a step of 8 bits, and its labels and biases', () => {
    const given = classifier(3);
    const read = unpack(pack(given)!, width);
    expect(read.labels).toEqual(given.labels);
    expect(read.bias).toEqual(given.bias);
    for (const [i, weights] of given.weight.entries()) {
      const step = Math.max(...weights.map(Math.abs)) / 127;
      for (const [j, value] of weights.entries())
        expect(Math.abs(read.weight[i]![j]! - value)).toBeLessThan(0.5 * step * (1 + 1e-5));
    }
  });

  it('of zeros stays zeros', () => {
    const weight = [new Array<number>(width).fill(0), row(1)];
    expect(unpack(pack({ labels: ['a', 'b'], weight, bias: [0, 0] })!, width).weight[0]).toEqual(weight[0]);
  });

  it('fits a link with 10 labels, and not with 30', () => {
    expect(pack(classifier(10))).not.toBeNull();
    expect(pack(classifier(30))).toBeNull();
  });

  const good = pack(classifier(2))!;
  const [weights, ...labels] = good.split('\t');
  it.each<[string, string, string]>([
    ['nothing', '', 'damaged'],
    ['markup', '<script>alert(1)</script>', 'damaged'],
    ['another version', `b${good.slice(1)}`, 'another version'],
    ['a part of the weights', good.slice(0, 100), 'labels are missing'],
    ['weights alone', weights!, 'labels are missing'],
    ['one label', [weights, labels[0]].join('\t'), 'labels are missing'],
    ['a label twice', [weights, labels[0], labels[0]].join('\t'), 'labels are missing'],
    ['a blank label', [weights, labels[0], ' '].join('\t'), 'labels are missing'],
    ['a label too many', [weights, ...labels, 'third'].join('\t'), 'do not match'],
    ['weights that were cut', [weights!.slice(0, -4), ...labels].join('\t'), 'do not match'],
    ['a scale of NaN', [`aAADAf${weights!.slice(6)}`, ...labels].join('\t'), 'not numbers'],
  ])('refuses %s', (_, text, message) => {
    expect(() => unpack(text, width)).toThrow(message);
  });
});
