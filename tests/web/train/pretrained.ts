/** Shared by the tests of trainable checkpoints. */
import type { TrainableModel } from 'heed/train';
import { draw, scaled } from '../layers/numbers.js';

/** Initializes A of each LoRA adapter like tests/fixtures/training/pretrained.py; B stays zero. */
export function setLora(model: TrainableModel, { seed, scale }: { seed: number; scale: number }): void {
  const state = model.stateDict();
  const names = Object.keys(state).filter((name) => name.endsWith('.lora_A.weight'));
  const drawn = names
    .sort()
    .map((name, i) => [name, scaled(draw((seed + i) % 2 ** 32, ...state[name]!.shape), scale, 0)] as const);
  model.loadStateDict({ ...state, ...Object.fromEntries(drawn) });
}
