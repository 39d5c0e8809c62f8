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

/** The names of the scripts in `folder` that a page loads with `entry` to run a model: those of the entry, and what it imports for a model. */
export function modelScripts(folder, entry = 'index.js') {
  const isForModels = entry === 'train.js' ? /^(models|page-models)-.*\.js$/ : /^models-.*\.js$/;
  const entries = [entry, ...readdirSync(folder).filter((name) => isForModels.test(name))];
  return [...new Set(entries.flatMap((name) => linkedScripts(folder, name)))];
}
