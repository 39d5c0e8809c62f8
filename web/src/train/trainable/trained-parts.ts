/** The parameters of a pretrained encoder that can be trained: the parts that have them, and LoRA adapters. */
import { calling, type HeedError, invalid } from '../../base/error.js';
import { requireIdle } from '../../base/in-progress.js';
import type { RawObject, Runtime } from '../../base/owned.js';
import type { TensorInput } from '../../base/tensor.js';
import type { RawModule, RawTensorLayer } from '../../base/wasm/core.js';
import { type HasParameters, type NamePattern, type Parameter, parametersOf } from '../graph/parameters.js';
import { type RecordedLayer, RecordedModule } from '../graph/recorded.js';
import type { ModuleState } from '../graph/scope.js';
import type { Tape } from '../graph/tape.js';
import type { RawLora, RawNamedRows } from '../graph/train-core.js';
import { allLayers } from '../graph/tree.js';
import {
  HEADS,
  type HeadName,
  type LoadedModel,
  LocalModel,
  type Parts,
  type StateDict,
  wordBiasNames,
  writeState,
} from '../inference.js';
import { dropoutRates } from './dropout-rates.js';
import { HeadLayers } from './head-layers.js';
import { isIn, type Lora, type LoraOptions, readLora } from './lora.js';
import { namedRowsOf } from './named-rows.js';
import { setRequired } from './trainable.js';
import { makeWordBias } from './word-bias.js';

export interface TrainingOptions {
  recompute: boolean;
  dropout: number | null;
  seed: number;
}

/** A part of the model that has parameters: its raw object, and the names of its parameters in the files. */
interface Part extends HasParameters {
  readonly name: string;
  /** The prefix of its parameters' names in training checkpoints. */
  readonly prefix: string;
  readonly state: ModuleState;
  /** Returns a parameter's name in the file, or null if the file does not contain it; it is then not trained. */
  readonly nameOf: (own: string) => string | null;
}

/** A pretrained encoder whose parameters can be trained. */
export class TrainedParts extends LocalModel {
  protected readonly tape: Tape;
  protected readonly options: TrainingOptions;
  protected readonly encoder: Part;
  /** The heads and the layers after the pooling. */
  readonly #others: Part[];
  readonly #names: RawNamedRows[];
  #lora: { readonly part: Part; readonly raw: RecordedModule<RawLora>; readonly options: Lora } | null = null;
  /** Has no reference to the model, because the raw objects must not hold one. */
  readonly #attached: { lora: RawModule | null } = { lora: null };
  /** The dropout on the classifier's inputs. */
  protected readonly dropout: RawTensorLayer;
  protected readonly classifiers: readonly RawModule[];
  /**
   * The bias of an MLM decoder that is tied to the token embeddings, stored as the bias of a linear layer whose inputs
   * are zeros.
   */
  protected readonly wordBias: RawTensorLayer | null;
  #training = false;

  constructor(runtime: Runtime, loaded: LoadedModel, parts: Parts, tape: Tape, options: TrainingOptions) {
    if (loaded.sentence.layers.some(({ residual }) => residual))
      throw invalid('fromPretrained.trainable', 'Dense layers without use_residual', 'a layer with it', 'UNSUPPORTED');
    const { classifier, ...rates } = dropoutRates(loaded.type, loaded.settings, options.dropout);
    const heads = new HeadLayers();
    super(heads.sharing(runtime), loaded, parts);
    this.tape = tape;
    this.options = options;
    // Make all heads now, because each is initialized with the values of the file.
    for (const name of Object.keys(HEADS) as HeadName[]) {
      try {
        this.head(name);
      } catch (error) {
        if ((error as HeedError).code === 'OUT_OF_MEMORY') throw error;
      }
    }
    this.wordBias = makeWordBias(this.raw.heads.get('fill-mask'), this.headContext);
    const head = parts.heads.get('sequence-classification');
    const onVectors = head?.takesVectors ? head.chain.layers : [];
    const { layers, classifier: last } = loaded.sentence;
    const biases = wordBiasNames(loaded.type);
    const readBias = biases.find((name) => loaded.names.has(name));
    const inFile = (name: string) => loaded.names.get((biases.includes(name) && readBias) || name) ?? null;
    this.#others = [
      ...[...heads.made].map(([name, raw]) => this.#part(raw, `${name}.`, (own) => inFile(`${name}.${own}`))),
      ...[...parts.vectorLayers.layers, ...onVectors].map((raw, i) => {
        const { weights, kind } = layers[i] ?? last!;
        const folder = weights.replace(/model\.safetensors$/, '').replaceAll('/', '.');
        return this.#part(raw, `${folder}${kind === 'dense' ? 'linear' : 'norm'}.`);
      }),
    ];
    this.classifiers = [...heads.made].flatMap(([name, raw]) => (name.startsWith('classifier') ? [raw] : []));
    this.#names = namedRowsOf(loaded);
    const { encoder } = parts;
    const { core } = tape;
    const raw = calling('fromPretrained', () => new core.TrainableEncoder(encoder, this.#names, rates));
    const trained = new RecordedModule(tape, 'TrainableEncoder', raw);
    const attached = this.#attached;
    const dropout = new runtime.calls.Dropout({ p: classifier, scaling: 'inverted' });
    // Heads may be replaced, but the parameters of their layers remain the model's.
    const kept = [...heads.made.values(), ...onVectors].map((layer) => (layer as RecordedLayer).retain());
    const others = [...kept, ...(this.wordBias ? [this.wordBias] : []), dropout];
    parts.deleteEncoder = deletion(others, attached, [trained, encoder]);
    trained.seed(options.seed);
    dropout.seed(options.seed);
    this.dropout = dropout;
    this.encoder = this.#part(trained);
    this.parameters(); // freezes the parameters that the file does not have
  }

  get training(): boolean {
    return this.#training;
  }

  train(): this {
    this.#training = true;
    return this;
  }

  eval(): this {
    this.#training = false;
    return this;
  }

  parameters(): Parameter[] {
    return this.#parts.flatMap((part) => parametersOf(this.tape, part, part.nameOf));
  }

  freeze(pattern?: NamePattern): this {
    return setRequired(this, 'model.freeze', pattern, false);
  }

  unfreeze(pattern?: NamePattern): this {
    return setRequired(this, 'model.unfreeze', pattern, true);
  }

  get lora(): Lora | null {
    return this.#lora?.options ?? null;
  }

  addLora(given?: LoraOptions): this {
    void this.raw;
    const { core } = this.tape;
    if (this.#lora)
      throw invalid(
        'addLora',
        'a model without a LoRA adapter',
        `a model with one of rank ${this.#lora.options.rank}`,
        'INVALID_ARGUMENT',
        {
          hint: 'Call mergeLora() first',
        },
      );
    requireIdle('addLora', [this.raw.encoder]);
    const { chosen, seed, ...options } = this.#readLora(given);
    const made = calling('addLora', () => new core.Lora(this.encoder.state.inner, chosen, options));
    const raw = new RecordedModule(this.tape, 'Lora', made, this.encoder.state);
    for (const parameter of this.parameters()) parameter.requiresGrad = isIn(parameter.name, options.modulesToSave);
    raw.initialize(seed);
    raw.seed(seed);
    this.#attached.lora = raw;
    this.#lora = { part: this.#part(raw), raw, options: Object.freeze(options) };
    return this;
  }

  /** @internal */
  loraOf(given?: LoraOptions): Lora {
    const { chosen, seed, ...options } = this.#readLora(given);
    return options;
  }

  #readLora(given: LoraOptions | undefined) {
    this.requireTrainable('addLora');
    const core = this.raw.encoder.parameters().map(({ name }) => name);
    return readLora(given, this.#names, core);
  }

  mergeLora(): this {
    void this.raw;
    if (!this.#lora)
      throw invalid('mergeLora', 'a model with a LoRA adapter', 'a model without one', 'INVALID_ARGUMENT', {
        hint: 'Call addLora() first',
      });
    const { raw } = this.#lora;
    this.tape.requireIdle();
    requireIdle('mergeLora', [this.raw.encoder]);
    calling('mergeLora', () => raw.inner.merge());
    this.encoder.state.version++;
    this.#lora = null;
    this.#attached.lora = null;
    raw.delete();
    return this;
  }

  stateDict(): StateDict {
    return Object.fromEntries(this.parameters().map(({ name, value }) => [name, value]));
  }

  loadStateDict(state: Readonly<Record<string, TensorInput>>): this {
    const argument = 'model.loadStateDict';
    const listed = this.#parts.flatMap(({ raw, nameOf }) =>
      raw.parameters().flatMap((listed, index) => {
        const name = nameOf(listed.name);
        return name === null ? [] : [{ raw, index, name, shape: listed.shape }];
      }),
    );
    writeState(argument, listed, state);
    return this;
  }

  get #parts(): Part[] {
    return [this.encoder, ...this.#others, ...(this.#lora ? [this.#lora.part] : [])];
  }

  #part(raw: RawModule, prefix = '', nameOf: Part['nameOf'] = (own) => prefix + own): Part {
    const state = this.tape.stateOf(raw);
    const get = () => {
      void this.raw; // throws after dispose()
      return raw;
    };
    return Object.defineProperty({ name: state.name, prefix, state, nameOf } as Part, 'raw', { get });
  }

  /** @internal The parts of the model, for training checkpoints. */
  [allLayers](): [Part, string][] {
    return [...this.#parts, this.#part(this.dropout, 'dropout.')].map((part) => [part, part.prefix]);
  }

  /** The state of the LoRA adapters, if there are any. */
  protected get adapters(): ModuleState | null {
    return this.#lora?.part.state ?? null;
  }

  protected requireTrainable(name: string): void {
    const { dtype } = this.config;
    if (dtype === 'fp32') return;
    throw invalid(name, "a model of dtype 'fp32'", `'${dtype}'`, 'UNSUPPORTED', {
      hint: 'int8 weights cannot be trained; embed() and encode() give features to train other layers on',
    });
  }
}

/**
 * Returns a function that deletes the raw objects of a model. Not a closure of the constructor, because engines keep one
 * scope for all closures of a function: it would refer to the model, which would then never be collected.
 */
function deletion(others: RawObject[], attached: { lora: RawObject | null }, last: RawObject[]): () => void {
  return () => {
    for (const other of others) other.delete();
    attached.lora?.delete();
    for (const each of last) each.delete();
  };
}
