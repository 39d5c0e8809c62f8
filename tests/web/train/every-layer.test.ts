/** Features of every layer in training, tested with the examples of all layers. */
import { type Layer, load, type Tensor, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { layerExamples } from '../layers/examples.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

type Result = { output: Tensor; backward(cotangent: Tensor): { parameters: Record<string, Tensor> } };
type AnyLayer = Layer & {
  forward(...given: unknown[]): Tensor | { output: Tensor };
  parameters(): { name: string; shape: readonly number[] }[];
};

describe.each(Object.entries(layerExamples))('%s', (name, { options, given }) => {
  const make = (seed: number): AnyLayer =>
    new (heed[name as 'Linear'] as unknown as new (options: object) => AnyLayer)({ ...options, seed });
  const outputOf = (layer: AnyLayer) => {
    const result = layer.forward(...given);
    return [...('output' in result ? result.output : result).data];
  };

  it('has in checkpoints what its dropout will draw', () => {
    const layer = make(1).train();
    outputOf(layer);
    const checkpoint = heed.saveCheckpoint({ model: layer });
    const next = outputOf(layer);
    const other = make(2).train();
    heed.loadCheckpoint(checkpoint, { model: other });
    expect(outputOf(other)).toEqual(next);
    layer.dispose();
    other.dispose();
  });

  // The calls of embeddings have no options.
  it.skipIf(name === 'Embedding')('returns gradients of its parameters, in their shapes', () => {
    const layer = make(1);
    const { output, backward } = (layer.forward as (...given: unknown[]) => Result).call(layer, ...given, {
      backward: true,
    });
    const { parameters } = backward(output);
    expect(Object.entries(parameters).map(([key, { shape }]) => [key, [...shape]])).toEqual(
      layer.parameters().map((one) => [one.name, [...one.shape]]),
    );
    layer.dispose();
  });
});
