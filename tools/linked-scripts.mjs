import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The names of the scripts in `folder` that a page loads with `entry`: itself, and what its scripts import statically. */
export function linkedScripts(folder, entry = 'index.js') {
  const names = [entry];
  for (const name of names)
    for (const [, found] of readFileSync(join(folder, name), 'utf8').matchAll(/\bfrom\s*["'`]\.\/([^"'`]+)/g))
      if (!names.includes(found)) names.push(found);
  return names;
}

/** The names of the scripts that `entry` and its scripts import when they are used, with what those import, and that it does not load at once. */
export function laterScripts(folder, entry = 'index.js') {
  const linked = linkedScripts(folder, entry);
  const names = new Set(linked);
  for (const name of names)
    for (const [, found] of readFileSync(join(folder, name), 'utf8').matchAll(/\bimport\(["'`]\.\/([^"'`]+)/g))
      for (const script of linkedScripts(folder, found)) names.add(script);
  return [...names].filter((name) => !linked.includes(name));
}

/** The names of the scripts in `folder` that a page of heed/train loads to run a model: those of train.js, and what it imports for a model. */
export function trainModelScripts(folder) {
  const models = readdirSync(folder).find((name) => /^page-models-.*\.js$/.test(name));
  return [...new Set(['train.js', models].flatMap((name) => linkedScripts(folder, name)))];
}
