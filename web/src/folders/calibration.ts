/** The inputs of a model's matrices for some texts, which error feedback needs. */
import { HeedError } from '../base/error.js';
import type { Runtime } from '../base/owned.js';
import type { SignalLike } from '../base/platform.js';
import type { RawEncoderModel } from '../base/wasm/core.js';
import type { ModelFolder } from '../io/files.js';
import type { ModelSource } from '../io/source.js';
import { loadAs } from '../models/load-pretrained.js';
import { LocalModel } from '../models/pretrained.js';
import { Feedback } from './feedback.js';

/** The limit on the memory in which X^T X of several matrices is accumulated at a time, in bytes. */
const MOST = 2 ** 28;

export class Calibration {
  readonly #model: LocalModel;
  readonly #encoder: RawEncoderModel;
  readonly #texts: readonly string[];
  readonly #signal: SignalLike | undefined;
  /** The matrices, by their names among the encoder's parameters, in the order in which they will be asked for. */
  readonly #weights: { name: string; index: number; width: number }[];
  /** The matrices that are recorded at present. */
  #recorded: string[] = [];
  #last: { name: string; feedback: Feedback | null } | null = null;

  private constructor(
    model: LocalModel,
    encoder: RawEncoderModel,
    names: readonly string[],
    texts: readonly string[],
    signal: SignalLike | undefined,
  ) {
    this.#model = model;
    this.#encoder = encoder;
    this.#texts = texts;
    this.#signal = signal;
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
    const calibration = new Calibration(model, encoder!, names, texts, signal);
    try {
      if (model.config.hasTokenizer && (await calibration.#embeds())) return calibration;
    } catch (error) {
      calibration.dispose();
      throw error;
    }
    calibration.dispose();
    return null;
  }

  /** The feedback for a matrix; null if it has no inputs. */
  async feedbackOf(name: string): Promise<Feedback | null> {
    if (this.#last?.name === name) return this.#last.feedback;
    if (!this.#recorded.includes(name)) await this.#record(this.#weights.findIndex((weight) => weight.name === name));
    const gram = this.#encoder.inputGram(this.#recorded.indexOf(name));
    const feedback = Feedback.of(gram, this.#weights.find((weight) => weight.name === name)!.width);
    this.#last = { name, feedback };
    return feedback;
  }

  dispose(): void {
    this.#model.dispose();
  }

  /** Records the inputs of matrix `first` and of as many after it as the memory allows. */
  async #record(first: number): Promise<void> {
    let bytes = 0;
    const some = this.#weights.slice(first).filter(({ width }, i) => {
      bytes += 4 * width * width;
      return i === 0 || bytes <= MOST;
    });
    this.#encoder.recordInputs(some.map(({ index }) => index));
    this.#recorded = some.map(({ name }) => name);
    await this.#model.embed(this.#texts, { signal: this.#signal });
  }

  /** Whether the model can embed texts. */
  async #embeds(): Promise<boolean> {
    try {
      await this.#model.embed(this.#texts.slice(0, 1), { signal: this.#signal });
      return true;
    } catch (error) {
      if (error instanceof HeedError && error.code === 'UNSUPPORTED') return false;
      throw error;
    }
  }
}
