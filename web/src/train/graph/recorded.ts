/**
 * Wraps raw layers and models in heed/train. The tape tracks their changes, and calls of layers are recorded where
 * necessary.
 */
import { formatShape, invalid } from '../../base/error.js';
import { elementCount } from '../../base/tensor.js';
import type { RawIncrementalDecoder, RawLayer, RawModule } from '../../base/wasm/core.js';
import type { LayerTraits } from '../inference.js';
import type { ModuleState } from './scope.js';
import type { Tape } from './tape.js';
import type { RawGradients } from './train-core.js';

export class RecordedModule<Inner extends RawModule = RawModule> implements ModuleState {
  readonly name: string;
  readonly inner: Inner;
  training = false;
  version = 0;
  written = false;
  deleted = false;
  gradients: RawGradients | null = null;
  protected readonly tape: Tape;
  readonly #user: ModuleState | null;
  #owners = 1;

  /** `user`: a module whose forward passes also use the parameters of this one. */
  constructor(tape: Tape, name: string, inner: Inner, user: ModuleState | null = null) {
    this.tape = tape;
    this.name = name;
    this.inner = inner;
    this.#user = user;
    tape.track(this);
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

  dropoutState(): number[] {
    return this.tape.core.dropoutState(this.inner);
  }

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

export class RecordedLayer extends RecordedModule<RawLayer> implements RawIncrementalDecoder {
  readonly #traits: LayerTraits;

  constructor(tape: Tape, name: string, inner: RawLayer, traits: LayerTraits) {
    super(tape, name, inner);
    this.#traits = traits;
  }

  forward(given: object): unknown {
    const { tape, inner } = this;
    const values = Object.values(given);
    if (!tape.records(this, values)) return inner.forward(given);
    const position = values.length > 0 ? this.#positionOf(values[0].shape) : null;
    return tape.record(this, (call) => call.layer(inner, given, position));
  }

  makeCache(...given: Parameters<RawIncrementalDecoder['makeCache']>) {
    return (this.inner as RawIncrementalDecoder).makeCache(...given);
  }

  step(...given: Parameters<RawIncrementalDecoder['step']>) {
    return (this.inner as RawIncrementalDecoder).step(...given);
  }

  /**
   * For a part of a batch, the indices of its first sequence and its first row in the whole batch; otherwise null.
   * `shape`: the shape of the first input.
   */
  #positionOf(shape: readonly number[]): [sequence: number, row: number] | null {
    const { part } = this.tape;
    if (!part) return null;
    if (shape.length < 3 && this.#traits.relatesRows) {
      const got = `${formatShape(shape)} for ${this.name}`;
      throw invalid('fit.workers', 'sequences, [N, L, E], as examples', got, 'SHAPE_MISMATCH', {
        hint: 'Leave `workers` out',
      });
    }
    const positionOf = (axes: readonly number[]) => (elementCount(axes) / part.count) * part.first;
    return [shape.length < 3 ? 0 : positionOf(shape.slice(0, -2)), positionOf(shape.slice(0, -1))];
  }
}
