/** The adapters' declarations fit the interfaces of the real packages. */
import { execFile } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { root } from './support.js';

const source = `
import type { EmbeddingModelV4, RerankingModelV4 } from '@ai-sdk/provider';
import { embedMany as embedMany5 } from 'ai-5';
import { embedMany as embedMany6, rerank as rerank6 } from 'ai-6';
import type { EmbeddingsInterface } from '@langchain/core/embeddings';
import type { EmbeddingFunction } from 'chromadb';
import { TextEmbeddingFunction, register } from '@lancedb/lancedb/embedding';
import type { PretrainedModel } from 'heed';
import * as ai from 'heed/ai-sdk';
import * as chroma from 'heed/chroma';
import * as lancedb from 'heed/lancedb';
import * as langchain from 'heed/langchain';
declare const model: PretrainedModel;
export const embedding: EmbeddingModelV4 = ai.embeddingModel(model);
export const reranking: RerankingModelV4 = ai.rerankingModel(model);
export const five = embedMany5({ model: ai.embeddingModel(model, { specificationVersion: 'v2' }), values: [] });
export const six = [
  embedMany6({ model: ai.embeddingModel(model), values: [] }),
  rerank6({ model: ai.rerankingModel(model), query: '', documents: [''] }),
];
export const embeddings: EmbeddingsInterface = langchain.embeddings(model);
export const ef: EmbeddingFunction = chroma.embeddingFunction(model);
register('heed')(lancedb.embeddingFunction(TextEmbeddingFunction, model));
`;

test('under strict', async () => {
  const folder = join(root, 'tests/adapters/apps/types');
  fs.mkdirSync(folder, { recursive: true });
  const compilerOptions = {
    target: 'es2022',
    module: 'esnext',
    moduleResolution: 'bundler',
    lib: ['es2022', 'dom', 'esnext.disposable'],
    types: [],
    strict: true,
    skipLibCheck: true, // the other packages' declarations; tests/package checks heed's
    noEmit: true,
  };
  fs.writeFileSync(join(folder, 'use.ts'), source);
  fs.writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['use.ts'] }));
  const compiled = promisify(execFile)(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder]);
  await expect(
    compiled.catch(({ stdout }: { stdout: string }) => Promise.reject(new Error(stdout))),
  ).resolves.toBeDefined();
});
