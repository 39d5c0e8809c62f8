/** `heed evaluate`: measures classification, retrieval or similarities on examples. */
import type { Command } from 'commander';
import {
  evaluateClassifier,
  evaluateEmbeddingSimilarity,
  evaluateInformationRetrieval,
  type RetrievalMetrics,
} from '../../evaluation/index.js';
import { SHIPPED_DTYPE } from '../../models/index.js';
import { invalid } from '../../node/index.js';
import { load } from '../../train/index.js';
import { type ExampleOptions, readExamples, readRelevant, readScored, requireCsv } from '../examples.js';
import { metricsTable, numberTable } from '../metrics.js';
import { loadModel, type ModelOptions } from '../model.js';
import { addExamples, addJson, addModel, choice } from '../options.js';
import { allTexts } from '../records.js';
import { print, printJson } from '../terminal.js';
import { addLabeled } from './train.js';

type Options = ModelOptions & ExampleOptions & { json?: boolean; task: keyof typeof TASKS; corpus?: string };
type Runtime = Awaited<ReturnType<typeof load>>;
type Model = Awaited<ReturnType<Runtime['fromPretrained']>>;

/** Measures a task's metrics and formats them. */
interface Task {
  measure(heed: Runtime, model: Model, files: string[], options: Options): Promise<object>;
  show(metrics: never): string;
}

const TASKS = {
  classification: {
    measure: async (_, model, files, options) => evaluateClassifier(model, await readExamples(files, options)),
    show: metricsTable,
  },
  retrieval: {
    measure: async (heed, model, files, { corpus, format, delimiter }) => {
      const others = corpus === undefined ? [] : await allTexts(corpus, {});
      return evaluateInformationRetrieval(model, await readRelevant(files, others, { format, delimiter }), { heed });
    },
    show: retrievalTable,
  },
  similarity: {
    measure: async (_, model, files, options) => evaluateEmbeddingSimilarity(model, await readScored(files, options)),
    show: ({ count, pearson, spearman }: { count: number; pearson: number; spearman: number }) =>
      `Spearman ${spearman.toFixed(4)}, Pearson ${pearson.toFixed(4)}, ${count.toLocaleString('en')} pairs`,
  },
} satisfies Record<string, Task>;

export function addEvaluate(program: Command): void {
  const command = program
    .command('evaluate <files...>')
    .description(
      'measure a classifier on labeled texts; retrieval on the keys or columns a (query) and b (text to find); or similarity on a, b and score',
    );
  addModel(command);
  addLabeled(command)
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

/** Options that only one task reads. */
const OF_TASKS = {
  field: 'classification',
  pair: 'classification',
  label: 'classification',
  labelSeparator: 'classification',
  corpus: 'retrieval',
} as const;

/** @throws HeedError for an option that the task does not read */
function requireRead(command: Command, task: Options['task']): void {
  for (const [name, needed] of Object.entries(OF_TASKS))
    if (needed !== task && command.getOptionValueSource(name) === 'cli') {
      const { long } = command.options.find((option) => option.attributeName() === name)!;
      throw invalid(long!, `--task ${needed}, without which it has no effect`, `--task ${task}`);
    }
}

async function evaluate(files: string[], options: Options): Promise<void> {
  const task: Task = TASKS[options.task];
  using heed = await load();
  // heed/train loads in fp32. What is measured is what the other commands compute.
  const isBundled = options.model === undefined && options.dtype === undefined;
  using model = await loadModel<Model>(heed, options, isBundled ? { dtype: SHIPPED_DTYPE } : {});
  const metrics = await task.measure(heed, model, files, options);
  if (options.json) printJson(metrics);
  else print(task.show(metrics as never));
}

function retrievalTable({ count, ...metrics }: RetrievalMetrics): string {
  const names = ['accuracy', 'precision', 'recall', 'mrr', 'ndcg', 'map'] as const;
  const rows = names.flatMap((name) =>
    Object.entries(metrics[name]).map(([k, value]) => [
      `${name.length > 4 ? name : name.toUpperCase()}@${k}`, // MRR, NDCG and MAP are abbreviations
      value.toFixed(4),
    ]),
  );
  return [...numberTable(rows), '', `${count.toLocaleString('en')} queries`].join('\n');
}
