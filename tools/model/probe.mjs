#!/usr/bin/env node
// Writes into the index of the model's dictionary by what the model is recognized (`probe`, see web/src/search/same-model.ts). The vectors stay as they are. After tools/model/dictionary.py:
//
//     node tools/model/probe.mjs [FOLDER]
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load, TextIndex } from 'heed';

const folder = process.argv[2] ?? fileURLToPath(new URL('../../web/model', import.meta.url));
const heed = await load();
const model = await heed.fromPretrained(folder);
const dictionary = join(folder, 'dictionary');
const { dimensions } = await TextIndex.load(dictionary);
const index = await TextIndex.load(dictionary, { embedder: model, dimensions });
writeFileSync(join(dictionary, 'index.safetensors'), index.toSafetensors());
heed.dispose();
