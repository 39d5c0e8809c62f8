/** Loads the other chains of modules of a folder with a Router. Imported on demand. */
import type { Runtime } from '../base/owned.js';
import type { ModelFolder } from '../io/files.js';
import type { Integrity } from '../io/integrity.js';
import { loadSteps } from '../models/heads/steps.js';
import type { LoadedModel, LoadOptions } from '../models/loaded-model.js';
import { Parts } from '../models/parts.js';
import { LocalModel } from '../models/pretrained.js';
import { loadModel } from './load-model.js';

/**
 * Loads the chains besides the first, which `first` is. Chains with the same model share it.
 * @throws HeedError as loading a model
 */
export async function loadRoutes(
  runtime: Runtime,
  folder: ModelFolder,
  options: LoadOptions,
  integrity: Integrity,
  first: LoadedModel,
): Promise<LocalModel[]> {
  const models: LocalModel[] = [];
  const all: LoadedModel[] = [first];
  try {
    for (const chain of first.sentence.routes!.chains.slice(1)) {
      const shared = all.find(({ sentence }) => sentence.modelFolder === chain.modelFolder);
      const loaded = shared
        ? { ...shared, sentence: { ...chain, routes: null }, release: () => {} }
        : await loadModel(runtime.core, folder, { ...options, onProgress: undefined }, integrity, chain);
      const parts = new Parts(loaded.raw, loaded.release);
      if (shared) parts.deleteEncoder = () => {}; // the other chain does
      try {
        const [steps, scores] = await loadSteps(runtime.calls, loaded, () => parts.pooler, options.signal);
        parts.steps = steps;
        if (scores) parts.heads.set('sequence-classification', scores);
        models.push(new LocalModel(runtime, loaded, parts));
        all.push(loaded);
      } catch (error) {
        parts.delete();
        throw error;
      }
    }
    return models;
  } catch (error) {
    for (const model of models) model.dispose();
    throw error;
  }
}
