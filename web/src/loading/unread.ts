/**
 * Finds the settings of a model's files that heed neither reads nor knows to be without effect. Imported on demand, if
 * there are settings that nothing has read.
 */
import type { SettingsRecord } from '../io/settings.js';
import { TYPE } from '../models/families/families.js';
import { colbertSettings } from '../models/heads/late-interaction.js';
import { headKeys } from '../models/heads/task-heads.js';
import type { LoadedModel } from '../models/loaded-model.js';
import { reasonFor } from './without-effect.js';

/** What decides about the settings that are read after the load. */
export type Described = Pick<LoadedModel, 'type' | 'settings'> & { sentence: Pick<LoadedModel['sentence'], 'general'> };

/** The unread settings, such as 'config.json: foo'. */
export function unreadOf(record: SettingsRecord, described: Described): string[] {
  readLate(described);
  return [...record.unread()].flatMap(([file, settings]) => {
    const type = settings.names().includes(TYPE) && !/sentence_transformers/.test(file) ? described.type : null;
    const keys = settings.unread().filter((key) => reasonFor(file, key, type) === null);
    return keys.map((key) => `${file}: ${key}`);
  });
}

/** Reads the settings that a model reads when it is first used for a task. */
function readLate({ type, settings, sentence }: Described): void {
  for (const key of headKeys(type)) settings.get(key);
  sentence.general?.get('max_active_dims');
  for (const isQuery of [true, false]) {
    try {
      colbertSettings(sentence.general, settings, isQuery);
    } catch {
      // An invalid value is reported when the model is used as a ColBERT.
    }
  }
}
