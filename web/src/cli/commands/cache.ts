/** `heed cache`: lists and removes cached models. */
import type { Command } from 'commander';
import { listCache } from '../../index.js';
import { removeCached } from '../../io/cached-models.js';
import { invalid } from '../../node/index.js';
import { addExamples, addJson } from '../options.js';
import { counted, print, printJson, printTable } from '../terminal.js';

interface Options {
  cache?: string;
  all?: boolean;
  json?: boolean;
}

export function addCache(program: Command): void {
  const cache = program.command('cache').description('list or remove models that were downloaded into the cache');
  const list = cache.command('list', { isDefault: true }).description('list the models and their sizes');
  const clear = cache.command('clear [model]').description('remove the files of a model, given by its id or URL');
  for (const command of [list, clear])
    command.option(
      '--cache <folder>',
      "the folder of the cache (default: heed's folder in the user's cache directory)",
    );
  addJson(list, 'one line of JSON [{ source, remoteHost, revision, bytes, files }]').action(
    async ({ json, ...options }: Options) => {
      const models = await listCache(options);
      if (json) return printJson(models);
      if (models.length === 0) return print('no models');
      printTable(
        models.map(({ source, remoteHost, revision, bytes, files }): [string, string] => [
          source,
          `${bytes.toLocaleString('en')} bytes, ${counted(files.length, 'file')}${remoteHost === null ? '' : `, ${revision} of ${remoteHost}`}`,
        ]),
      );
    },
  );
  addJson(clear.option('--all', 'remove all models'), 'one line of JSON { bytes }').action(
    async (model: string | undefined, { json, all = false, ...options }: Options) => {
      if (all === (model !== undefined)) throw invalid('model', 'a model or --all', all ? 'both' : 'neither');
      const { files, bytes } = await removeCached(model, options);
      if (files === 0 && model !== undefined) throw invalid('model', 'a model in the cache', `'${model}'`, 'NOT_FOUND');
      if (json) printJson({ bytes });
      else print(`removed ${counted(files, 'file')}, ${counted(bytes, 'byte')}`);
    },
  );
  addExamples(cache, 'heed cache', 'heed cache clear org/name', 'heed cache clear --all');
}
