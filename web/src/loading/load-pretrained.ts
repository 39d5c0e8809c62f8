/** Loads a pretrained encoder with everything around it: layers after the pooling, heads, and the device. */

import { importing, invalid } from '../base/error.js';
import { append } from '../base/lists.js';
import type { Runtime } from '../base/owned.js';
import type { SignalLike } from '../base/platform.js';
import { FileRecord, filesOf } from '../io/file-record.js';
import type { ModelFolder } from '../io/files.js';
import { Integrity } from '../io/integrity.js';
import { SettingsRecord } from '../io/settings.js';
import { type ModelSource, withFolder } from '../io/source.js';
import type { ModelDevice } from '../models/device.js';
import { loadSteps } from '../models/heads/steps.js';
import type { LoadedModel, LoadModelOptions, LoadOptions } from '../models/loaded-model.js';
import { workingBytes } from '../models/memory.js';
import type { PretrainedModel } from '../models/model.js';
import { Parts } from '../models/parts.js';
import { LocalModel } from '../models/pretrained.js';
import { loadModel } from './load-model.js';
import type { Described } from './unread.js';

/** Loads the GPU code. Callers pass it in, because worker.js is a single file and must not include it. */
export type Devices = () => Promise<{
  openDevice(
    runtime: Pick<Runtime, 'gpu' | 'core'>,
    request: 'webgpu' | 'auto',
    loaded: LoadedModel,
    options: LoadModelOptions,
  ): Promise<ModelDevice>;
}>;

/**
 * Loads the encoder in a model's folder. `options` have been checked. `folder`: the source's folder, if it is already
 * open.
 */
export async function loadPretrained(
  runtime: Runtime,
  source: ModelSource,
  options: LoadModelOptions = {},
  folder?: ModelFolder,
  devices?: Devices,
): Promise<PretrainedModel> {
  return loadAs(runtime, source, options, folder, (...parts) => new LocalModel(...parts), devices);
}

/** The unread settings of a model. Imports the tables of settings without effect only if there are settings to look up. */
export async function unreadIn(record: SettingsRecord, described: Described): Promise<string[]> {
  if (record.unread().size === 0) return [];
  const { unreadOf } = await importing('unread', () => import('./unread.js'));
  return unreadOf(record, described);
}

/** Loads a folder and passes the result to `make`. */
export async function loadAs<Model extends object>(
  runtime: Runtime,
  source: ModelSource,
  options: LoadOptions,
  folder: ModelFolder | undefined,
  make: (...parts: ConstructorParameters<typeof LocalModel>) => Model,
  devices?: Devices,
): Promise<Model> {
  const integrity = new Integrity(options.integrity);
  const record = new FileRecord();
  const settings = new SettingsRecord();
  const load = async (opened: ModelFolder, signal: SignalLike | undefined): Promise<Model> => {
    const recorded = settings.recording(record.recording(opened));
    const loaded = await loadModel(runtime.core, recorded, { ...options, signal }, integrity);
    const parts = new Parts(loaded.raw, loaded.release);
    try {
      const { routes } = loaded.sentence;
      if (routes) {
        const { loadRoutes } = await importing('routes', () => import('./load-routes.js'));
        parts.routes = await loadRoutes(runtime, recorded, { ...options, signal }, integrity, loaded);
      }
      const [steps, scores] = await loadSteps(runtime.calls, loaded, () => parts.pooler, signal);
      parts.steps = steps;
      if (scores) parts.heads.set('sequence-classification', scores);
      if (loaded.gliner) {
        const { spanScorer } = await importing('gliner', () => import('../models/heads/gliner.js'));
        parts.spans = spanScorer(runtime.calls, loaded.gliner, loaded);
        runtime.core.reserveMemory(workingBytes(loaded.config)); // the span scorer has used some reserved memory
      }
      integrity.requireAllFound();
      await opened.complete?.(signal);
      const { device = 'wasm' } = options;
      if (device !== 'wasm' && devices) {
        const { openDevice } = await devices();
        parts.device = await openDevice(runtime, device, loaded, options);
      }
      const model = make(runtime, loaded, parts);
      append(loaded.unread, await unreadIn(settings, loaded));
      if (options.strict && loaded.unread.length > 0)
        throw invalid('fromPretrained.strict', 'settings that heed knows', loaded.unread.join(', '), 'UNSUPPORTED');
      filesOf.set(model, record);
      return model;
    } catch (error) {
      parts.delete();
      throw error;
    }
  };
  if (!folder) return withFolder(source, { ...options, hub: runtime.hub, integrity }, load);
  try {
    return await load(folder, options.signal);
  } catch (error) {
    await folder.failed?.(error);
    throw error;
  }
}
