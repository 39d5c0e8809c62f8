/** Trains the small transformer step by step, measures it, and goes back to earlier steps. */
import type { Optimizer, Tensor, TrainingHeed } from 'heed/train';
import { gradientNorms, layerCount, type ModelSettings, makeModel, type Transformer } from './model';
import { type Batch, drawBatch, type Example, noAnswer, symbols, type Task, type TaskName, tasks } from './tasks';

export interface TrainerSettings extends ModelSettings {
  task: TaskName;
  seed: number;
  learningRate: number;
}

/** What the page shows of one moment of the training. */
export interface Snapshot {
  /** Number of steps done. */
  step: number;
  /** The model's answer to each token of the sequence that is shown. */
  answers: number[];
  /** Per layer and head: [L, L], row-major. */
  weights: Float32Array[][];
  /** Per layer and head, the mean over queries of the largest weight: 1 / L if the weights are equal, 1 if each query attends to one key. */
  sharpness: number[][];
}

/** What is left of a model's skill when heads are off. */
export interface Ablation {
  /** To each token of the sequence that is shown. */
  answers: number[];
  /** On sequences that are not trained on. */
  accuracy: number;
  /** That accuracy with all heads. */
  whole: number;
  /** [layers][heads] that accuracy with one head off alone. */
  alone: number[][];
}

/** Loss and accuracy after some steps. */
export interface Measure {
  step: number;
  loss: number;
  accuracy: number;
}

export const batchSize = 32;
/** Number of sequences that are not trained on, for the accuracy. */
export const heldOut = 100;
export const heldOutStep = -2;
const fixedStep = -3;

export class Trainer {
  readonly task: Task;
  /** The sequence whose attention the page shows, with its answer: a fixed one that is not trained on, or the reader's. */
  shown: Example;
  readonly #heed: TrainingHeed;
  readonly #settings: TrainerSettings;
  readonly #model: Transformer;
  readonly #optimizer: Optimizer;
  readonly #test: Batch;
  /** A sequence that is not trained on. */
  readonly #fixed: Example;
  #step = 0;

  constructor(heed: TrainingHeed, settings: TrainerSettings) {
    this.#heed = heed;
    this.#settings = settings;
    this.task = tasks[settings.task];
    const { length, causal } = this.task;
    this.#model = makeModel(heed, settings, { symbols, length, causal }, settings.seed);
    this.#optimizer = new heed.optim.AdamW(this.#model.parameters(), { lr: settings.learningRate });
    this.#test = drawBatch(this.task, heldOut, settings.seed, heldOutStep);
    const { ids, labels } = drawBatch(this.task, 1, settings.seed, fixedStep);
    this.#fixed = { ids: ids[0]!, labels: labels[0]! };
    this.shown = this.#fixed;
  }

  /** Shows the sequence of these digits, or the fixed one. */
  read(digits: number[] | null): void {
    this.shown = digits ? this.task.exampleOf(digits) : this.#fixed;
  }

  /** Number of steps done. */
  get step(): number {
    return this.#step;
  }

  /** One step of training on a new batch. `look` is called between the backward pass and the optimizer's step, while there are gradients. */
  train(look: () => void = () => {}): void {
    const { ids, labels } = drawBatch(this.task, batchSize, this.#settings.seed, this.#step);
    this.#optimizer.zeroGrad();
    this.#heed.losses.crossEntropy(this.#model.train().forward(ids).logits, labels).backward();
    look();
    this.#heed.optim.clipGradNorm(this.#model.parameters(), 1);
    this.#optimizer.step();
    this.#step++;
  }

  /** The norms of the gradients of the last `train`; call it from `look`. */
  gradientNorms(): { name: string; norm: number }[] {
    return gradientNorms(this.#model);
  }

  /** What the model computes without the heads `off`, given as "layer.head". */
  without(off: readonly string[]): Ablation {
    const names = Array.from({ length: layerCount }, (_, layer) =>
      Array.from({ length: this.#settings.heads }, (_, head) => `${layer}.${head}`),
    );
    const { logits } = this.#model.eval().forward([this.shown.ids], { off });
    return {
      answers: largest(logits),
      accuracy: this.measure(off).accuracy,
      whole: this.measure().accuracy,
      alone: names.map((heads) => heads.map((name) => this.measure([name]).accuracy)),
    };
  }

  /** Loss and accuracy on sequences that are not trained on, without dropout and without the heads `off`. */
  measure(off: readonly string[] = []): Measure {
    const { ids, labels } = this.#test;
    const { logits } = this.#model.eval().forward(ids, { off });
    const loss = this.#heed.losses.crossEntropy(logits, labels).item();
    const asked = labels.flat();
    const answers = largest(logits);
    const right = asked.filter((label, i) => label === answers[i]).length;
    return { step: this.#step, loss, accuracy: right / asked.filter((label) => label !== noAnswer).length };
  }

  snapshot(): Snapshot {
    const { logits, weights } = this.#model.eval().forward([this.shown.ids], { withWeights: true });
    const maps = weights.map((heads) => heads.map(({ data }) => data));
    const { length } = this.task;
    const sharpnessOf = (map: Float32Array) => {
      let sum = 0;
      for (let i = 0; i < length; i++) sum += Math.max(...map.subarray(i * length, (i + 1) * length));
      return sum / length;
    };
    const sharpness = maps.map((heads) => heads.map(sharpnessOf));
    return { step: this.#step, answers: largest(logits), weights: maps, sharpness };
  }

  /** The model and the optimizer's state, from which `restore` goes on bit for bit. */
  save(): { step: number; bytes: Uint8Array<ArrayBuffer> } {
    return {
      step: this.#step,
      bytes: this.#heed.saveCheckpoint({ model: this.#model, optimizer: this.#optimizer }),
    };
  }

  restore({ step, bytes }: { step: number; bytes: Uint8Array<ArrayBuffer> }): void {
    this.#heed.loadCheckpoint(bytes, { model: this.#model, optimizer: this.#optimizer });
    this.#step = step;
  }

  dispose(): void {
    this.#optimizer.dispose();
    this.#model.dispose();
  }
}

/** The index of the largest entry of each row of the last axis. */
function largest({ data, shape }: Tensor): number[] {
  const width = shape.at(-1)!;
  return Array.from({ length: data.length / width }, (_, row) => {
    const entries = data.subarray(row * width, (row + 1) * width);
    return entries.indexOf(Math.max(...entries));
  });
}
