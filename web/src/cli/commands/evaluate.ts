/** `heed evaluate`: measures classification, retrieval or similarities on examples. */
import type { Command } from 'commander';
import {
  evaluateEmbeddingSimilarity,
  evaluateInformationRetrieval,
  type RetrievalMetrics,
} from '../../evaluation/index.js';
import { invalid } from '../../node/index.js';
import { load } from '../../train/index.js';
import { type ExampleOptions, readExamples, readRelevant, readScored, requireCsv } from '../examples.js';
import { metricsTable, table } from '../metrics.js';
import { type ModelOptions, remoteOptions } from '../model.js';
import { addExamples, addJson, addModel, choice } from '../options.js';
import { allTexts } from '../records.js';
import { addLabelled, openModel } from './train.js';

type Options = ModelOptions & ExampleOptions & { json?: boolean; task: keyof typeof TASKS; corpus?: string };
type Runtime = Awaited<ReturnType<typeof load>>;
type Model = Awaited<ReturnType<typeof openModel>>;

/** Measures a task's metrics and formats them. */
interface Task {
  /** The options of the command that the task reads, in addition to those of the model and of the files' format. */
  reads: readonly (keyof Options)[];
  measure(heed: Runtime, model: Model, files: string[], options: Options): Promise<object>;
  show(metrics: never): string;
}

const TASKS = {
  classification: {
    reads: ['field', 'pair', 'label', 'labelSeparator'],
    measure: async (heed, model, files, options) => heed.evaluateClassifier(model, await readExamples(files, options)),
    show: metricsTable,
  },
  retrieval: {
    reads: ['corpus'],
    measure: async (heed, model, files, { corpus, format, delimiter }) => {
      const others = corpus === undefined ? [] : await allTexts(corpus, {});
      return evaluateInformationRetrieval(model, await readRelevant(files, others, { format, delimiter }), { heed });
    },
    show: retrievalTable,
  },
  similarity: {
    reads: [],
    measure: async (_, model, files, options) => evaluateEmbeddingSimilarity(model, await readScored(files, options)),
    show: ({ count, pearson, spearman }: { count: number; pearson: number; spearman: number }) =>
      `Spearman ${spearman.toFixed(4)}, Pearson ${pearson.toFixed(4)}, ${count.toLocaleString('en')} pairs\n`,
  },
} satisfies Record<string, Task>;

export function addEvaluate(program: Command): void {
  const command = program
    .command('evaluate <files...>')
    .description(
      'measure a classifier on labelled texts; retrieval on the keys or columns a (query) and b (text to find); or similarity on a, b and score',
    );
  addModel(command);
  addLabelled(command)
    .addOption(choice('--task <task>', 'what is measured', Object.keys(TASKS)).default('classification'))
    .option('--corpus <file>', 'for retrieval, more texts to rank: a file of lines, .jsonl or .csv (default: none)');
  addJson(command, 'the metrics as JSON');
  addExamples(
    command,
    'heed evaluate test.csv --model ./reviews',
    'heed evaluate questions.csv --task retrieval --corpus answers.txt',
    'heed evaluate sts.csv --task similarity',
  ).action((files: string[], options: Options) => {
    requireRead(command, options.task);
    requireCsv(files, options);
    return evaluate(files, options);
  });
}

const OF_TASKS = ['field', 'pair', 'label', 'labelSeparator', 'corpus'] as const;

/** @throws HeedError for an option that the task does not read */
function requireRead(command: Command, name: Options['task']): void {
  const { reads }: Task = TASKS[name];
  const wrong = OF_TASKS.find((each) => !reads.includes(each) && command.getOptionValueSource(each) === 'cli');
  if (wrong === undefined) return;
  const flag = command.options.find((option) => option.attributeName() === wrong)!.long!;
  const tasks = Object.entries(TASKS as Record<string, Task>).flatMap(([task, each]) =>
    each.reads.includes(wrong) ? [task] : [],
  );
  throw invalid(flag, `--task ${tasks.join(' or ')}, without which it has no effect`, `--task ${name}`);
}

async function evaluate(files: string[], options: Options): Promise<void> {
  const task: Task = TASKS[options.task];
  using heed = await load();
  using model = await openModel(heed, { model: options.model, dtype: options.dtype, ...remoteOptions(options) });
  const metrics = await task.measure(heed, model, files, options);
  process.stdout.write(options.json ? `${JSON.stringify(metrics)}\n` : task.show(metrics as never));
}

function retrievalTable({ count, ...metrics }: RetrievalMetrics): string {
  const names = {
    accuracy: 'accuracy',
    precision: 'precision',
    recall: 'recall',
    mrr: 'MRR',
    ndcg: 'NDCG',
    map: 'MAP',
  };
  const rows = Object.entries(names).flatMap(([key, name]) =>
    Object.entries(metrics[key as keyof typeof metrics]).map(([k, value]) => [`${name}@${k}`, value.toFixed(4)]),
  );
  return `${table(rows)}\n${count.toLocaleString('en')} queries\n`;
}
