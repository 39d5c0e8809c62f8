/** Records a run of “Watch it learn” that is small enough to be part of the first page. */
import type { TrainingHeed } from 'heed/train';
import { type Recording, written } from './recording-format';
import { Trainer, type TrainerSettings } from './trainer';

/** The settings with which “Watch it learn” opens. */
export const openingSettings: TrainerSettings = {
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

const every = 4;
const lastStep = 160;

export function recordedRun(heed: TrainingHeed): Recording {
  const trainer = new Trainer(heed, openingSettings);
  const recording: Recording = { layer: 1, head: 0, length: trainer.task.length, every, accuracies: [], maps: [] };
  for (let step = 0; step <= lastStep; step += every) {
    recording.accuracies.push(Math.round(1000 * trainer.measure().accuracy));
    recording.maps.push(written(trainer.snapshot().weights[recording.layer]![recording.head]!));
    for (let i = 0; i < every; i++) trainer.train();
  }
  trainer.dispose();
  return recording;
}
