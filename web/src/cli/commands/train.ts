/** `heed train`: teaches a model labels. */
import { type Command, Option } from 'commander';
import { load } from '../../train/index.js';
import { invalid } from '../error.js';
import { type ExampleOptions, readExamples } from '../examples.js';
import { requireNew, writeFolder } from '../folder.js';
import { metricsTable } from '../metrics.js';
import { addExamples, addModel, choice, count } from '../options.js';
import { ProgressLine } from '../progress.js';

interface TrainOptions {
  model?: string;
  dtype?: 'fp32' | 'q8';
  out: string;
  epochs?: number;
  batchSize?: number;
  lr?: number;
  seed?: number;
  saveAs?: 'fp32' | 'q8';
  json?: boolean;
}

type ClassifierOptions = TrainOptions &
  ExampleOptions & {
    head?: 'auto' | 'sentence' | 'family';
    validation?: string;
    patience?: number;
    balanced?: boolean;
  };

export const addLabelled = (command: Command): Command =>
  command
    .optionsGroup('Input:')
    .addOption(
      choice('--format <format>', "the files' format (default: csv by the file's ending, else jsonl)", [
        'jsonl',
        'csv',
      ]),
    )
    .option('--field <name>', 'the key (.jsonl) or column (.csv) with the text', 'text')
    .option('--pair <name>', 'that with the second text of a pair (default: none)')
    .option('--label <name>', 'that with the label; a list of labels in .jsonl', 'label')
    .option('--label-separator <text>', 'separates several labels of a text (default: there is one)');

/** An option whose value is a number for which `isLegal` returns true. */
function number(flags: string, description: string, expected: string, isLegal: (value: number) => boolean): Option {
  const option = new Option(flags, description);
  return option.argParser((given: string) => {
    const value = Number(given);
    if (given.trim() !== '' && isLegal(value)) return value;
    throw invalid(`--${option.name()}`, expected, `'${given}'`);
  });
}

const addTraining = (command: Command): Command =>
  command
    .optionsGroup('Training:')
    .addOption(count('--epochs <n>', 'how often all examples are gone through'))
    .addOption(count('--batch-size <n>', 'examples per step'))
    .addOption(number('--lr <rate>', 'learning rate', 'a positive number', (value) => value > 0 && value < Infinity))
    .addOption(
      number(
        '--seed <n>',
        'of all random draws (default: drawn at random)',
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
    .option('--json', 'print the result as JSON');

export function addTrain(program: Command): void {
  const train = program.command('train').description('teach a model labels or similarities');
  train.action(() => {
    throw invalid('train', train.commands.map((command) => command.name()).join(' or '), 'nothing');
  });
  const classifier = train.command('classifier <files...>').description('teach a model to label texts');
  addModel(classifier);
  addLabelled(classifier);
  addTraining(classifier)
    .addOption(choice('--head <kind>', 'where the classifier is (default: auto)', ['auto', 'sentence', 'family']))
    .option(
      '--validation <part>',
      'examples to measure on: a file, or the part of the examples, as 0.2 (default: none)',
    )
    .addOption(count('--patience <n>', 'stop after n epochs without a better validation loss, and keep the best'))
    .option('--balanced', 'weigh labels by the inverse of their number of examples');
  addSaving(classifier);
  addExamples(
    classifier,
    'heed train classifier reviews.csv --field review --label rating --validation 0.2 --out ./reviews',
    'heed classify new.csv --field review --model ./reviews',
  ).action(trainClassifier);
}

async function trainClassifier(files: string[], options: ClassifierOptions): Promise<void> {
  requireNew(options.out);
  const examples = await readExamples(files, options);
  const { validation: given } = options;
  const part = given === undefined ? undefined : Number(given);
  const validation = given === undefined ? undefined : Number.isNaN(part) ? await readExamples([given], options) : part;
  using heed = await load();
  using model = await openModel(heed, options);
  const { epochs, batchSize, lr, seed, head, patience, balanced } = options;
  const progress = new ProgressLine('steps');
  const result = await heed.trainClassifier(model, examples, {
    ...{ epochs, batchSize, lr, seed, head, validation },
    ...(patience !== undefined && { earlyStopping: { patience } }),
    ...(balanced && { classWeight: 'balanced' as const }),
    onStep: ({ step }: { step: number }) => progress.update(step),
  } as object);
  progress.end();
  const files_ = await model.save(options.saveAs ? { dtype: options.saveAs } : {});
  const bytes = writeFolder(options.out, files_);
  if (options.json) {
    process.stdout.write(`${JSON.stringify({ out: options.out, bytes, ...result })}\n`);
    return;
  }
  const { labels, history, validation: metrics, truncated } = result;
  if (metrics) process.stdout.write(`${metricsTable(metrics)}\n`);
  const notes = [
    `${examples.length.toLocaleString('en')} examples of ${labels.length} labels`,
    `loss ${history.loss.at(-1)!.toPrecision(3)} after ${history.loss.length} epochs`,
    ...(truncated > 0 ? [`${truncated} texts cut to ${model.config.maxLength} tokens`] : []),
    `${bytes.toLocaleString('en')} bytes`,
  ];
  process.stdout.write(`${options.out}: ${notes.join(', ')}\n`);
}

async function openModel(heed: Awaited<ReturnType<typeof load>>, { model: source, dtype }: TrainOptions) {
  const progress = new ProgressLine('loading, bytes');
  const model = await heed.fromPretrained(source, {
    ...(dtype && { dtype }),
    onProgress: ({ loaded }) => progress.update(loaded),
  });
  progress.end();
  return model;
}
