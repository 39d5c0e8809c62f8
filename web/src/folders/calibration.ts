/** The inputs of a model's matrices for some texts, which error feedback needs. */
import { HeedError } from '../base/error.js';
import type { Runtime } from '../base/owned.js';
import type { SignalLike } from '../base/platform.js';
import type { Core, RawEncoderModel } from '../base/wasm/core.js';
import type { ModelFolder } from '../io/files.js';
import type { ModelSource } from '../io/source.js';
import { loadAs } from '../loading/load-pretrained.js';
import { LocalModel } from '../models/pretrained.js';
import { Feedback } from './feedback.js';

/** The limit on the memory in which X^T X of several matrices is accumulated at a time, in bytes. */
const MOST = 2 ** 28;

export class Calibration {
  /** The matrices, by their names among the encoder's parameters, in the order in which they will be asked for. */
  readonly #weights: { name: string; index: number; width: number }[];
  /** The matrices that are recorded at present. */
  #recorded: string[] = [];
  #last: { name: string; feedback: Feedback | null } | null = null;

  private constructor(
    readonly model: LocalModel,
    readonly encoder: RawEncoderModel,
    names: readonly string[],
    readonly texts: readonly string[],
    readonly core: Core,
    readonly signal: SignalLike | undefined,
  ) {
    const parameters = encoder.parameters();
    this.#weights = [...new Set(names)].map((name) => {
      const index = parameters.findIndex((parameter) => parameter.name === name);
      return { name, index, width: parameters[index]!.shape[1]! };
    });
  }

  /**
   * Loads the model. `names`: the encoder's matrices. null for models that cannot embed texts. `folder`: the source's
   * folder, already open.
   */
  static async open(
    runtime: Runtime,
    source: ModelSource,
    folder: ModelFolder,
    names: readonly string[],
    texts: readonly string[],
    signal: SignalLike | undefined,
  ): Promise<Calibration | null> {
    let encoder: RawEncoderModel | undefined;
    const model = await loadAs(runtime, source, { signal }, folder, (...parts) => {
      encoder = parts[2].encoder;
      return new LocalModel(...parts);
    });
    const calibration = new Calibration(model, encoder!, names, texts, runtime.core, signal);
    try {
      await model.embed(texts.slice(0, 1), { signal });
      return calibration;
    } catch (error) {
      model.dispose();
      if (error instanceof HeedError && error.code === 'UNSUPPORTED') return null;
      throw error;
    }
  }

  /** The feedback for a matrix; null if it has no inputs. */
  async feedbackOf(name: string): Promise<Feedback | null> {
    if (this.#last?.name === name) return this.#last.feedback;
    if (!this.#recorded.includes(name)) await this.#record(this.#weights.findIndex((weight) => weight.name === name));
    const gram = this.encoder.inputGram(this.#recorded.indexOf(name));
    const feedback = Feedback.of(this.core, gram, this.#weights.find((weight) => weight.name === name)!.width);
    this.#last = { name, feedback };
    return feedback;
  }

  dispose(): void {
    this.model.dispose();
  }

  /** Records the inputs of matrix `first` and of as many after it as the memory allows. */
  async #record(first: number): Promise<void> {
    let bytes = 0;
    const some = this.#weights.slice(first).filter(({ width }, i) => {
      bytes += 4 * width * width;
      return i === 0 || bytes <= MOST;
    });
    this.encoder.recordInputs(some.map(({ index }) => index));
    this.#recorded = some.map(({ name }) => name);
    await this.model.embed(this.texts, { signal: this.signal });
  }
}
