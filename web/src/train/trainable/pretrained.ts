/**
 * Pretrained encoders that can be trained: `fromPretrained` with `trainable: true`. Notation: N texts, L tokens of the
 * longest text, T total number of tokens, E width.
 */

import { isOwnActivation } from '../../base/activations.js';
import { calling, type HeedError, invalid } from '../../base/error.js';
import { requireIdle } from '../../base/in-progress.js';
import { oneOf, readOptions } from '../../base/options.js';
import type { RawObject, Runtime } from '../../base/owned.js';
import { siteSchema } from '../../base/site-options.js';
import { Tensor, type TensorInput } from '../../base/tensor.js';
import type { RawModule, RawSites, RawTensor, RawTensorLayer } from '../../base/wasm/core.js';
import { shippedModel } from '../../base/wasm/shipped.js';
import type { ModelSource } from '../../io/source.js';
import { allLayers } from '../../layers/composition/composite.js';
import { type StateDict, writeState } from '../../layers/state-dict.js';
import { loadAs } from '../../loading/load-pretrained.js';
import { callSchema, embedSchema, loadSchema, requireTexts } from '../../models/call-options.js';
import { listsOf } from '../../models/encode-outputs.js';
import { promptOf } from '../../models/families/sentence-transformers.js';
import { finalNormalize, layersIn, type Step, scoreLayers, VECTORS, vectorSteps } from '../../models/families/steps.js';
import { skippedTokens, vectorForm } from '../../models/heads/pooling.js';
import type { StepOptions } from '../../models/heads/step-values.js';
import { poolsEncoder } from '../../models/heads/steps.js';
import { HEADS, type HeadName, wordBiasNames } from '../../models/heads/task-heads.js';
import {
  allRows,
  type InputOptions,
  longest,
  type ModelInput,
  type Row,
  readInput,
  rowsOf,
} from '../../models/input.js';
import type { LoadedModel, LoadOptions } from '../../models/loaded-model.js';
import type { Parts } from '../../models/parts.js';
import { LocalModel } from '../../models/pretrained.js';
import { batchOf, replaced, requireRows } from '../../models/run.js';
import { toResult } from '../graph/loss.js';
import { type NamePattern, type Parameter, parametersOf } from '../graph/parameters.js';
import { RecordedModule } from '../graph/recorded-module.js';
import type { SiteActivation } from '../graph/recorded-sites.js';
import type { Recording } from '../graph/recording.js';
import type { Tape } from '../graph/tape.js';
import type { RawLora, RawNamedRows, RawVariable } from '../graph/train-core.js';
import { dropoutRates } from './dropout-rates.js';
import { HeadLayers, makeWordBias } from './head-layers.js';
import { isIn, type Lora, type LoraOptions, readLora } from './lora.js';
import { namedRowsOf } from './named-rows.js';
import { setRequired } from './trainable.js';
import {
  type ForwardOptions,
  type ForwardResult,
  type SentenceVectorOptions,
  type TrainableModel,
  type TrainableOptions,
  trainingSchema,
} from './trainable-model.js';

const schema = { ...loadSchema, ...trainingSchema };

const inputSchema = {
  textPairs: callSchema.textPairs,
  truncation: callSchema.truncation,
  maxLength: callSchema.maxLength,
};
const forwardSchema = { ...inputSchema, ...siteSchema };
const { signal: _, onProgress: __, headMask: ___, output: ____, edit: _____, ...vectorSchema } = embedSchema;

/** A part of the model that has parameters: its raw object, and the names of its parameters in the files. */
interface Part {
  readonly raw: RawModule;
  readonly name: string;
  /** The prefix of its parameters' names in training checkpoints. */
  readonly prefix: string;
  readonly state: RecordedModule;
  /** Returns a parameter's name in the file, or null if the file does not contain it; it is then not trained. */
  readonly nameOf: (own: string) => string | null;
}

/** A pretrained encoder in this thread whose parameters can be trained. */
class LocalTrainableModel extends LocalModel implements TrainableModel {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'TrainableModel';

  readonly #tape: Tape;
  readonly #options: { readonly recompute: boolean };
  readonly #encoder: Part;
  /** The heads and the layers after the pooling. */
  readonly #others: Part[];
  readonly #names: RawNamedRows[];
  #lora: { readonly part: Part; readonly raw: RecordedModule<RawLora>; readonly options: Lora } | null = null;
  /** Has no reference to the model, because the raw objects must not hold one. */
  readonly #attached: { lora: RawModule | null } = { lora: null };
  /** The dropout on the classifier's inputs. */
  readonly #dropout: RawTensorLayer;
  readonly #classifiers: readonly RawModule[];
  /**
   * The bias of an MLM decoder that is tied to the token embeddings, stored as the bias of a linear layer whose inputs
   * are zeros.
   */
  readonly #wordBias: RawTensorLayer | null;
  #training = false;

  constructor(
    runtime: Runtime,
    loaded: LoadedModel,
    parts: Parts,
    tape: Tape,
    options: { recompute: boolean; dropout: number | null; seed: number },
  ) {
    const steps = vectorSteps(loaded.sentence.steps);
    const scores = scoreLayers(loaded.sentence.steps);
    requireTrainable([...steps, ...scores]);
    if (parts.steps.readsStates) throw needsLastStates('those of several layers, as WeightedLayerPooling does');
    const { classifier, ...rates } = dropoutRates(loaded.type, loaded.settings, options.dropout);
    const heads = new HeadLayers();
    super(heads.sharing(runtime), loaded, parts);
    this.#tape = tape;
    this.#options = options;
    // Make all heads now, because each is initialized with the values of the file.
    for (const name of Object.keys(HEADS) as HeadName[]) {
      try {
        this.head(name);
      } catch (error) {
        if ((error as HeedError).code === 'OUT_OF_MEMORY') throw error;
      }
    }
    this.#wordBias = makeWordBias(this.raw.heads.get('fill-mask'), this.headContext);
    const head = parts.heads.get('sequence-classification');
    const onVectors = head?.takesVectors ? head.chain.layers : [];
    const inModules = [...layersIn(steps), ...scores];
    const biases = wordBiasNames(loaded.type);
    const readBias = biases.find((name) => loaded.names.has(name));
    const inFile = (name: string) => loaded.names.get((biases.includes(name) && readBias) || name) ?? null;
    this.#others = [
      ...[...heads.made].map(([name, raw]) => this.#part(raw, `${name}.`, (own) => inFile(`${name}.${own}`))),
      ...[...parts.steps.layers, ...onVectors].map((raw, i) => {
        const { path, kind } = inModules[i]!;
        return this.#part(raw, `${path.replaceAll('/', '.')}.${kind === 'dense' ? 'linear' : 'norm'}.`);
      }),
    ];
    this.#classifiers = [...heads.made].flatMap(([name, raw]) => (name.startsWith('classifier') ? [raw] : []));
    this.#names = namedRowsOf(loaded);
    const { encoder } = parts;
    const { core } = tape;
    const raw = calling('fromPretrained', () => new core.TrainableEncoder(encoder, this.#names, rates));
    const trained = new RecordedModule(tape, 'TrainableEncoder', raw);
    const attached = this.#attached;
    const dropout = new runtime.calls.Dropout({ p: classifier, scaling: 'inverted' });
    // Heads may be replaced, but the parameters of their layers remain the model's.
    const kept = [...heads.made.values(), ...onVectors].map((layer) => tape.stateOf(layer).retain());
    const others = [...kept, ...(this.#wordBias ? [this.#wordBias] : []), dropout];
    parts.deleteEncoder = deletion(others, attached, [trained, encoder]);
    trained.seed(options.seed);
    dropout.seed(options.seed);
    this.#dropout = dropout;
    this.#encoder = this.#part(trained);
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
    return this.#parts.flatMap((part) => parametersOf(this.#tape, part, part.nameOf));
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
    const { core } = this.#tape;
    if (this.#lora) {
      const got = `a model with one of rank ${this.#lora.options.rank}`;
      const hint = 'Call mergeLora() first';
      throw invalid('addLora', 'a model without a LoRA adapter', got, 'INVALID_ARGUMENT', { hint });
    }
    requireIdle('addLora', [this.raw.encoder]);
    const { chosen, seed, ...options } = this.#readLora(given);
    const made = calling('addLora', () => new core.Lora(this.#encoder.state.inner, chosen, options));
    const raw = new RecordedModule(this.#tape, 'Lora', made, this.#encoder.state);
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
    this.#requireTrainable('addLora');
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
    this.#tape.requireNoPass();
    requireIdle('mergeLora', [this.raw.encoder]);
    calling('mergeLora', () => raw.inner.merge());
    this.#encoder.state.version++;
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
    return [this.#encoder, ...this.#others, ...(this.#lora ? [this.#lora.part] : [])];
  }

  #part(raw: RawModule, prefix = '', nameOf: Part['nameOf'] = (own) => prefix + own): Part {
    const state = this.#tape.stateOf(raw);
    const get = () => {
      void this.raw; // throws after dispose()
      return raw;
    };
    return Object.defineProperty({ name: state.name, prefix, state, nameOf } as Part, 'raw', { get });
  }

  /** @internal The parts of the model, for training checkpoints. */
  [allLayers](): [Part, string][] {
    return [...this.#parts, this.#part(this.#dropout, 'dropout.')].map((part) => [part, part.prefix]);
  }

  #requireTrainable(name: string): void {
    const { dtype } = this.config;
    if (dtype === 'fp32') return;
    throw invalid(name, "a model of dtype 'fp32'", `'${dtype}'`, 'UNSUPPORTED', {
      hint: 'int8 weights cannot be trained; embed() and encode() give features to train other layers on',
    });
  }

  forward(input: ModelInput, options?: ForwardOptions): ForwardResult {
    const given = readOptions('forward', forwardSchema, options);
    const rows = this.#rows('forward', input, given);
    const sites = this.sites('forward', given, rows);
    const width = longest(rows);
    const [columns, shape] = [columnsOf(rows, width), [rows.length, width]];
    const scattered = (call: Recording, hidden: RawVariable) =>
      this.#tape.core.recordScatterRows(call.graph, hidden, columns, [...shape, this.config.embedDim]);
    const last = this.#record('forward', rows, scattered, sites?.raw(0, rows) ?? null);
    const mask = new Uint8Array(rows.length * width);
    for (const column of columns) mask[column] = 1;
    const { tokens, truncated } = listsOf(rows);
    return {
      lastHiddenState: last,
      attentionMask: new Tensor(mask, shape),
      tokens,
      truncated,
      ...(given.read && { activations: sites!.activations() as Record<string, SiteActivation> }),
    };
  }

  sentenceVectors(input: ModelInput, options?: SentenceVectorOptions): Tensor {
    const name = 'sentenceVectors';
    const read = readOptions(name, vectorSchema, options);
    const { pooling, normalize, width, full, normalizesFirst } = vectorForm(name, this.sentence, this.config, read);
    const prompt = promptOf(this.sentence, read);
    const rows = this.#rows(name, input, read, prompt);
    const skipped = skippedTokens(input, prompt, read, this.sentence, this.context);
    const { core } = this.#tape;
    const vectors = this.#throughSteps(name, rows, { pooling, skipped, unnormalized: true });
    return this.#run(name, (call) => {
      let x = call.input('x', vectors);
      if (normalizesFirst) x = call.keep(core.recordNormalize(call.graph, x));
      if (width < full) x = call.keep(core.recordSlice(call.graph, x, 1, 0, width));
      if (normalize && !normalizesFirst) x = call.keep(core.recordNormalize(call.graph, x));
      return core.recordReshape(call.graph, x, [rows.length, width]);
    });
  }

  logits(head: HeadName, input: ModelInput, options?: InputOptions): Tensor {
    const task = oneOf(Object.keys(HEADS) as HeadName[])(head, 'logits: head');
    const read = readOptions('logits', inputSchema, options);
    const rows = this.#rows('logits', input, read);
    const {
      chain,
      isTied,
      takesVectors,
      value,
      steps,
      pooling = this.classPooling,
      hasGradient,
      poolsLogits,
    } = this.head(task);
    if (hasGradient === false)
      throw invalid('logits: head', 'a head of layers', "the score of a causal model's logits", 'UNSUPPORTED');
    const { core } = this.#tape;
    const kind = HEADS[task];
    const pick = (call: Recording, hidden: RawVariable) => {
      if (kind === 'pooled' && !poolsLogits) return this.#pool(call, hidden, rows, pooling, 0);
      const all = rows.flatMap(({ ids }) => ids);
      const indices = all.map((_, i) => i).filter((i) => kind !== 'masks' || all[i] === this.#maskId());
      return core.recordGatherRows(call.graph, hidden, Int32Array.from(indices));
    };
    const picked = takesVectors ? this.#inputOfHead(input, read, value, steps) : this.#record('logits', rows, pick);
    const output = this.#throughLayers(chain.layers, picked);
    const count = output.shape[0]!;
    const zeros = { data: new Float32Array(count), shape: [count, 1] };
    const bias = isTied && this.#wordBias ? this.#throughLayers([this.#wordBias], zeros) : null;
    const width = longest(rows);
    return this.#run('logits', (call) => {
      const x = call.input('x', output);
      if (poolsLogits) return this.#pool(call, x, rows, 'mean', 0);
      if (kind === 'tokens')
        return core.recordScatterRows(call.graph, x, columnsOf(rows, width), [rows.length, width, output.shape[1]!]);
      if (!isTied) return core.recordReshape(call.graph, x, output.shape);
      const words = core.recordWordLogits(call.graph, this.#encoder.state.inner, x);
      return bias ? core.recordAdd(call.graph, call.keep(words), call.input('bias', bias)) : words;
    });
  }

  /** The value of the folder's steps that a head on vectors takes. */
  #inputOfHead(input: ModelInput, options: InputOptions, value?: string, count?: number): Tensor {
    const { pooling } = vectorForm('logits', this.sentence, this.config);
    const prompt = promptOf(this.sentence);
    const rows = this.#rows('logits', input, options, prompt);
    const skipped = skippedTokens(input, prompt, options, this.sentence, this.context);
    return this.#throughSteps('logits', rows, { pooling, skipped, unnormalized: false }, value, count) as Tensor;
  }

  /** Runs the encoder and the folder's first `count` steps, and returns the value `result`. */
  #throughSteps(
    name: string,
    rows: Row[],
    { pooling, skipped, unnormalized }: StepOptions,
    result = VECTORS,
    count = this.raw.steps.loaded.length,
  ): RawTensor {
    const { core } = this.#tape;
    const all = this.raw.steps.loaded.slice(0, count);
    const left = unnormalized ? finalNormalize(this.raw.steps.loaded.map(({ step }) => step)) : -1;
    const pool = (call: Recording, hidden: RawVariable) => {
      const parts = pooling.map((mode) => call.keep(this.#pool(call, hidden, rows, mode, skipped)));
      return core.recordConcatenate(call.graph, parts, 1);
    };
    const values = new Map<string, RawTensor>();
    const isPooled = poolsEncoder(all.map(({ step }) => step));
    for (const [i, { step, layers }] of all.entries()) {
      if (i === left) continue;
      const { input, output } = step;
      const x = values.get(input)!;
      if (step.kind === 'model') {
        if (isPooled) continue;
        const isPooler = step.from[0] === 'pooler_output';
        const take = (call: Recording, hidden: RawVariable) =>
          isPooler
            ? this.#pool(call, hidden, rows, 'cls', 0)
            : core.recordReshape(call.graph, hidden, this.#shape(rows));
        const taken = this.#record(name, rows, take);
        values.set(output, isPooler ? this.#throughLayers(this.raw.pooler!.layers, taken) : taken);
      } else if (step.kind === 'pooling') {
        const run = (call: Recording) => pool(call, call.input('x', x));
        values.set(output, isPooled ? this.#record(name, rows, pool) : this.#run(name, run));
      } else if (step.kind === 'normalize') {
        values.set(
          output,
          this.#run(name, (call) => core.recordNormalize(call.graph, call.input('x', x))),
        );
      } else values.set(output, this.#throughLayers(layers, x));
    }
    return values.get(result)!;
  }

  /** The shape of the rows of all tokens, [T, E]. */
  #shape(rows: readonly Row[]): number[] {
    return [rows.reduce((sum, { ids }) => sum + ids.length, 0), this.config.embedDim];
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
    return allRows(rowsOf(given, { ...options, prompt }, this.context));
  }

  /**
   * Runs the encoder. `use` computes the result from the hidden states [T,E]. If sites are read, the call is recorded
   * in evaluation mode, too, so that the sites have gradients.
   */
  #record(
    name: string,
    rows: Row[],
    use: (call: Recording, hidden: RawVariable) => RawVariable,
    sites: RawSites | null = null,
  ): Tensor {
    const { core } = this.#tape;
    const read = replaced(rows, this.context);
    requireRows(read, this.context, 0);
    const batch = batchOf(read, this.context);
    const options = { training: this.training, recompute: this.#options.recompute };
    const { inner } = this.#encoder.state;
    const body = (call: Recording) => {
      const recorded = call.sites(sites);
      const hidden = core.recordEncoderModel(call.graph, inner, batch, options, recorded?.raw ?? null);
      const result = use(call, call.keep(hidden));
      recorded?.finish();
      return result;
    };
    return this.#run(name, body, [sites], (sites?.reads.length ?? 0) > 0);
  }

  /** Runs a call that uses the encoder's parameters, or one that depends on such a call. */
  #run(
    name: string,
    body: (call: Recording) => RawVariable,
    args: readonly unknown[] = [],
    isRecorded = false,
  ): Tensor {
    const { state } = this.#encoder;
    const others = this.#lora ? [this.#lora.part.state] : [];
    const run = (call: Recording) => toResult(this.#tape, call.output(body(call)));
    return this.#inMode([state], () =>
      calling(name, () =>
        isRecorded || this.#tape.records(state, args) ? this.#tape.record(state, run, others) : this.#tape.compute(run),
      ),
    );
  }

  #pool(call: Recording, hidden: RawVariable, rows: Row[], mode: string, skipped: number): RawVariable {
    const lengths = Int32Array.from(rows, ({ ids }) => ids.length);
    if (mode === 'cls' && skipped > 0) {
      // The first token that is not skipped, or that of a text whose tokens all are, as in `poolTokens`.
      let first = 0;
      const indices = lengths.map((length) => {
        first += length;
        return first - length + (skipped < length ? skipped : 0);
      });
      return this.#tape.core.recordGatherRows(call.graph, hidden, indices);
    }
    const skips = skipped > 0 ? new Int32Array(rows.length).fill(skipped) : null;
    return this.#tape.core.recordPool(call.graph, hidden, lengths, skips, mode);
  }

  #throughLayers(layers: readonly RawTensorLayer[], x: RawTensor): RawTensor {
    const dropout = this.#dropout;
    const states = [dropout, ...layers].map((layer) => this.#tape.stateOf(layer));
    return this.#inMode(states, () => {
      dropout.setTraining(this.training);
      return layers.reduce((rows, layer) => {
        const drops = this.training && this.#classifiers.includes(layer);
        return layer.forward({ x: drops ? dropout.forward({ x: rows }) : rows });
      }, x);
    });
  }

  /** Modules are in training mode only during recorded calls, because `embed` and `predict` use the same modules. */
  #inMode<T>(states: readonly RecordedModule[], body: () => T): T {
    const { owner } = this.#tape;
    this.#tape.owner = this;
    const before = states.map(({ training }) => training); // true if this runs in a callback of another call
    for (const state of states) state.training = this.training;
    try {
      return body();
    } finally {
      for (const [i, state] of states.entries()) state.training = before[i]!;
      this.#tape.owner = owner;
    }
  }
}

/** Makes the error for a folder whose vectors depend on other hidden states than the last. */
const needsLastStates = (got: string) =>
  invalid('fromPretrained.trainable', 'a folder that uses the last hidden states', got, 'UNSUPPORTED');

/** @throws HeedError UNSUPPORTED for steps that have no gradient */
function requireTrainable(steps: readonly Step[]): void {
  const name = 'fromPretrained.trainable';
  for (const step of steps) {
    if (step.kind === 'model' && step.from[0] === 'hidden_states') throw needsLastStates(step.from.join(' '));
    if (step.kind !== 'dense') continue;
    if (step.residual)
      throw invalid(name, 'Dense layers without use_residual', `'${step.path}' with it`, 'UNSUPPORTED');
    if (!isOwnActivation(step.activation)) {
      const expected = "Dense layers with activations of heed's linear layers";
      throw invalid(name, expected, `'${step.path}' with ${step.activation}`, 'UNSUPPORTED');
    }
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

/** The index of each token among the rows of a padded output [N,L,...]. */
function columnsOf(rows: readonly Row[], width: number): Int32Array {
  return Int32Array.from(rows.flatMap(({ columns }, n) => columns.map((column) => n * width + column)));
}

/** Loads a model for training. `tape`: the tape of the runtime. */
export function loadTrainable(
  runtime: Runtime,
  tape: Tape,
  source: ModelSource = shippedModel(),
  options: TrainableOptions,
): Promise<TrainableModel> {
  const { trainable: _, recompute, dropout, seed, ...load } = readOptions('fromPretrained', schema, options);
  return loadAs(runtime, source, { ...(load as LoadOptions), isTrained: true }, undefined, (own, loaded, parts) => {
    if (loaded.family.images)
      throw invalid('fromPretrained.trainable', 'a text model', `'${loaded.type}'`, 'UNSUPPORTED');
    if (loaded.gliner)
      throw invalid('fromPretrained.trainable', 'a folder with config.json', 'a GLiNER folder', 'UNSUPPORTED');
    if (loaded.sentence.routes)
      throw invalid('fromPretrained.trainable', 'a folder without a Router', 'a folder with one', 'UNSUPPORTED');
    return new LocalTrainableModel(own, loaded, parts, tape, { recompute, dropout, seed });
  });
}
