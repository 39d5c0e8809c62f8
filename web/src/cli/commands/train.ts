/** `heed train`: trains a model on labels or similarities. */
import type { Command } from 'commander';
import { invalid } from '../../node/index.js';
import { type ClassifierMetrics, load, type PretrainedModel, type Savable } from '../../train/index.js';
import { type ExampleOptions, readExamples, readSimilar, requireCsv } from '../examples.js';
import { requireNew, TrainingState, writeFolder } from '../folder.js';
import { metricsTable } from '../metrics.js';
import { loadModel, type ModelOptions } from '../model.js';
import {
  addExamples,
  addFormat,
  addModel,
  choice,
  count,
  DTYPES,
  number,
  option,
  requireSubcommand,
  requireWith,
} from '../options.js';
import { Progress } from '../progress.js';
import { stoppable } from '../signals.js';
import { counted, print, printJson } from '../terminal.js';

interface Options extends ModelOptions, ExampleOptions {
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
  head?: 'auto' | 'sentence' | 'family';
  balanced?: boolean;
  resume?: boolean;
  saveAs?: (typeof DTYPES)[number];
  json?: boolean;
}

type Heed = Awaited<ReturnType<typeof load>>;
type Model = PretrainedModel & Savable;

export const addLabeled = (command: Command): Command =>
  addFormat(command, 'jsonl')
    .option('--field <name>', 'the key (JSON) or column (CSV) with the text', 'text')
    .option('--pair <name>', 'the key or column with the second text of a pair (default: none)')
    .option('--label <name>', 'the key or column with the label; in JSON, also a list of labels', 'label')
    .addOption(
      option(
        '--label-separator <text>',
        'separator of the labels of a text (default: a text has one label)',
        'at least one character',
        (value) => value || undefined,
      ),
    );

const isPositive = (value: number) => value > 0 && value < Infinity;

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
    .option(
      '--targets <names>',
      'modules that get a LoRA adapter, separated by commas (default: queries and values)',
      (names) => names.split(','),
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
      choice('--save-as <type>', 'how weights are stored (default: as they were if unchanged, else fp32)', DTYPES),
    )
    .option(
      '--resume',
      'continue an interrupted training of the encoder, whose state is saved next to --out after each epoch',
    )
    .option('--json', 'print the result as JSON');

export function addTrain(program: Command): void {
  const group = program.command('train').description('train a classifier or sentence vectors');
  const classifier = group.command('classifier <files...>').description('train a model to label texts');
  addModel(classifier);
  addLabeled(classifier);
  addTraining(classifier, 'head')
    .addOption(
      choice('--head <kind>', "on sentence vectors, or as in the model's family (default: auto)", [
        'auto',
        'sentence',
        'family',
      ]),
    )
    .option('--balanced', 'weight labels by the inverse of their number of examples');
  addExamples(
    addSaving(classifier),
    'heed train classifier reviews.csv --field review --label rating --validation 0.2 --out ./reviews',
    'heed classify new.csv --field review --model ./reviews',
  );

  const embedding = group
    .command('embedding <files...>')
    .description(
      'train a model on which texts are similar: the keys or columns a, b; a, b, score; anchor, positive, negative; or text, label',
    );
  addModel(embedding)
    .optionsGroup('Input:')
    .addOption(
      choice('--format <format>', "the files' format (default: csv by the file's extension, else jsonl)", [
        'jsonl',
        'csv',
      ]),
    );
  addTraining(embedding, 'full');
  addExamples(addSaving(embedding), 'heed train embedding questions.csv --train lora --epochs 3 --out ./questions');

  for (const [command, kind] of [[classifier, CLASSIFIER] as const, [embedding, EMBEDDING] as const])
    command.action((files: string[], options: Options) =>
      stoppable(
        (signal) => train(kind, files, options, signal),
        () => restOf(options, kind.what),
      ),
    );
  requireSubcommand(group);
}

/** A kind of training. */
interface Kind {
  /** The default of --train. */
  what: 'head' | 'full';
  read(files: readonly string[], options: Options): Promise<{ length: number }>;
  /** `common`: the options that all kinds have. */
  run(heed: Heed, model: Model, examples: never, common: object, options: Options): Promise<Result>;
}

/** The result of a training. A classifier has labels, and metrics if examples were held out. */
interface Result {
  history: { loss: number[] };
  truncated: number;
  labels?: readonly string[];
  validation?: unknown;
}

const CLASSIFIER: Kind = {
  what: 'head',
  read: readExamples,
  run: (heed, model, examples, common, { head, balanced }) =>
    heed.trainClassifier(model, examples, { ...common, head, classWeight: balanced && 'balanced' } as object),
};

const EMBEDDING: Kind = {
  what: 'full',
  read: readSimilar,
  run: (heed, model, examples, common) => heed.trainEmbedding(model, examples, common),
};

/** Trains, writes the folder, and removes the state of an interrupted training. */
async function train(kind: Kind, files: string[], options: Options, signal: AbortSignal): Promise<void> {
  const { out, resume = false, seed: given, validation: part, epochs, batchSize, lr, patience, saveAs } = options;
  const { train: what = kind.what, rank, alpha, targets } = options;
  requireTrainOptions(kind.what, options);
  requireNew(out);
  requireCsv(part === undefined ? files : [...files, part], options);
  using state = new TrainingState(out, resume, given); // before the examples are read
  const examples = await kind.read(files, options);
  const validation = await validationOf(options, (file) => kind.read([file], options));

  const { seed } = state;
  const encoder = what === 'lora' ? { lora: { rank, alpha, targets, seed } } : what === 'full' ? what : what.split(',');
  using heed = await load();
  using model = await loadModel<Model>(heed, options, what === 'head' ? {} : { trainable: true, seed });
  state.begin();
  using progress = new Progress('training', 'steps');
  const common = {
    ...(what !== 'head' && {
      train: encoder,
      resume: state.resume,
      onCheckpoint: (bytes: Uint8Array) => state.keep(bytes),
    }),
    ...{ validation, epochs, batchSize, lr, seed, signal },
    earlyStopping: patience && { patience },
    onStep: ({ step, steps }: { step: number; steps: number }) => progress.update(step, step / steps),
  };
  const result = await kind.run(heed, model, examples as never, common, options);
  const bytes = await writeFolder(out, await model.save(saveAs ? { dtype: saveAs } : {}));
  state.remove();

  if (options.json) return printJson({ out, bytes, ...result });
  const { labels, history, truncated } = result;
  if (labels && result.validation) print(metricsTable(result.validation as ClassifierMetrics));
  const last = history.loss.at(-1);
  const notes = [
    `${counted(examples.length, 'example')}${labels ? ` of ${counted(labels.length, 'label')}` : ''}`,
    ...(last === undefined ? [] : [`loss ${last.toPrecision(3)} after ${counted(history.loss.length, 'epoch')}`]),
    ...(truncated > 0 ? [`${counted(truncated, 'text')} cut to ${counted(model.config.maxLength, 'token')}`] : []),
    counted(bytes, 'byte'),
  ];
  print(`${out}: ${notes.join(', ')}`);
}

/** Describes what an interrupted training leaves behind. `what`: default of --train. */
const restOf = ({ out, train }: Options, what: 'head' | 'full') =>
  (train ?? what) === 'head'
    ? 'nothing was written'
    : `--resume with --out ${out} continues after the last complete epoch, if there is one`;

async function validationOf<T>({ validation }: Options, read: (file: string) => Promise<T>) {
  const part = Number(validation);
  if (validation === undefined) return undefined;
  if (Number.isNaN(part)) return read(validation);
  if (part > 0 && part < 1) return part;
  throw invalid('--validation', 'a file, or a fraction above 0 and below 1', `'${validation}'`);
}

/** @throws HeedError for options that have no effect with this --train. `what`: its default */
function requireTrainOptions(
  what: 'head' | 'full',
  { train = what, rank, alpha, targets, resume, validation, patience }: Options,
): void {
  if (train === 'head' && what === 'full')
    throw invalid('--train', 'full, lora or names of parameters', "'head': sentence vectors have no head");
  if (train !== 'lora') requireWith('--train lora', { '--rank': rank, '--alpha': alpha, '--targets': targets });
  if (train === 'head') requireWith('a --train other than head', { '--resume': resume });
  if (validation === undefined) requireWith('--validation', { '--patience': patience });
}
