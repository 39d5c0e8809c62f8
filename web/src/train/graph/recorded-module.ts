/** The raw object of a layer or model in heed/train, which counts the changes of its parameters. */
import type { RawModule } from '../../base/wasm/core.js';
import type { RawGradients, TrainCore } from './train-core.js';

/** What modules and recordings use of their tape. */
export interface TapeParts {
  readonly core: TrainCore;
  requireNoBackward(): void;
  release(module: RecordedModule, free: () => void): void;
  requireOwn(name: string, data: Float32Array): void;
}

export class RecordedModule<Inner extends RawModule = RawModule> implements RawModule {
  readonly name: string;
  /** The object in WebAssembly. */
  readonly inner: Inner;
  training = false;
  /** Counts the changes of its parameters. */
  version = 0;
  /** Whether its parameters have values other than the initial ones. */
  written = false;
  deleted = false;
  /** The gradients that backward passes of losses accumulate. Created when first needed. */
  gradients: RawGradients | null = null;
  readonly tape: TapeParts;
  readonly #user: RecordedModule | null;
  #owners = 1;

  /** `user`: a module whose forward passes also use the parameters of this one. */
  constructor(tape: TapeParts, name: string, inner: Inner, user: RecordedModule | null = null) {
    this.tape = tape;
    this.name = name;
    this.inner = inner;
    this.#user = user;
  }

  parameters() {
    return this.inner.parameters();
  }

  readParameter(index: number): Float32Array {
    return this.inner.readParameter(index);
  }

  writeParameter(...given: Parameters<RawModule['writeParameter']>): void {
    this.tape.requireNoBackward();
    this.written = true;
    this.#change();
    this.inner.writeParameter(...given);
  }

  initialize(seed: number): void {
    this.#change();
    this.inner.initialize(seed);
  }

  seed(seed: number): void {
    this.inner.seed(seed);
  }

  setTraining(training: boolean): void {
    this.inner.setTraining(training);
    this.training = training;
  }

  isRunning(): boolean {
    return this.inner.isRunning();
  }

  /** The state of its dropouts, four words each: the seed and the number of calls, both with the lower half first. */
  dropoutState(): number[] {
    return this.tape.core.dropoutState(this.inner);
  }

  /** Sets that state from the same number of words. */
  setDropoutState(words: readonly number[]): void {
    this.tape.core.setDropoutState(this.inner, words);
  }

  /** Adds an owner. The module is freed when all its owners have deleted it. */
  retain(): this {
    this.#owners++;
    return this;
  }

  delete(): void {
    if (--this.#owners === 0) this.tape.release(this, () => this.inner.delete());
  }

  #change(): void {
    this.version++;
    if (this.#user) this.#user.version++;
  }
}
