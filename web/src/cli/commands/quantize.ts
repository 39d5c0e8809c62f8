/** `heed quantize`: a model's folder with int8 matrices and int8 or 4-bit tables. */
import type { Command } from 'commander';
import { load, type Loss } from '../../index.js';
import { addExamples, choice } from '../options.js';
import { ProgressLine } from '../progress.js';
import { type RecordOptions, readTexts } from '../records.js';

interface Options {
  out: string;
  tables?: 'int8' | 'int4';
  texts?: string;
}

export function addQuantize(program: Command): void {
  const command = program
    .command('quantize <folder>')
    .description("write a model's folder with int8 matrices, a quarter of its bytes")
    .requiredOption('--out <folder>', 'a new folder')
    .addOption(choice('--tables <type>', 'the table of words: int8, or int4 for half of its bytes', ['int8', 'int4']))
    .option('--texts <file>', 'texts on which to report the cosine of the vectors before and after');
  addExamples(
    command,
    'heed quantize ./model --out ./model-int8',
    'heed quantize ./model --out ./model-int4 --tables int4 --texts sentences.txt',
  ).action(quantize);
}

async function quantize(folder: string, { out, tables, texts: file }: Options): Promise<void> {
  const texts = file === undefined ? undefined : await allTexts(file);
  using heed = await load();
  const progress = new ProgressLine('quantizing, bytes');
  const { report } = await heed.quantize(folder, { out, tables, texts, onProgress: ({ done }) => progress.update(done) });
  progress.end();
  const print = (name: string, value: string) => process.stdout.write(`${name.padEnd(16)}${value}\n`);
  const bytes = (count: number) => `${count.toLocaleString('en')} bytes`;
  print('before', bytes(report.bytesBefore));
  print('after', `${bytes(report.bytesAfter)} in ${out}`);
  print('tensors', `${report.int8.length} int8, ${report.int4.length} int4`);
  if (report.leftOut.length > 0) print('left out', report.leftOut.join(', '));
  const cosines = ({ mean, worst, text }: Loss) => `mean ${mean.toFixed(5)}, worst ${worst.toFixed(5)} (${text.slice(0, 60)})`;
  if (report.loss) {
    print('cosine, fp32', cosines(report.loss.fp32));
    print('cosine, q8', cosines(report.loss.q8));
  }
}

/** The texts of a file of lines, .jsonl or .csv. */
export async function allTexts(file: string, options: Partial<RecordOptions> = {}): Promise<string[]> {
  const texts: string[] = [];
  for await (const text of readTexts([file], { field: 'text', ...options })) texts.push(text);
  return texts;
}
