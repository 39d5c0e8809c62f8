/**
 * One run of training, as the page follows it: run, pause, single steps, and back to earlier steps. It runs in the worker; the page gets frames, at most one for each that it
 * has drawn, so that a slow page or one in the background delays drawing and not the training.
 */
import type { TrainingHeed } from 'heed/train';
import { asFailure, type Failure } from '../failure';
import { lastStep } from './constants';
import { type Ablation, type Measure, type Snapshot, Trainer, type TrainerSettings } from './trainer';

export type SessionCommand =
  /** Starts over; `run` numbers the runs, so that the page can tell frames of an earlier one. `digits`: as in `read`. */
  | { type: 'reset'; run: number; settings: TrainerSettings; digits: number[] | null }
  /** Trains; with `until`, to that step, without waiting for the page to draw each one. */
  | { type: 'train'; until?: number }
  /** Shows the sequence of these digits; null: one that is drawn from the seed. */
  | { type: 'read'; digits: number[] | null }
  | { type: 'pause' }
  | { type: 'step' }
  /** Goes to the last saved step that is not later. */
  | { type: 'rewind'; step: number }
  /** Reports what the model computes without the heads `off`, for the lens. */
  | { type: 'ablate'; off: string[] }
  /** Whether the page draws every step. The next one is then computed while it draws. */
  | { type: 'pace'; everyStep: boolean }
  /** The page has drawn the last frame. */
  | { type: 'drawn' };

export interface Frame {
  run: number;
  training: boolean;
  snapshot: Snapshot;
  /** The sequence whose attention is shown, and its answer. */
  ids: number[];
  labels: number[];
  /** Norms of the gradients in the last step; null before the first and after going back. */
  gradients: { name: string; norm: number }[] | null;
  measures: Measure[];
  /** The steps to which one can go back. */
  saved: number[];
  /** Time spent on training steps, in milliseconds. */
  milliseconds: number;
}

export type SessionReport =
  | { type: 'frame'; frame: Frame }
  | { type: 'ablated'; run: number; off: string[]; ablation: Ablation }
  | { type: 'failed'; run: number; failure: Failure };

export const stepsPerMeasure = 10;
/** Saved states; when there are more, every second one is dropped. */
const mostSaved = 40;

interface Saved {
  step: number;
  bytes: Uint8Array<ArrayBuffer>;
}

export class Session {
  readonly #heed: TrainingHeed;
  readonly #post: (report: SessionReport) => void;
  #run = 0;
  #trainer: Trainer | undefined;
  #training = false;
  #looping = false;
  #everyStep = false;
  /** The step to which training was asked to go. */
  #until: number | undefined;
  #drawn = true;
  #changed = false;
  #gradients: Frame['gradients'] = null;
  #measures: Measure[] = [];
  #saved: Saved[] = [];
  #stepsPerSave = stepsPerMeasure;
  #milliseconds = 0;

  constructor(heed: TrainingHeed, post: (report: SessionReport) => void) {
    this.#heed = heed;
    this.#post = post;
  }

  handle(command: SessionCommand): void {
    try {
      this.#perform(command);
      // Otherwise the loop does, after a step whose gradients it has kept.
      if (!this.#training || this.#waits) this.#show();
    } catch (reason) {
      this.#fail(reason);
    }
    if (this.#training && !this.#looping) void this.#loop();
  }

  dispose(): void {
    this.#training = false;
    this.#trainer?.dispose();
    this.#trainer = undefined;
  }

  #perform(command: SessionCommand): void {
    this.#changed ||= command.type !== 'drawn' && command.type !== 'ablate';
    if (command.type === 'drawn') this.#drawn = true;
    else if (command.type === 'pace') this.#everyStep = command.everyStep;
    else if (command.type === 'reset') this.#reset(command);
    else if (!this.#trainer) return;
    else if (command.type === 'read') this.#trainer.read(command.digits);
    else if (command.type === 'ablate') {
      const { off } = command;
      this.#post({ type: 'ablated', run: this.#run, off, ablation: this.#trainer.without(off) });
    } else if (command.type === 'train') {
      this.#until = command.until;
      this.#training = this.#trainer.step < this.#end;
    } else {
      this.#training = false;
      if (command.type === 'step') this.#step(true);
      if (command.type === 'rewind') this.#rewind(this.#trainer, command.step);
    }
  }

  /** The step after which training ends. */
  get #end(): number {
    return Math.min(this.#until ?? lastStep, lastStep);
  }

  /** Whether the next step waits until the page has drawn this one. */
  get #waits(): boolean {
    return this.#everyStep && this.#until === undefined;
  }

  #reset({ run, settings, digits }: Extract<SessionCommand, { type: 'reset' }>): void {
    this.dispose();
    this.#run = run;
    this.#gradients = null;
    this.#measures = [];
    this.#saved = [];
    this.#stepsPerSave = stepsPerMeasure;
    this.#milliseconds = 0;
    this.#trainer = new Trainer(this.#heed, settings);
    this.#trainer.read(digits);
    this.#measure(this.#trainer);
    this.#save(this.#trainer);
  }

  #rewind(trainer: Trainer, step: number): void {
    const target = this.#saved.filter((saved) => saved.step <= step).at(-1)!;
    trainer.restore(target);
    this.#gradients = null;
  }

  /** Trains until a command stops it; commands arrive between the steps. */
  async #loop(): Promise<void> {
    this.#looping = true;
    try {
      // When each step is to be drawn, the loop ends with one that waits for that, and `drawn` starts it again.
      while (this.#training && (!this.#waits || this.#drawn || !this.#changed)) {
        if (this.#trainer!.step + 1 >= this.#end) this.#training = false; // the last step is measured
        this.#step(this.#drawn || this.#waits || !this.#training);
        this.#show();
        await nextTask();
      }
    } catch (reason) {
      this.#fail(reason);
    } finally {
      this.#looping = false;
    }
  }

  #step(withGradients: boolean): void {
    const trainer = this.#trainer!;
    const started = performance.now();
    trainer.train(() => {
      if (withGradients) this.#gradients = trainer.gradientNorms();
    });
    this.#milliseconds += performance.now() - started;
    this.#changed = true;
    if (!this.#training || trainer.step % stepsPerMeasure === 0) this.#measure(trainer);
    if (trainer.step % this.#stepsPerSave === 0) this.#save(trainer);
  }

  /** After going back, a run repeats itself, so what was measured before still holds. */
  #measure(trainer: Trainer): void {
    if (this.#measures.some(({ step }) => step === trainer.step)) return;
    this.#measures.push(trainer.measure());
    this.#measures.sort((a, b) => a.step - b.step);
  }

  #save(trainer: Trainer): void {
    if (this.#saved.some(({ step }) => step === trainer.step)) return;
    this.#saved.push(trainer.save());
    if (this.#saved.length <= mostSaved) return;
    this.#stepsPerSave *= 2;
    this.#saved = this.#saved.filter(({ step }) => step % this.#stepsPerSave === 0);
  }

  /** Posts the present state if the page has drawn the previous one. */
  #show(): void {
    const trainer = this.#trainer;
    if (!trainer || !this.#drawn || !this.#changed) return;
    this.#drawn = false;
    this.#changed = false;
    const { ids, labels } = trainer.shown;
    const frame: Frame = {
      run: this.#run,
      training: this.#training,
      snapshot: trainer.snapshot(),
      ids,
      labels,
      gradients: this.#gradients,
      measures: this.#measures,
      saved: this.#saved.map(({ step }) => step),
      milliseconds: this.#milliseconds,
    };
    this.#post({ type: 'frame', frame });
  }

  #fail(reason: unknown): void {
    this.#training = false;
    this.#changed = true;
    this.#post({ type: 'failed', run: this.#run, failure: asFailure(reason) });
    try {
      this.#show();
    } catch {
      // The failure has been reported.
    }
  }
}

/** Resolves in a task of its own, after the messages that have arrived. Unlike a timer, a channel is not slowed down in nested calls or in the background. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
