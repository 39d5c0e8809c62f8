/**
 * Lists the files of a model's folder: all of them if the source can be listed, for URLs those with the names that
 * models use.
 */
import { guarded } from '../base/error.js';
import { nodeModule } from '../base/platform.js';
import { IMAGE_SETTINGS, INPUT_SETTINGS, OLD_TRANSFORMER_SETTINGS, TRANSFORMER_SETTINGS } from './file-names.js';
import { discard, type ModelFolder, parseJson, readAll } from './files.js';
import { fs, statusOf } from './node.js';
import { isInside } from './paths.js';
import type { ModelSource } from './source.js';

/**
 * Names of the files, except weights and those of modules in modules.json, from which heed or other programs load a
 * model.
 */
export const MODEL_FILES = [
  ...['config.json', 'tokenizer.json', 'tokenizer_config.json', 'special_tokens_map.json', 'added_tokens.json'],
  ...['vocab.txt', 'vocab.json', 'merges.txt', 'sentencepiece.bpe.model', 'spiece.model'],
  ...['modules.json', 'config_sentence_transformers.json', '1_Pooling/config.json', 'artifact.metadata'],
  ...[TRANSFORMER_SETTINGS, ...OLD_TRANSFORMER_SETTINGS, IMAGE_SETTINGS, INPUT_SETTINGS],
];

/** Weights in the formats of other programs. */
const OTHER_WEIGHTS =
  /(^|\/)(\.|onnx\/|openvino\/)|\.(bin|h5|msgpack|onnx|ot|pt|pth|ckpt|onnx_data|gguf|tflite|mlmodel)$/i;

/** The paths of a folder's files; `others` are weights for other programs. `complete`: false if nothing was found. */
export async function listFiles(
  source: ModelSource,
  folder: ModelFolder,
): Promise<{ paths: string[]; others: string[]; complete: boolean }> {
  const all = (await listed(source)) ?? (await knownFiles(folder));
  const isOther = (path: string) => OTHER_WEIGHTS.test(path);
  return {
    paths: all.filter((path) => !isOther(path)).sort(),
    others: all.filter(isOther).sort(),
    complete: all.length > 0,
  };
}

async function listed(source: ModelSource): Promise<string[] | null> {
  if (typeof source === 'string') {
    if (!fs || !(await statusOf(source))?.isDirectory()) return null;
    const { join, relative, sep } = nodeModule<typeof import('node:path')>('path')!;
    const entries = await fs.readdir(source, { recursive: true, withFileTypes: true });
    const paths = await Promise.all(
      entries.map(async (entry) => {
        const path = join(entry.parentPath ?? entry.path, entry.name);
        // In Hugging Face's cache, files are symbolic links.
        const isFile = entry.isFile() || (entry.isSymbolicLink() && (await statusOf(path))?.isFile());
        return isFile ? [relative(source, path).split(sep).join('/')] : [];
      }),
    );
    return paths.flat();
  }
  const isRecord = guarded('source', () => !('href' in source) && !(Symbol.iterator in source));
  return isRecord ? guarded('source', () => Object.keys(source)) : null;
}

/** The files of published models that the folder has. */
async function knownFiles(folder: ModelFolder): Promise<string[]> {
  const paths = [...MODEL_FILES, 'README.md', 'LICENSE'];
  const modules = await folder.open('modules.json', {});
  if (modules) {
    const list = parseJson(await readAll(modules), modules.name);
    for (const { path } of Array.isArray(list) ? (list as { path?: string | undefined }[]) : [])
      if (typeof path === 'string' && isInside(path)) paths.push(`${path}/config.json`, `${path}/model.safetensors`);
  }
  const found = await Promise.all(
    [...new Set(paths)].map(async (path) => {
      const file = await folder.open(path, {});
      if (file) await discard(file);
      return file ? [path] : [];
    }),
  );
  return found.flat();
}
