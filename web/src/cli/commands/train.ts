/** `heed train`: trains a model on labels or similarities. */
import { type Command, Option } from 'commander';
import { invalid } from '../../node/index.js';
import { load } from '../../train/index.js';
import { type ExampleOptions, readExamples, readSimilar, requireCsv } from '../examples.js';
import { requireNew, TrainingState, writeFolder } from '../folder.js';
import { metricsTable } from '../metrics.js';
import { type ModelOptions, remoteOptions } from '../model.js';
import { addExamples, addFormat, addModel, choice, count, requireSubcommand, requireWith } from '../options.js';
import { Progress } from '../progress.js';
import type { FormatOptions } from '../rows.js';
import { stoppable } from '../signals.js';
import { counted } from '../terminal.js';

interface TrainOptions extends ModelOptions {
  out: string;
  train?: string;
  rank?: number;
  alpha?: number;
  targets?: string[];
  epochs?: number;
  batchSize?: number;
  lr?: number;
  seed?: number;
  validation?: string;
  patience?: number;
  resume?: boolean;
  saveAs?: 'fp32' | 'q8';
  json?: boolean;
}

type ClassifierOptions = TrainOptions & ExampleOptions & { head?: 'auto' | 'sentence' | 'family'; balanced?: boolean };

type EmbeddingOptions = TrainOptions & FormatOptions;

export const addLabelled = (command: Command): Command =>
  addFormat(command, 'jsonl')
    .option('--field <name>', 'the key (JSON) or column (CSV) with the text', 'text')
    .option('--pair <name>', 'the key or column with the second text of a pair (default: none)')
    .option('--label <name>', 'the key or column with the label; in JSON, also a list of labels', 'label')
    .addOption(
      new Option(
        '--label-separator <text>',
        'separator of the labels of a text (default: a text has one label)',
      ).argParser((value: string) => {
        if (value !== '') return value;
        throw invalid('--label-separator', 'at least one character', "''");
      }),
    );

const isPositive = (value: number) => value > 0 && value < Infinity;

/** An option whose value is a number accepted by `isLegal`. */
function number(flags: string, description: string, expected: string, isLegal: (value: number) => boolean): Option {
  const option = new Option(flags, description);
  return option.argParser((given: string) => {
    const value = Number(given);
    if (given.trim() !== '' && isLegal(value)) return value;
    throw invalid(`--${option.name()}`, expected, `'${given}'`);
  });
}

/** Options of training. `what`: default of --train. */
const addTraining = (command: Command, what: 'head' | 'full'): Command =>
  command
    .optionsGroup('Training:')
    .option(
      '--train <what>',
      `${what === 'head' ? 'head: the classifier alone; ' : ''}full: all parameters; lora: LoRA adapters; or the names of parameters, with * (default: ${what})`,
    )
    .addOption(count('--rank <r>', 'rank of the LoRA adapters (default: 8)'))
    .addOption(
      number(
        '--alpha <a>',
        'the LoRA adapters are multiplied by alpha / rank (default: 8)',
        'a positive number',
        isPositive,
      ),
    )
    .addOption(
      new Option(
        '--targets <names>',
        'modules that get a LoRA adapter, separated by commas (default: queries and values)',
      ).argParser((names: string) => names.split(',')),
    )
    .option(
      '--validation <part>',
      'examples for validation: a file, or a fraction of the examples, such as 0.2 (default: none)',
    )
    .addOption(count('--patience <n>', 'stop after n epochs without a better validation loss, and keep the best'))
    .addOption(count('--epochs <n>', 'number of passes through the examples'))
    .addOption(count('--batch-size <n>', 'examples per step'))
    .addOption(number('--lr <rate>', 'learning rate', 'a positive number', isPositive))
    .addOption(
      number(
        '--seed <n>',
        'seed of all random draws (default: drawn at random)',
        'an integer from 0',
        (value) => Number.isSafeInteger(value) && value >= 0,
      ),
    );

const addSaving = (command: Command): Command =>
  command
    .optionsGroup('Output:')
    .requiredOption('--out <folder>', 'a new folder for the trained model')
    .addOption(
      choice('--save-as <type>', 'how weights are stored (default: as they were if unchanged, else fp32)', [
        'fp32',
        'q8',
      ]),
    )
    .option(
      '--resume',
      'continue an interrupted training of the encoder, whose state is saved next to --out after each epoch',
    )
    .option('--json', 'print the result as JSON');

export function addTrain(program: Command): void {
  const train = program.command('train').description('train a classifier or sentence vectors');
  const classifier = train.command('classifier <files...>').description('train a model to label texts');
  addModel(classifier);
  addLabelled(classifier);
  addTraining(classifier, 'head')
    .addOption(
      choice('--head <kind>', "on sentence vectors, or as in the model's family (default: auto)", [
        'auto',
        'sentence',
        'family',
      ]),
    )
    .option('--balanced', 'weight labels by the inverse of their number of examples');
  addSaving(classifier);
  addExamples(
    classifier,
    'heed train classifier reviews.csv --field review --label rating --validation 0.2 --out ./reviews',
    'heed classify new.csv --field review --model ./reviews',
  ).action((files: string[], options: ClassifierOptions) =>
    stoppable(
      (signal) => trainClassifier(files, options, signal),
      () => restOf(options, 'head'),
    ),
  );

  const embedding = train
    .command('embedding <files...>')
    .description(
      'train a model on which texts are similar: the keys or columns a, b; a, b, score; anchor, positive, negative; or text, label',
    );
  addModel(embedding);
  embedding
    .optionsGroup('Input:')
    .addOption(
      choice('--format <format>', "the files' format (default: csv by the file's extension, else jsonl)", [
        'jsonl',
        'csv',
      ]),
    );
  addTraining(embedding, 'full');
  addSaving(embedding);
  addExamples(embedding, 'heed train embedding questions.csv --train lora --epochs 3 --out ./questions').action(
    (files: string[], options: EmbeddingOptions) =>
      stoppable(
        (signal) => trainEmbedding(files, options, signal),
        () => restOf(options, 'full'),
      ),
  );
  requireSubcommand(train);
}

async function trainClassifier(files: string[], options: ClassifierOptions, signal: AbortSignal): Promise<void> {
  requireTrainOptions('head', options);
  requireNew(options.out);
  const { head, balanced, validation: part } = options;
  requireCsv(part === undefined ? files : [...files, part], options);
  TrainingState.check(options.out, options.resume ?? false, options.seed); // before the examples are read
  const examples = await readExamples(files, options);
  const validation = await validationOf(options, (file) => readExamples([file], options));
  const { result, bytes, model } = await trainAndSave(options, 'head', signal, (heed, model, common) =>
    heed.trainClassifier(model, examples, {
      ...common,
      ...(validation !== undefined && { validation }),
      ...(head && { head }),
      ...(balanced && { classWeight: 'balanced' as const }),
    } as object),
  );
  const { labels, validation: metrics } = result;
  if (options.json) return printJson(options, bytes, result);
  if (metrics) process.stdout.write(`${metricsTable(metrics)}\n`);
  summarize(
    options,
    `${counted(examples.length, 'example')} of ${counted(labels.length, 'label')}`,
    result,
    bytes,
    model,
  );
}

async function trainEmbedding(files: string[], options: EmbeddingOptions, signal: AbortSignal): Promise<void> {
  requireTrainOptions('full', options);
  requireNew(options.out);
  TrainingState.check(options.out, options.resume ?? false, options.seed); // before the examples are read
  const examples = await readSimilar(files, options);
  const validation = await validationOf(options, (file) => readSimilar([file], options));
  const { result, bytes, model } = await trainAndSave(options, 'full', signal, (heed, model, common) =>
    heed.trainEmbedding(model, examples, { ...common, ...(validation !== undefined && { validation }) } as object),
  );
  if (options.json) return printJson(options, bytes, result);
  summarize(options, counted(examples.length, 'example'), result, bytes, model);
}

/** Describes what an interrupted training leaves behind. `what`: default of --train. */
const restOf = ({ out, train }: TrainOptions, what: 'head' | 'full') =>
  (train ?? what) === 'head'
    ? 'nothing was written'
    : `--resume with --out ${out} continues after the last complete epoch, if there is one`;

type Heed = Awaited<ReturnType<typeof load>>;
type Model = Awaited<ReturnType<Heed['fromPretrained']>>;

async function validationOf<T>({ validation }: TrainOptions, read: (file: string) => Promise<T>) {
  const part = Number(validation);
  if (validation === undefined) return undefined;
  if (Number.isNaN(part)) return read(validation);
  if (part > 0 && part < 1) return part;
  throw invalid('--validation', 'a file, or a fraction above 0 and below 1', `'${validation}'`);
}

/** @throws HeedError for options that have no effect with this --train. `what`: its default */
function requireTrainOptions(
  what: 'head' | 'full',
  { train = what, rank, alpha, targets, resume, validation, patience }: TrainOptions,
): void {
  if (train === 'head' && what === 'full')
    throw invalid('--train', 'full, lora or names of parameters', "'head': sentence vectors have no head");
  if (train !== 'lora') requireWith('--train lora', { '--rank': rank, '--alpha': alpha, '--targets': targets });
  if (train === 'head') requireWith('a --train other than head', { '--resume': resume });
  if (validation === undefined) requireWith('--validation', { '--patience': patience });
}

/** Loads the model of --model. `options`: options of `fromPretrained`. */
export async function openModel(
  heed: Heed,
  { model, ...options }: { model?: string | undefined; [option: string]: unknown },
) {
  using progress = new Progress('loading', 'bytes');
  const onProgress = ({ loaded, total }: { loaded: number; total: number | null }) =>
    progress.update(loaded, total ? loaded / total : undefined);
  return await heed.fromPretrained(model, { ...options, onProgress } as object);
}

/**
 * Trains with the options that all kinds of training share, writes the folder, and removes the state of an interrupted
 * training.
 */
async function trainAndSave<R>(
  options: TrainOptions,
  what: 'head' | 'full',
  signal: AbortSignal,
  run: (heed: Heed, model: Model, common: object) => Promise<R>,
): Promise<{ result: R; bytes: number; model: Model['config'] }> {
  const { model: source, dtype, train = what, rank, alpha, targets, epochs, batchSize, lr, patience, saveAs } = options;
  using state = new TrainingState(options.out, options.resume ?? false, options.seed);
  const { seed } = state;
  const encoder =
    train === 'lora' ? { lora: { rank, alpha, targets, seed } } : train === 'full' ? train : train.split(',');
  using heed = await load();
  using model = await openModel(heed, {
    model: source,
    dtype,
    ...remoteOptions(options),
    ...(train !== 'head' && { trainable: true, seed }),
  });
  state.begin();
  using progress = new Progress('training', 'steps');
  const result = await run(heed, model, {
    ...(train !== 'head' && {
      train: encoder,
      resume: state.resume,
      onCheckpoint: (bytes: Uint8Array) => state.keep(bytes),
    }),
    ...{ epochs, batchSize, lr, seed },
    ...(patience !== undefined && { earlyStopping: { patience } }),
    signal,
    onStep: ({ step, steps }: { step: number; steps: number }) => progress.update(step, step / steps),
  });
  const bytes = await writeFolder(options.out, await model.save(saveAs ? { dtype: saveAs } : {}));
  state.remove();
  return { result, bytes, model: model.config };
}

function printJson({ out }: TrainOptions, bytes: number, result: object): void {
  process.stdout.write(`${JSON.stringify({ out, bytes, ...result })}\n`);
}

function summarize(
  { out }: TrainOptions,
  what: string,
  { history, truncated }: { history: { loss: number[] }; truncated: number },
  bytes: number,
  { maxLength }: Model['config'],
): void {
  const last = history.loss.at(-1);
  const notes = [
    what,
    ...(last === undefined ? [] : [`loss ${last.toPrecision(3)} after ${counted(history.loss.length, 'epoch')}`]),
    ...(truncated > 0 ? [`${counted(truncated, 'text')} cut to ${counted(maxLength, 'token')}`] : []),
    counted(bytes, 'byte'),
  ];
  process.stdout.write(`${out}: ${notes.join(', ')}\n`);
}
