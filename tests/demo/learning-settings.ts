/** The settings with which “Watch it learn” opens. */
import type { TrainerSettings } from '../../demo/src/engine/learning/trainer';

export const initial: TrainerSettings = {
  task: 'reverse',
  heads: 2,
  width: 32,
  positions: true,
  scale: true,
  layerNorm: true,
  dropout: 0,
  learningRate: 0.003,
  seed: 1,
};
