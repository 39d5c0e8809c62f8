/** The tiny models that tests/fixtures/onnx/generate.py exported to ONNX, with PyTorch's results. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import type { PretrainedModel, TokenIds } from 'heed';
import { bytesOf, type Expected, readSafetensors } from './fixtures.js';
import { tinyModel } from './tiny.js';

const fixtures = fileURLToPath(new URL('../../fixtures/onnx/', import.meta.url));

export interface OnnxCase {
  folder: string;
  /** The name of the file in the folder's onnx/. */
  file: string;
  /** The prefix of the file's results in expected.safetensors. */
  expected: string;
  /** Whether the file has the tensors of model.safetensors bit for bit. */
  exact: boolean;
}

export const onnxCases = JSON.parse(readFileSync(join(fixtures, 'cases.json'), 'utf8')) as OnnxCase[];

/**
 * A folder's files by name: config.json, model.safetensors, the ONNX files with their external data, and a tokenizer,
 * whose mask token is that of the inputs.
 */
export function onnxFolder(name: string): Record<string, Uint8Array | string> {
  const files: Record<string, Uint8Array | string> = {};
  if (onnxInput(name).ids) files['tokenizer.json'] = tinyModel()['tokenizer.json']!;
  for (const [path, bytes] of Object.entries(bytesOf(join(fixtures, name)))) {
    if (path.endsWith('.gz')) files[path.slice(0, -'.gz'.length)] = new Uint8Array(gunzipSync(bytes));
    else if (path === 'config.json' || path === 'model.safetensors') files[path] = bytes;
  }
  return files;
}

/** The names of the folders. */
export const onnxFolders = readdirSync(fixtures, { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() && !entry.name.startsWith('__') ? [entry.name] : [],
);

/** The results under a prefix, by heed's names: `lastHiddenState`, `poolerOutput`, `logits`, ... */
export function onnxExpected(folder: string, prefix: string): Map<string, Expected> {
  const all = readSafetensors(join(fixtures, folder, 'expected.safetensors'));
  return new Map(
    [...all].flatMap(([name, value]) =>
      name.startsWith(`${prefix}.`) ? [[name.slice(prefix.length + 1), value]] : [],
    ),
  );
}

/** A folder's inputs by heed's names: `ids` for texts, `pixels` for images. */
export function onnxInput(folder: string): { ids?: TokenIds; pixels?: Expected } {
  const all = readSafetensors(join(fixtures, folder, 'input.safetensors'));
  const rows = (name: string) => {
    const given = all.get(name);
    if (!given) return undefined;
    const width = given.shape[1]!;
    return Array.from({ length: given.shape[0]! }, (_, i) => [...given.data.subarray(i * width, (i + 1) * width)]);
  };
  const inputIds = rows('input_ids');
  const tokenTypeIds = rows('token_type_ids');
  const attentionMask = rows('attention_mask');
  return {
    ...(inputIds && {
      ids: { inputIds, ...(attentionMask && { attentionMask }), ...(tokenTypeIds && { tokenTypeIds }) },
    }),
    ...(all.has('pixel_values') && { pixels: all.get('pixel_values')! }),
  };
}

const HEADS = {
  BertForSequenceClassification: 'sequence-classification',
  RobertaForSequenceClassification: 'sequence-classification',
  DistilBertForSequenceClassification: 'sequence-classification',
  ModernBertForSequenceClassification: 'sequence-classification',
  DebertaV2ForSequenceClassification: 'sequence-classification',
  BertForTokenClassification: 'token-classification',
  BertForQuestionAnswering: 'question-answering',
  BertForMaskedLM: 'fill-mask',
} as const;

/** The model's results on the folder's inputs, by the names of `onnxExpected`. */
export async function onnxResults(model: PretrainedModel, folder: string): Promise<Map<string, Expected>> {
  const { ids, pixels } = onnxInput(folder);
  const config = JSON.parse(readFileSync(join(fixtures, folder, 'config.json'), 'utf8'));
  const head = HEADS[config.architectures[0] as keyof typeof HEADS];
  if (head) return new Map([['logits', (await model.predict(head, ids!)).logits]]);
  if (ids && pixels)
    return new Map([
      ['images', await model.embedImages(pixels, { normalize: true })],
      ['texts', await model.embed(ids, { normalize: true })],
    ]);
  const { lastHiddenState, poolerOutput } = pixels ? await model.encodeImage(pixels) : await model.encode(ids!);
  return new Map([
    ['lastHiddenState', lastHiddenState],
    ...(poolerOutput ? [['poolerOutput', poolerOutput] as const] : []),
  ]);
}
