/** A loaded model and the first steps of its calls: reading options, making rows, planning sites. */
import { invalid } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { Owned, type Runtime } from '../base/owned.js';
import { planSites, type SitePlan } from '../base/site-plan.js';
import { encoderSizes } from '../base/sites.js';
import { elementCount } from '../base/tensor.js';
import type { RawEncoderModelConfig } from '../base/wasm/core.js';
import { headMaskRows, type OptionsOf, readCall, requireTexts, type TextMethod } from './call-options.js';
import { layerConfig, outputWidth } from './families/family.js';
import { modelConfig, taskSettings } from './families/model-config.js';
import type { SentenceConfig } from './families/sentence-config.js';
import type { Pooling } from './families/steps.js';
import { vectorForm } from './heads/pooling.js';
import { type Head, type HeadContext, type HeadName, makeHead, makePooler } from './heads/task-heads.js';
import {
  type InputContext,
  isTexts,
  longest,
  type ModelInput,
  positionLimit,
  type Row,
  type RowOptions,
  type RowSteps,
  rowsOf,
} from './input.js';
import type { LoadedModel } from './loaded-model.js';
import type { ModelConfig } from './model.js';
import type { Parts } from './parts.js';
import { adaptersFor } from './prompts.js';
import type { PieceOptions, RunContext } from './run.js';
import { STATIC } from './static-embedding.js';

/** The part of a pretrained encoder in this thread that its calls and its heads use. */
export class RunnableModel extends Owned<Parts> {
  readonly config: ModelConfig;
  /** @internal */
  readonly encoderConfig: RawEncoderModelConfig;
  /** @internal */
  readonly sentence: SentenceConfig;
  /** @internal */
  readonly context: InputContext;
  /** @internal */
  readonly runContext: RunContext;
  /** @internal */
  readonly headContext: HeadContext;
  /** @internal */
  readonly classPooling: Pooling;
  /** The tasks with adapters. */
  protected readonly tasks: readonly string[];

  constructor(runtime: Runtime, loaded: LoadedModel, parts: Parts) {
    super('PretrainedModel', runtime, parts);
    const {
      config,
      settings,
      tokenizer,
      sentence,
      family,
      type,
      heads: tensors,
      otherDecoder,
      replacedTokens,
    } = loaded;
    const { eps } = config;
    this.encoderConfig = config;
    this.sentence = sentence;
    const { texts } = sentence;
    const maxLength = Math.min(positionLimit(config), texts.maxLength ?? tokenizer?.maxLength ?? Infinity);
    const { padId, classPooling, tasks } = taskSettings(type, settings, config);
    this.context = { tokenizer, config, maxLength, padId, replacedTokens, texts };
    this.runContext = {
      encoder: () => this.raw.encoder,
      device: () => this.raw.device,
      input: this.context,
      fetchRows: loaded.fetchRows,
    };
    this.headContext = { core: runtime.core, calls: runtime.calls, tensors, settings, type, eps, otherDecoder };
    this.classPooling = classPooling;
    this.tasks = tasks;
    parts.pooler = makePooler(family.pooler, this.headContext);
    const parameterCount = parts.encoder.parameters().reduce((sum, { shape }) => sum + elementCount(shape), 0);
    const { width: dimensions } = vectorForm('embed', sentence, config);
    this.config = modelConfig(loaded, { dimensions, maxLength, parameterCount });
  }

  /** @internal Reads the options of a call. Throws if the model has been disposed of or the signal has fired. */
  begin<M extends TextMethod>(method: M, options: object): [OptionsOf<M>, PieceOptions] {
    void this.raw;
    const call = readCall(method, options);
    const { signal, headMask = null, task } = call as Partial<OptionsOf<'encode'>>;
    const pieceOptions = {
      yieldToEventLoop: makeYield(signal),
      headMask: headMaskRows(headMask, this.encoderConfig),
      sites: null,
      adapters: adaptersFor(task, this.tasks),
    };
    return [call, pieceOptions];
  }

  /** @internal Plans the sites that a call with these rows reads and edits. */
  sites(owner: string, call: Parameters<typeof planSites>[0], rows: readonly Row[]): SitePlan | null {
    return planSites(call, () => {
      if (this.config.family === STATIC)
        throw invalid(owner, 'a model with an encoder for `read` and `edit`', 'static embeddings', 'UNSUPPORTED');
      const config = this.encoderConfig;
      const { numLayers } = config;
      const [count, length] = [rows.length, longest(rows)];
      const output = { ...config, embedDim: outputWidth(config) };
      const sizesOf = (layer: number) =>
        encoderSizes(layer === numLayers ? output : layerConfig(config, layer), count, length);
      return { owner, stacks: [{ numLayers, sizesOf }] };
    });
  }

  /** @internal The rows of a call. If there are edits, tokenizes all rows first. */
  async withSites(
    owner: string,
    call: Parameters<typeof planSites>[0],
    rows: RowSteps,
    options: PieceOptions,
  ): Promise<RowSteps> {
    if (!call.edit) return rows;
    const all = await collected(rows, options);
    options.sites = this.sites(owner, call, all);
    return all;
  }

  /** The rows of an input as the model runs them. `isPooled`: only the pooled vectors are needed. */
  protected rows(input: ModelInput, options: RowOptions, isPooled = false): RowSteps {
    const rows = rowsOf(input, options, this.context);
    return this.raw.encoder.textRows?.(rows, isTexts(input), isPooled) ?? rows;
  }

  /** @internal Collects the rows of an input. */
  async allRows(input: ModelInput, options: RowOptions, pieceOptions: PieceOptions, prompt = ''): Promise<Row[]> {
    requireTexts(input, options);
    return collected(this.rows(input, { ...options, prompt }), pieceOptions);
  }

  /** @internal */
  head(name: HeadName): Head {
    const { heads } = this.raw;
    const head = heads.get(name) ?? makeHead(name, this.headContext);
    if (head.isTied && this.runContext.fetchRows)
      throw invalid('fromPretrained.embeddings', "'whole' for vocabulary logits", "'paged'", 'UNSUPPORTED');
    heads.set(name, head);
    return head;
  }
}

/** Collects all rows. Yields to the event loop between texts and within long ones. */
async function collected(rows: RowSteps, { yieldToEventLoop }: PieceOptions): Promise<Row[]> {
  const all: Row[] = [];
  for (const row of rows) {
    if (row) all.push(row);
    await yieldToEventLoop();
  }
  return all;
}
