/** Files of others whose names look like heed's, and snapshots of them. */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname, join, relative } from 'node:path';

const digest = (text: string | Uint8Array) => createHash('sha256').update(text).digest('hex');

/** Names as heed uses them, with other contents. Texts without a line feed at their end are the ones that `cut` loses. */
export const FOREIGN: Record<string, string> = {
  'backup.tmp-2024': 'mine',
  'vectors.jsonl.tmp-0123456789ab': '{"text":"mine"}',
  [digest('a')]: 'a blob of mine',
  [`${digest('b')}.json`]: '{"files":{}}',
  [`${digest('c')}.json`]: '{"files":{"config.json":{"url":"https://x/config.json","key":"mine"}}}',
  [`${digest('d')}.json`]: '{"heed":"mine"}',
  [`${digest('e')}.01234567-89ab-cdef-0123-456789abcdef`]: 'a part of mine',
  notes: 'my first note\nmy second note, no line feed at its end',
  'data.jsonl': '{"text":"the fox"}',
  'notes.npy': 'my notes',
  'index.safetensors': 'no tensors',
  'out.jsonl.resume.json': '{"mine":true}',
  'out.npy.resume.json': '{"options":{},"model":"mine","heed":"0.2.0","probe":"x"}',
  'out.training/data.csv': 'text,label\nthe fox,a\na x,b\nthe brown fox,a\nquick,b\n',
  'out.training/notes.txt': 'mine',
  'seeds.training/training.json': '{"seed":3,"lr":0.1}',
  'seeds.training/checkpoint.safetensors': 'mine',
  'state.training/checkpoint.safetensors': 'mine',
  'free.01234567-89ab-cdef-0123-456789abcdef/model.safetensors': 'mine',
};

/** Names in the folder of a plan, which a new plan refuses if they begin as those of parts. */
export const FOREIGN_PARTS: Record<string, string> = {
  'part-00000.jsonl.tmp-0123456789ab': 'mine',
  'part-00001.jsonl.tmp-2024': '{"text":"mine"}\n',
  'part-00000.npy.tmp-0123456789ab': 'mine',
  'part-00099.jsonl.tmp-0123456789ab': 'mine',
  'part-00099.failed': '{"mine":true}',
  'part-00000.jsonl.damaged-0123456789ab': 'mine',
  '_SUCCESS.tmp-0123456789ab': 'mine',
  'manifest.json.tmp-0123456789ab': 'mine',
};

/** Writes files as if they had been there for three days. */
export function place(folder: string, files: Record<string, string>): void {
  const before = Date.now() / 1000 - 3 * 86_400;
  for (const [name, content] of Object.entries(files)) {
    const path = join(folder, name);
    fs.mkdirSync(dirname(path), { recursive: true });
    fs.writeFileSync(path, content);
    fs.utimesSync(path, before, before);
  }
}

/** The files below a folder with the digests of their contents. */
export function snapshot(folder: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const entry of fs.readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile()) found[relative(folder, path)] = digest(fs.readFileSync(path));
  }
  return found;
}

/** The files that have been deleted or changed since a snapshot. */
export function changed(folder: string, before: Record<string, string>): string[] {
  const now = snapshot(folder);
  return Object.keys(before).filter((name) => now[name] !== before[name]);
}
