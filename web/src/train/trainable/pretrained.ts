/**
 * Pretrained encoders that can be trained: `fromPretrained` with `trainable: true`. Notation: N texts, L tokens of the
 * longest text, T total number of tokens, E width.
 */
import { calling, invalid } from '../../base/error.js';
import { oneOf, readOptions } from '../../base/options.js';
import type { Runtime } from '../../base/owned.js';
import { siteSchema } from '../../base/site-options.js';
import { Tensor } from '../../base/tensor.js';
import type { RawSites, RawTensor, RawTensorLayer } from '../../base/wasm/core.js';
import { shippedModel } from '../../base/wasm/shipped.js';
import { toResult } from '../graph/loss.js';
import type { SiteActivation } from '../graph/recorded-sites.js';
import type { ModuleState, Recording } from '../graph/scope.js';
import type { Tape } from '../graph/tape.js';
import type { RawVariable } from '../graph/train-core.js';
import {
  allRows,
  batchOf,
  callSchema,
  embedSchema,
  HEADS,
  type HeadName,
  type InputOptions,
  type LoadModelOptions,
  listsOf,
  loadAs,
  loadSchema,
  longest,
  type ModelInput,
  type ModelSource,
  promptOf,
  type Row,
  readInput,
  requireRows,
  requireTexts,
  rowsOf,
  skippedTokens,
  vectorForm,
} from '../inference.js';
import {
  type ForwardOptions,
  type ForwardResult,
  type SentenceVectorOptions,
  type TrainableModel,
  type TrainableOptions,
  trainingSchema,
} from './trainable-model.js';
import { TrainedParts } from './trained-parts.js';

const schema = { ...loadSchema, ...trainingSchema };

const inputSchema = {
  textPairs: callSchema.textPairs,
  truncation: callSchema.truncation,
  maxLength: callSchema.maxLength,
};
const forwardSchema = { ...inputSchema, ...siteSchema };
const { signal: _, onProgress: __, headMask: ___, output: ____, edit: _____, ...vectorSchema } = embedSchema;

class Trained extends TrainedParts implements TrainableModel {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'TrainableModel';

  forward(input: ModelInput, options?: ForwardOptions): ForwardResult {
    const given = readOptions('forward', forwardSchema, options);
    const rows = this.#rows('forward', input, given);
    const sites = this.sites('forward', given, rows);
    const width = longest(rows);
    const [columns, shape] = [columnsOf(rows, width), [rows.length, width]];
    const scattered = (call: Recording, hidden: RawVariable) =>
      this.tape.core.recordScatterRows(call.graph, hidden, columns, [...shape, this.config.embedDim]);
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
    const { pooling, normalize, width, full } = vectorForm(name, this.sentence, this.config, read);
    const prompt = promptOf(this.sentence, read);
    const rows = this.#rows(name, input, read, prompt);
    const skipped = skippedTokens(input, prompt, this.sentence, this.context);
    const { core } = this.tape;
    const pooled = this.#record(name, rows, (call, hidden) => {
      const parts = pooling.map((mode) => call.keep(this.#pool(call, hidden, rows, mode, skipped)));
      return core.recordConcatenate(call.graph, parts, 1);
    });
    const vectors = this.#throughLayers(this.raw.vectorLayers.layers, pooled);
    return this.#run(name, (call) => {
      let x = call.input('x', vectors);
      if (width < full) x = call.keep(core.recordSlice(call.graph, x, 1, 0, width));
      if (normalize) x = call.keep(core.recordNormalize(call.graph, x));
      return core.recordReshape(call.graph, x, [rows.length, width]);
    });
  }

  logits(head: HeadName, input: ModelInput, options?: InputOptions): Tensor {
    const task = oneOf(Object.keys(HEADS) as HeadName[])(head, 'logits: head');
    const read = readOptions('logits', inputSchema, options);
    const rows = this.#rows('logits', input, read);
    const { chain, isTied, takesVectors } = this.head(task);
    const { core } = this.tape;
    const kind = HEADS[task];
    const pick = (call: Recording, hidden: RawVariable) => {
      if (kind === 'pooled') return this.#pool(call, hidden, rows, this.classPooling, 0);
      const all = rows.flatMap(({ ids }) => ids);
      const indices = all.map((_, i) => i).filter((i) => kind === 'tokens' || all[i] === this.#maskId());
      return core.recordGatherRows(call.graph, hidden, Int32Array.from(indices));
    };
    const picked = takesVectors ? this.sentenceVectors(input, read) : this.#record('logits', rows, pick);
    const output = this.#throughLayers(chain.layers, picked);
    const count = output.shape[0]!;
    const zeros = { data: new Float32Array(count), shape: [count, 1] };
    const bias = isTied && this.wordBias ? this.#throughLayers([this.wordBias], zeros) : null;
    const width = longest(rows);
    return this.#run('logits', (call) => {
      const x = call.input('x', output);
      if (kind === 'tokens')
        return core.recordScatterRows(call.graph, x, columnsOf(rows, width), [rows.length, width, output.shape[1]!]);
      if (!isTied) return core.recordReshape(call.graph, x, output.shape);
      const words = core.recordWordLogits(call.graph, this.encoder.state.inner, x);
      return bias ? core.recordAdd(call.graph, call.keep(words), call.input('bias', bias)) : words;
    });
  }

  #maskId(): number | undefined {
    const { maskToken } = this.config;
    return maskToken === null ? undefined : this.context.tokenizer!.idOf(maskToken);
  }

  #rows(name: string, input: ModelInput, options: InputOptions, prompt = ''): Row[] {
    void this.raw;
    this.requireTrainable(name);
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
    const { core } = this.tape;
    requireRows(rows, this.context, 0);
    const batch = batchOf(rows, this.context.config.positionOffset);
    const options = { training: this.training, recompute: this.options.recompute };
    const { inner } = this.encoder.state;
    const body = (call: Recording) =>
      call.withSites(sites, (raw) =>
        use(call, call.keep(core.recordEncoderModel(call.graph, inner, batch, options, raw))),
      );
    return this.#run(name, body, [sites], (sites?.reads.length ?? 0) > 0);
  }

  /** Runs a call that uses the encoder's parameters, or one that depends on such a call. */
  #run(
    name: string,
    body: (call: Recording) => RawVariable,
    args: readonly unknown[] = [],
    isRecorded = false,
  ): Tensor {
    const { state } = this.encoder;
    const others = this.adapters ? [this.adapters] : [];
    const run = (call: Recording) => toResult(this.tape, call.output(body(call)));
    return this.#inMode([state], () => calling(name, () => this.tape.run(state, run, others, args, isRecorded)));
  }

  #pool(call: Recording, hidden: RawVariable, rows: Row[], mode: string, skipped: number): RawVariable {
    const lengths = Int32Array.from(rows, ({ ids }) => ids.length);
    const skips = skipped > 0 ? new Int32Array(rows.length).fill(skipped) : null;
    return this.tape.core.recordPool(call.graph, hidden, lengths, skips, mode);
  }

  #throughLayers(layers: readonly RawTensorLayer[], x: RawTensor): RawTensor {
    const dropout = this.dropout;
    const states = [dropout, ...layers].map((layer) => this.tape.stateOf(layer));
    return this.#inMode(states, () => {
      dropout.setTraining(this.training);
      return layers.reduce((rows, layer) => {
        const drops = this.training && this.classifiers.includes(layer);
        return layer.forward({ x: drops ? dropout.forward({ x: rows }) : rows });
      }, x);
    });
  }

  /** Modules are in training mode only during recorded calls, because `embed` and `predict` use the same modules. */
  #inMode<T>(states: readonly ModuleState[], body: () => T): T {
    const { owner } = this.tape;
    this.tape.owner = this;
    const before = states.map(({ training }) => training); // true if this runs in a callback of another call
    for (const state of states) state.training = this.training;
    try {
      return body();
    } finally {
      for (const [i, state] of states.entries()) state.training = before[i]!;
      this.tape.owner = owner;
    }
  }
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
  return loadAs(runtime, source, load as LoadModelOptions, undefined, (own, loaded, parts) => {
    if (loaded.family.images)
      throw invalid('fromPretrained.trainable', 'a text model', `'${loaded.type}'`, 'UNSUPPORTED');
    if (loaded.gliner)
      throw invalid('fromPretrained.trainable', 'a folder with config.json', 'a GLiNER folder', 'UNSUPPORTED');
    return new Trained(own, loaded, parts, tape, { recompute, dropout, seed });
  });
}
