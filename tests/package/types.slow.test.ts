// Compiles code that uses the packed type declarations, with the strictest compiler settings.
import * as fs from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { beforeAll, describe, expect, test } from 'vitest';
import { install, root, runNode } from './installed.js';

let folder: string;
beforeAll(async () => {
  folder = install('types');
  fs.writeFileSync(join(folder, 'esm.mts'), `import * as heed from 'heed';\n${entries}\n${use}${useNode}`);
  // CommonJS modules load the package with import(), and its types by name.
  const types = "import type * as types from 'heed' with { 'resolution-mode': 'import' };";
  const body = use.replace('export ', '').replace(/: heed\./g, ': types.');
  fs.writeFileSync(
    join(folder, 'common.cts'),
    `${types}\nexport async function main() { const heed = await import('heed');\n${body} }`,
  );
  fs.writeFileSync(join(folder, 'train.mts'), `import * as heed from 'heed/train';\n${useTraining}`);
  const training = useTraining.replace('export ', '').replace(/: heed\./g, ': types.');
  fs.writeFileSync(
    join(folder, 'train-common.cts'),
    `${types.replace("'heed'", "'heed/train'")}\nexport async function main() { const heed = await import('heed/train');\n${training} }`,
  );
});

// The other entries, in TypeScript modules.
const entries = [
  'service-worker',
  'train',
  'draw',
  'lens',
  'util',
  'evaluation',
  'ai-sdk',
  'langchain',
  'chroma',
  'lancedb',
]
  .map((name, i) => `export * as entry${i} from 'heed/${name}';`)
  .join('\n');

// Uses each part of the API with annotated results, so that a wrong type is a compile error.
const use = `
export async function use() {
  const runtime = await heed.load({ build: 'simd128' });
  const { output, weights } = runtime.attention([[1]], [[1]], [[1]], { causal: true, returnWeights: true });
  const data: Float32Array = output.data;
  const shape: readonly number[] = runtime.softmax([[1, 2]]).shape;
  const nested: unknown = weights?.toArray();
  const mha = new runtime.MultiHeadAttention({ embedDim: 8, numHeads: 2 });
  mha.dispose();
  const model = await runtime.fromPretrained({ 'config.json': new Uint8Array() }, { dtype: 'q8' });
  const { projections } = await model.encode('a', { outputProjections: true });
  const queries: heed.Tensor = projections.queries[0]!;
  const vectors: { data: Float32Array; shape: readonly number[] } = await model.embed(['a'], { pooling: 'mean', normalize: true });
  const extract = await heed.pipeline('feature-extraction');
  const out = await extract(['a'], { pooling: 'mean', normalize: true });
  const classify = await heed.pipeline('text-classification');
  const labels: heed.ClassificationScore[] = await classify('a', { top_k: 3 });
  const lists: heed.ClassificationScore[][] = await classify(['a'], { top_k: null });
  const averaged: heed.Tensor = mha.forward([[1]], { averageWeights: true }).weights;
  const rows: number[][] = averaged.toArray<number[][]>();
  const mask: heed.BooleanMask = runtime.masks.and(runtime.masks.causal(2), [1, 0]);
  const cost: number = heed.flops(10, { dim: 4 }).attention.flops;
  const error: Error & { code: string } = new heed.HeedError('INVALID_ARGUMENT', 'x');
  // Options of the caller's own that may be undefined.
  const signal = undefined as { aborted: boolean; reason: unknown; throwIfAborted(): void; addEventListener(): void; removeEventListener(): void } | undefined;
  const topK = undefined as number | undefined;
  const searched = await runtime.TextIndex.of(await runtime.fromPretrained(undefined, { signal, dtype: undefined }), ['a'], { signal });
  await searched.search('x', { signal, topK });
  await model.embed(['a'], { pooling: undefined, normalize: undefined, signal });
  // @ts-expect-error an unknown build
  await heed.load({ build: 'fast' });
  // @ts-expect-error an unknown pooling
  await model.embed(['a'], { pooling: 'sum' });
  // @ts-expect-error an unknown option
  await model.encode('a', { outputAttentions: true, outputs: true });
  // @ts-expect-error attentions that nothing asks for
  (await model.encode('a', { outputProjections: true })).attentions.length;
  // @ts-expect-error a missing option
  new runtime.Linear({ inFeatures: 3 });
  // @ts-expect-error weights that nothing asks for
  mha.forward([[1]]).weights.data;
  return [queries, data, shape, nested, vectors, out, error, labels, lists, rows, mask, cost];
}`;

// The same for heed/train.
const useTraining = `
export async function use() {
  const runtime: heed.TrainingHeed = await heed.load();
  const model: heed.Sequential = new runtime.Sequential([
    new runtime.Embedding({ numEmbeddings: 10, embedDim: 8 }),
    new runtime.Linear({ inFeatures: 8, outFeatures: 10 }),
  ], { seed: 1 }).train();
  const optimizer: heed.Optimizer = new runtime.optim.AdamW(model.parameters(), { lr: 1e-3, betas: [0.9, 0.999] });
  const schedule: heed.Schedule = runtime.optim.schedules.cosine(optimizer, { warmup: 1, steps: 10 });
  optimizer.zeroGrad();
  const loss: heed.Loss = runtime.losses.crossEntropy(model.forward([[1]]), [[2]], { labelSmoothing: 0.1 });
  loss.backward();
  const norm: number = runtime.optim.clipGradNorm(model.parameters(), 1);
  optimizer.step();
  schedule.step();
  const grad: heed.Tensor | null = model.parameters()[0]!.grad;
  const history: heed.History = await model.fit({ inputs: [[1]], labels: [[2]] }, { loss: 'crossEntropy', optimizer, workers: 2 });
  const bytes: Uint8Array = runtime.saveCheckpoint({ model, optimizer, schedule });
  runtime.loadCheckpoint(bytes, { model, optimizer, schedule });
  const mha = new runtime.MultiHeadAttention({ embedDim: 8, numHeads: 2 });
  const { output, backward } = mha.forward([[1]], { causal: true, backward: true });
  const { inputs, parameters } = backward(output);
  const gradient: heed.Tensor = inputs.query;
  class Own extends runtime.Module {
    layer = new runtime.Linear({ inFeatures: 1, outFeatures: 1 });
  }
  const own: heed.Parameter[] = new Own().parameters();
  // @ts-expect-error no such input
  inputs.x.data;
  // @ts-expect-error an unknown loss
  await model.fit({ inputs: [[1]], labels: [[2]] }, { loss: 'hinge', optimizer });
  return [loss.item(), norm, grad, history.loss, parameters, gradient, own];
}`;

// heed/corpus, without the types of its optional peers.
const useNode = `
import { planEmbedding, workEmbedding, type Manifest, type WorkResult } from 'heed/corpus';
export async function useNode() {
  const manifest: Manifest = await planEmbedding(['a.jsonl'], { out: 'vectors', parts: 'npy', output: 'int8', chunk: 100 });
  const result: WorkResult = await workEmbedding('vectors', { shard: { index: 0, count: 2 } });
  // @ts-expect-error an unknown format
  await planEmbedding(['a.jsonl'], { out: 'vectors', parts: 'csv' });
  return [manifest.chunks[0]!.sha256, result.rows];
}`;

const kResolutions = [
  ['node16', 'node16'],
  ['nodenext', 'nodenext'],
  ['esnext', 'bundler'],
];
const kLibraries = [['es2022', 'dom'], ['es2022'], ['es2022', 'esnext.disposable', 'webworker']];

/** Other versions of TypeScript, which tests/package/bundlers installs; the oldest one that is supported is 5.3. */
const others = ['typescript-5.3', 'typescript-5.4', 'typescript-5.6', 'typescript-7']
  .map((name) => join(import.meta.dirname, 'bundlers/node_modules', name, 'bin/tsc'))
  .filter((program) => fs.existsSync(program));
const compilers = [join(root, 'node_modules/typescript/bin/tsc'), ...others];

test.each(
  kResolutions.flatMap(([module, moduleResolution]) => kLibraries.map((lib) => ({ module, moduleResolution, lib }))),
)('module $module, resolution $moduleResolution, lib $lib', async (options) => {
  const compilerOptions = {
    ...options,
    target: 'es2022',
    types: [],
    strict: true,
    skipLibCheck: false, // checks heed's declarations ...
    skipDefaultLibCheck: true, // ... and leaves TypeScript's own, which take most of the time
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noEmit: true,
  };
  const modules = ['esm.mts', 'train.mts'];
  const files = options.moduleResolution === 'bundler' ? modules : [...modules, 'common.cts', 'train-common.cts'];
  fs.writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
  for (const compiler of compilers) await runNode([compiler, '-p', '.'], { cwd: folder });
});

describe('what docs/bundlers.md says does not compile', () => {
  const compile = (file: string, text: string, options: object) => {
    const place = install('types-limits');
    fs.writeFileSync(join(place, file), text);
    const compilerOptions = { target: 'es2022', types: [], strict: true, skipLibCheck: true, noEmit: true, ...options };
    fs.writeFileSync(join(place, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: [file] }));
    return runNode([compilers[0]!, '-p', '.'], { cwd: place });
  };
  const node10 = { module: 'esnext', moduleResolution: 'node10' };

  test('node10 resolves heed and no other entry', async () => {
    await compile('main.ts', "import { load } from 'heed';\nexport const used = load;\n", node10);
    const train = "import { load } from 'heed/train';\nexport const used = load;\n";
    await expect(compile('main.ts', train, node10)).rejects.toThrow('TS2307');
  });

  test('a static import in a CommonJS module, under node16 but not under nodenext', async () => {
    const text = "import { load } from 'heed';\nexport const used = load;\n";
    const errors = compile('main.cts', text, { module: 'node16' });
    await expect(errors).rejects.toThrow('TS1479');
    await compile('main.cts', text, { module: 'nodenext' });
  });
});

// What an editor shows beside a name that the mouse rests on.
describe('hovers', () => {
  const text = `import { load, Tensor, TextIndex } from 'heed';
  const heed = await load();
  const model = await heed.fromPretrained();
  const vectors = await model.embed(['a']);
  vectors.shape; vectors.data; model.config; model.config.maxLength; model.dimensions;
  const index = await heed.TextIndex.of(model, ['a']);
  index.save(); index.size; index.search('a');`;
  const file = () => join(install('types-hovers'), 'main.mts');

  const hoverOf = (service: ts.LanguageService, path: string, words: string) => {
    const at = text.indexOf(words) + words.lastIndexOf('.') + 1;
    const info = service.getQuickInfoAtPosition(path, at)!;
    return { type: ts.displayPartsToString(info.displayParts), says: ts.displayPartsToString(info.documentation) };
  };

  test('say what a member is, and name its type as it is written', () => {
    const path = file();
    const options = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, strict: true, types: [] };
    const service = ts.createLanguageService({
      getCompilationSettings: () => options,
      getScriptFileNames: () => [path],
      getScriptVersion: () => '1',
      getScriptSnapshot: (name) => {
        const content = name === path ? text : ts.sys.readFile(name);
        return content === undefined ? undefined : ts.ScriptSnapshot.fromString(content);
      },
      getCurrentDirectory: () => join(path, '..'),
      getDefaultLibFileName: ts.getDefaultLibFilePath,
      fileExists: (name) => name === path || ts.sys.fileExists(name),
      readFile: (name) => (name === path ? text : ts.sys.readFile(name)),
      directoryExists: ts.sys.directoryExists,
      getDirectories: ts.sys.getDirectories,
    });
    const hovers = Object.fromEntries(
      [
        'vectors.shape',
        'vectors.data',
        'model.config',
        'config.maxLength',
        'model.dimensions',
        'index.save',
        'index.size',
        'index.search',
      ].map((words) => [words, hoverOf(service, path, words)]),
    );
    for (const [words, { says }] of Object.entries(hovers)) expect(says, words).toMatch(/\w{3}/);
    expect(hovers['vectors.shape']!.type).toContain('shape: number[]');
    expect(hovers['vectors.shape']!.says).toContain('each axis');
    expect(hovers['vectors.data']!.says).toContain('row-major');
    expect(hovers['model.config']!.type).toContain('ModelConfig');
    expect(hovers['model.config']!.says).toContain('labels');
    expect(hovers['index.save']!.type).toContain('Promise<Uint8Array');
  });
});
