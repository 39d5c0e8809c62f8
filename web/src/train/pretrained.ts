/** Pretrained encoders that can be trained: `fromPretrained` with `trainable: true`. Notation: N texts, L the longest one's tokens, T tokens of all, E width. */
import type { RawModule, RawTensor, RawTensorLayer } from '../core.js';
import { calling, type HeedError, invalid } from '../error.js';
import type { ModelSource } from '../io/source.js';
import type { StateDict } from '../layers/state-dict.js';
import { fitState } from '../layers/state-dict.js';
import { callSchema, embedSchema, loadSchema, requireTexts } from '../models/call-options.js';
import { parameterRowsOf } from '../models/families.js';
import type { FromPretrainedOptions } from '../models/from-pretrained.js';
import { type InputOptions, isTexts, longest, type ModelInput, type Row, readInput, rowsOf } from '../models/input.js';
import type { LoadedModel, LoadModelOptions } from '../models/load.js';
import type { EmbedOptions, PretrainedModel } from '../models/model.js';
import { LocalModel, listsOf, loadAs, type Parts } from '../models/pretrained.js';
import { batchOf } from '../models/run.js';
import { HEADS, type HeadName } from '../models/task-heads.js';
import { flag, oneOf, optional, rate, readOptions, seed } from '../options.js';
import type { Runtime } from '../owned.js';
import { shippedModel } from '../shipped.js';
import { Tensor, type TensorInput } from '../tensor.js';
import type { RawLora, RawNamedRows, RawVariable, TrainCore } from './core.js';
import { dropoutRates } from './dropout-rates.js';
import { isIn, type Lora, type LoraOptions, readLora } from './lora.js';
import { toResult } from './loss.js';
import { type HasParameters, type NamePattern, type Parameter, parametersOf } from './parameters.js';
import { tracked } from './recording.js';
import type { ModuleState, Recording } from './scope.js';
import type { Tape } from './tape.js';
import { setRequired, type Trainable } from './trainable.js';

/** Options of `fromPretrained` with `trainable: true`. */
export interface TrainableOptions extends Omit<FromPretrainedOptions, 'worker' | 'workers'> {
  trainable: true;
  /** Keep only the input of each layer for the backward pass, which runs the layer's forward pass again: less memory, a third more time, the same gradients. Default false. */
  recompute?: boolean;
  /** The dropout rate in training mode at all places at which the model has dropout. Default: the rates of config.json. */
  dropout?: number;
  /** Seed of dropout, an integer from 0 to 2^53 - 1; chosen at random if left out. */
  seed?: number;
}

/** The result of `TrainableModel.forward`. Rows of padding are zeros, and get no gradient. */
export interface ForwardResult {
  /** [N,L,E] */
  lastHiddenState: Tensor;
  /** 1 for tokens, 0 for padding; [N,L] */
  attentionMask: Tensor<Uint8Array>;
  tokens: string[][];
  /** The number of tokens cut from each text. */
  truncated: number[];
}

/** Options of `TrainableModel.sentenceVectors`. */
export interface SentenceVectorOptions extends Omit<EmbedOptions, 'signal' | 'onProgress' | 'headMask'> {}

/**
 * A pretrained encoder whose parameters can be trained. `encode`, `embed` and `predict` compute as in evaluation mode, and are not recorded. `forward`, `sentenceVectors` and
 * `logits` return at once; in training mode dropout draws, and their results can be differentiated like those of layers.
 *
 * Parameters have the names of the checkpoint's files.
 */
export interface TrainableModel extends PretrainedModel, Trainable {
  /** Whether dropout draws and calls are recorded. */
  readonly training: boolean;
  train(): this;
  eval(): this;
  /** The rows of all tokens. */
  forward(input: ModelInput, options?: InputOptions): ForwardResult;
  /** One vector per text, [N, E']: pooled, transformed and normalized as `embed` does it. */
  sentenceVectors(input: ModelInput, options?: SentenceVectorOptions): Tensor;
  /**
   * The logits of one of the checkpoint's heads: [N, labels], or [N, L, labels] for heads of tokens, with zeros for padding; for 'fill-mask' [masks, V], the mask tokens of
   * all texts in order.
   * @throws HeedError `UNSUPPORTED` if the checkpoint has no such head
   */
  logits(head: HeadName, input: ModelInput, options?: InputOptions): Tensor;
  /** Adds low-rank updates to linear modules. Everything else is frozen, but for `modulesToSave`. Fresh updates change no result. @throws HeedError `INVALID_ARGUMENT` */
  addLora(options?: LoraOptions): this;
  /** Adds the updates to the weights, and drops them. The weights stay frozen. */
  mergeLora(): this;
  /** The updates; null if there are none. */
  readonly lora: Lora | null;
  /** Copies of all parameters by name. */
  stateDict(): StateDict;
  /** Sets all parameters. A load that fails changes nothing. */
  loadStateDict(state: Readonly<Record<string, TensorInput>>): this;
}

/** The options beyond those of `fromPretrained` in heed. */
export const trainingSchema = {
  trainable: flag,
  recompute: optional(flag, false),
  dropout: optional(rate, null),
  seed,
};

const schema = { ...loadSchema, ...trainingSchema };

const forwardSchema = {
  textPairs: callSchema.textPairs,
  truncation: callSchema.truncation,
  maxLength: callSchema.maxLength,
};
const { signal: _, onProgress: __, headMask: ___, ...vectorSchema } = embedSchema;

interface TrainingOptions {
  recompute: boolean;
  dropout: number | null;
  seed: number;
}

/** Loads a model to train. `tape` is that of the runtime. */
export function loadTrainable(
  runtime: Runtime,
  tape: Tape,
  source: ModelSource = shippedModel(),
  options: TrainableOptions,
): Promise<TrainableModel> {
  const { trainable: _, recompute, dropout, seed, ...load } = readOptions('fromPretrained', schema, options);
  return loadAs(
    runtime,
    source,
    load as LoadModelOptions,
    undefined,
    (own, loaded, parts, dtype) => new Trained(own, loaded, parts, dtype, tape, { recompute, dropout, seed }),
  );
}

/** A part of the model with parameters: its object in the core, and the names of its parameters in the files. */
interface Part extends HasParameters {
  readonly state: ModuleState;
  /** null: the file has no such parameter, and it is not trained. */
  readonly nameOf: (own: string) => string | null;
}

class Trained extends LocalModel implements TrainableModel {
  readonly #tape: Tape;
  readonly #loaded: LoadedModel;
  readonly #options: TrainingOptions;
  readonly #encoder: Part;
  /** Heads and the layers after the pooling. */
  readonly #others: Part[];
  readonly #names: RawNamedRows[];
  #lora: { readonly part: Part; readonly raw: RawLora; readonly options: Lora } | null = null;
  #training = false;

  constructor(
    runtime: Runtime,
    loaded: LoadedModel,
    parts: Parts,
    dtype: 'fp32' | 'q8' | undefined,
    tape: Tape,
    options: TrainingOptions,
  ) {
    const heads = new HeadLayers();
    super(heads.sharing(runtime), loaded, parts, dtype);
    this.#tape = tape;
    this.#loaded = loaded;
    this.#options = options;
    // All at once: each is made with the values of the file.
    for (const name of Object.keys(HEADS) as HeadName[]) {
      try {
        this.head(name);
      } catch (error) {
        if ((error as HeedError).code === 'OUT_OF_MEMORY') throw error;
      }
    }
    const inFile = (name: string) => loaded.names.get(name) ?? null;
    const part = (raw: RawModule, nameOf?: Part['nameOf']) => this.#part(raw, nameOf);
    this.#others = [
      ...[...heads.made].map(([name, raw]) => part(raw, (own) => inFile(`${name}.${own}`))),
      ...parts.vectorLayers.layers.map((raw, i) => {
        const { weights, kind } = loaded.sentence.layers[i]!;
        const prefix = weights.replace(/model\.safetensors$/, '').replaceAll('/', '.');
        return part(raw, (own) => `${prefix}${kind === 'dense' ? 'linear' : 'norm'}.${own}`);
      }),
    ];
    const rates = dropoutRates(loaded.type, loaded.settings, options.dropout);
    this.#names = namesOf(loaded);
    const encoder = calling('fromPretrained', () => new tape.core.TrainableEncoder(parts.encoder, this.#names, rates));
    tracked(tape, 'TrainableEncoder', encoder);
    encoder.seed(options.seed);
    this.#encoder = part(encoder);
    this.parameters(); // freezes what the file does not have
    const { delete: free, begin } = parts.encoder;
    parts.encoder.begin = (ids, tokenTypes, positions, lengths) =>
      this.#lora
        ? tape.core.beginEncoding(encoder, this.#lora.raw, { ids, tokenTypes, positions, lengths })
        : begin.call(parts.encoder, ids, tokenTypes, positions, lengths);
    parts.encoder.delete = () => {
      this.#lora?.raw.delete();
      encoder.delete();
      // After it, as it may wait for a backward pass.
      tape.whenIdle(() => free.call(parts.encoder));
    };
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
    return this.#parts.flatMap((part) => parametersOf(this.#tape, part, part.nameOf));
  }

  freeze(pattern?: NamePattern): this {
    return setRequired(this, 'model.freeze', pattern, false);
  }

  unfreeze(pattern?: NamePattern): this {
    return setRequired(this, 'model.unfreeze', pattern, true);
  }

  get lora(): Lora | null {
    return this.#lora && this.#lora.options;
  }

  addLora(given?: LoraOptions): this {
    const { core } = this.#tape;
    const { encoder } = this.raw;
    if (this.#lora)
      throw invalid('addLora', 'a model without updates', 'one with updates', 'INVALID_ARGUMENT', {
        hint: 'Call mergeLora() first',
      });
    this.#requireTrainable('addLora');
    const { chosen, seed, ...options } = readLora(
      given,
      this.#names,
      encoder.parameters().map(({ name }) => name),
    );
    for (const parameter of this.parameters()) parameter.requiresGrad = isIn(parameter.name, options.modulesToSave);
    const raw = calling('addLora', () => new core.Lora(this.#encoder.raw, chosen, options));
    tracked(this.#tape, 'Lora', raw);
    raw.initialize(seed);
    raw.seed(seed);
    this.#changes(raw);
    const modules = chosen.map(({ name }) => name);
    this.#lora = { part: this.#part(raw), raw, options: Object.freeze({ ...options, modules }) };
    return this;
  }

  mergeLora(): this {
    void this.raw;
    if (!this.#lora)
      throw invalid('mergeLora', 'a model with updates', 'one without', 'INVALID_ARGUMENT', {
        hint: 'Call addLora() first',
      });
    const { raw } = this.#lora;
    this.#tape.requireIdle();
    calling('mergeLora', () => raw.merge());
    this.#encoder.state.version++;
    this.#lora = null;
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
    const writes = fitState(argument, listed, state);
    calling(argument, () => {
      for (const { index, firstRow, bytes } of writes) {
        const { raw, index: own } = listed[index]!;
        raw.writeParameter(own, firstRow, bytes, 'F32', null);
      }
    });
    return this;
  }

  forward(input: ModelInput, options?: InputOptions): ForwardResult {
    const rows = this.#rows('forward', input, readOptions('forward', forwardSchema, options));
    const width = longest(rows);
    const [columns, shape] = [columnsOf(rows, width), [rows.length, width]];
    const last = this.#record('forward', rows, (call, hidden) =>
      this.#tape.core.recordScatterRows(call.graph, hidden, columns, [...shape, this.config.embedDim]),
    );
    const mask = new Uint8Array(rows.length * width);
    for (const column of columns) mask[column] = 1;
    const { tokens, truncated } = listsOf(rows);
    return {
      lastHiddenState: last,
      attentionMask: new Tensor(mask, shape),
      tokens,
      truncated,
    };
  }

  sentenceVectors(input: ModelInput, options?: SentenceVectorOptions): Tensor {
    const name = 'sentenceVectors';
    const read = readOptions(name, vectorSchema, options);
    const { layers, pooling: configured, normalize: normalizes } = this.#loaded.sentence;
    const { pooling = configured, normalize = normalizes, dimensions } = read;
    if (layers.length > 0 && pooling.length !== configured.length) {
      const expected = `a list of ${configured.length}, as the layers after the pooling require`;
      throw invalid(`${name}.pooling`, expected, pooling.join(', '));
    }
    const full = layers.at(-1)?.outFeatures ?? pooling.length * this.config.embedDim;
    if (dimensions && dimensions > full)
      throw invalid(`${name}.dimensions`, `a whole number from 1 to ${full}`, String(dimensions));
    const prompt = this.prompt(read);
    const rows = this.#rows(name, input, read, prompt);
    const skipped = typeof input === 'object' && !isTexts(input) ? 0 : this.tokensOf(prompt);
    const { core } = this.#tape;
    const pooled = this.#record(name, rows, (call, hidden) => {
      const parts = pooling.map((mode) => call.keep(this.#pool(call, hidden, rows, mode, skipped)));
      return core.recordConcatenate(call.graph, parts, 1);
    });
    const vectors = this.#throughLayers(this.raw.vectorLayers.layers, pooled);
    return this.#run(name, (call) => {
      let x = call.input('x', vectors);
      if (dimensions && dimensions < full) x = call.keep(core.recordSlice(call.graph, x, 1, 0, dimensions));
      if (normalize) x = call.keep(core.recordNormalize(call.graph, x));
      return core.recordReshape(call.graph, x, [rows.length, dimensions ?? full]);
    });
  }

  logits(head: HeadName, input: ModelInput, options?: InputOptions): Tensor {
    const task = oneOf(Object.keys(HEADS) as HeadName[])(head, 'logits: head');
    const rows = this.#rows('logits', input, readOptions('logits', forwardSchema, options));
    const { chain, isTied, bias } = this.head(task);
    const { core } = this.#tape;
    const kind = HEADS[task];
    const picked = this.#record('logits', rows, (call, hidden) => {
      if (kind === 'pooled') return this.#pool(call, hidden, rows, this.classPooling, 0);
      const all = rows.flatMap(({ ids }) => ids);
      const indices = all.map((_, i) => i).filter((i) => kind === 'tokens' || all[i] === this.#maskId());
      return core.recordGatherRows(call.graph, hidden, Int32Array.from(indices));
    });
    const output = this.#throughLayers(chain.layers, picked);
    const width = longest(rows);
    return this.#run('logits', (call) => {
      const x = call.input('x', output);
      if (kind === 'tokens')
        return core.recordScatterRows(call.graph, x, columnsOf(rows, width), [rows.length, width, output.shape[1]!]);
      if (!isTied) return core.recordReshape(call.graph, x, output.shape);
      const words = core.recordWordLogits(call.graph, this.#encoder.raw, x);
      if (!bias) return words;
      const added = call.keep(call.graph.leaf({ data: bias, shape: [bias.length] }, false));
      return core.recordAdd(call.graph, call.keep(words), added);
    });
  }

  get #parts(): Part[] {
    return [this.#encoder, ...this.#others, ...(this.#lora ? [this.#lora.part] : [])];
  }

  #part(raw: RawModule, nameOf: Part['nameOf'] = (own) => own): Part {
    const get = () => {
      void this.raw;
      return raw;
    };
    return Object.defineProperty({ state: this.#tape.stateOf(raw), nameOf } as Part, 'raw', { get });
  }

  /** Passes of the encoder use the parameters of `raw`, too. */
  #changes(raw: RawModule): void {
    const { state } = this.#encoder;
    for (const name of ['writeParameter', 'initialize'] as const) {
      const change = raw[name] as (...args: unknown[]) => void;
      Object.assign(raw, {
        [name]: (...args: unknown[]) => {
          change.apply(raw, args);
          state.version++;
        },
      });
    }
  }

  #requireTrainable(name: string): void {
    const { dtype } = this.config;
    if (dtype === 'fp32') return;
    throw invalid(name, "a model of dtype 'fp32'", `'${dtype}'`, 'UNSUPPORTED', {
      hint: 'int8 weights cannot be trained; embed() and encode() give features to train other layers on',
    });
  }

  #maskId(): number | undefined {
    const { maskToken } = this.config;
    return maskToken === null ? undefined : this.context.tokenizer!.idOf(maskToken);
  }

  #rows(name: string, input: ModelInput, options: InputOptions, prompt = ''): Row[] {
    void this.raw;
    this.#requireTrainable(name);
    const given = readInput(input);
    requireTexts(given, options);
    return [...rowsOf(given, { ...options, prompt }, this.context)];
  }

  /** Runs the encoder; `use` makes the result of its hidden rows [T,E]. */
  #record(name: string, rows: Row[], use: (call: Recording, hidden: RawVariable) => RawVariable): Tensor {
    const { core } = this.#tape;
    const batch = batchOf(rows, this.context.config.positionOffset);
    const options = { training: this.#training, recompute: this.#options.recompute };
    return this.#run(name, (call) => {
      const lora = this.#lora && this.#lora.raw;
      return use(call, call.keep(core.recordEncoderModel(call.graph, this.#encoder.raw, lora, batch, options)));
    });
  }

  /** Runs a call that uses the encoder's parameters, or follows one that does. */
  #run(name: string, body: (call: Recording) => RawVariable): Tensor {
    const { state } = this.#encoder;
    const others = this.#lora ? [this.#lora.part.state] : [];
    return this.#inMode([state], () =>
      calling(name, () => this.#tape.run(state, (call) => toResult(this.#tape, call.output(body(call))), others)),
    );
  }

  #pool(call: Recording, hidden: RawVariable, rows: Row[], mode: string, skipped: number): RawVariable {
    const lengths = Int32Array.from(rows, ({ ids }) => ids.length);
    const skips = skipped > 0 ? new Int32Array(rows.length).fill(skipped) : null;
    return this.#tape.core.recordPool(call.graph, hidden, lengths, skips, mode);
  }

  #throughLayers(layers: readonly RawTensorLayer[], x: RawTensor): RawTensor {
    const states = layers.map((layer) => this.#tape.stateOf(layer));
    return this.#inMode(states, () => layers.reduce((rows, layer) => layer.forward(rows), x));
  }

  /** Modules are in training mode only during the calls that are to be recorded: `embed` and `predict` use the same. */
  #inMode<T>(states: readonly ModuleState[], body: () => T): T {
    for (const state of states) state.training = this.#training;
    try {
      return body();
    } finally {
      for (const state of states) state.training = false;
    }
  }
}

/** The names that the checkpoint's tensors give to rows of the core's parameters. */
function namesOf({ raw, family, config, names }: LoadedModel): RawNamedRows[] {
  const parameters = raw.parameters();
  const indices = new Map(parameters.map(({ name }, i) => [name, i]));
  const all = [...parameterRowsOf(family, config)].flatMap(([bare, { parameter, firstRow }]) => {
    const name = names.get(bare);
    const index = indices.get(parameter);
    return name === undefined || index === undefined ? [] : [{ name, parameter: index, firstRow, rows: 0 }];
  });
  for (const rows of all) {
    const next = all.flatMap(({ parameter, firstRow }) =>
      parameter === rows.parameter && firstRow > rows.firstRow ? [firstRow] : [],
    );
    rows.rows = Math.min(parameters[rows.parameter]!.shape[0]!, ...next) - rows.firstRow;
  }
  return all;
}

/** The position of each token among the rows of a padded output [N,L,...]. */
function columnsOf(rows: readonly Row[], width: number): Int32Array {
  return Int32Array.from(rows.flatMap(({ columns }, n) => columns.map((column) => n * width + column)));
}

/** Makes the layers of heads, each once: several heads may have a layer of the checkpoint, which they train together. */
class HeadLayers {
  /** By their names in the checkpoint. */
  readonly made = new Map<string, RawTensorLayer>();
  readonly #uses = new Map<RawTensorLayer, number>();

  /** A runtime whose linear and norm layers are shared. */
  sharing(runtime: Runtime): Runtime {
    const layers = this;
    return Object.create(runtime, {
      core: {
        get: () => {
          const core = Object.create(runtime.core) as TrainCore;
          for (const kind of ['Linear', 'LayerNorm'] as const) {
            const Raw = runtime.core[kind] as unknown as new (options: object) => RawTensorLayer;
            // biome-ignore lint/complexity/useArrowFunction: called with `new`
            const Shared = function (options: { name: string }) {
              return layers.#layer(options.name, () => new Raw(options));
            };
            Object.defineProperty(core, kind, { value: Shared });
          }
          return core;
        },
      },
    });
  }

  #layer(name: string, make: () => RawTensorLayer): RawTensorLayer {
    const raw = this.made.get(name) ?? make();
    if (!this.made.has(name)) {
      const { delete: free } = raw;
      raw.delete = () => {
        const uses = this.#uses.get(raw)! - 1;
        this.#uses.set(raw, uses);
        if (uses > 0) return;
        this.made.delete(name);
        free.call(raw);
      };
      this.made.set(name, raw);
    }
    this.#uses.set(raw, (this.#uses.get(raw) ?? 0) + 1);
    return raw;
  }
}
