/** Loads a pretrained encoder with everything around it: layers after the pooling, heads, and the device. */
import { importing } from '../base/error.js';
import type { Runtime } from '../base/owned.js';
import type { GpuLike, SignalLike } from '../base/platform.js';
import { FileRecord, filesOf } from '../io/file-record.js';
import type { ModelFolder } from '../io/files.js';
import { Integrity } from '../io/integrity.js';
import { type ModelSource, withFolder } from '../io/source.js';
import type { ModelDevice } from './device.js';
import { loadVectorLayers } from './heads/vector-layers.js';
import { type LoadedModel, type LoadModelOptions, loadModel } from './load.js';
import { workingBytes } from './memory.js';
import type { PretrainedModel } from './model.js';
import { Parts } from './parts.js';
import { LocalModel } from './pretrained.js';

/** Loads the GPU code. Callers pass it in, because worker.js is a single file and must not include it. */
export type Devices = () => Promise<{
  openDevice(
    gpu: GpuLike | undefined,
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

/** Loads a folder and passes the result to `make`. */
export async function loadAs<Model extends object>(
  runtime: Runtime,
  source: ModelSource,
  options: LoadModelOptions,
  folder: ModelFolder | undefined,
  make: (...parts: ConstructorParameters<typeof LocalModel>) => Model,
  devices?: Devices,
): Promise<Model> {
  const integrity = new Integrity(options.integrity);
  const record = new FileRecord();
  const load = async (opened: ModelFolder, signal: SignalLike | undefined): Promise<Model> => {
    const loaded = await loadModel(runtime.core, record.recording(opened), { ...options, signal }, integrity);
    const parts = new Parts(loaded.raw, loaded.release);
    try {
      const [layers, classifier] = await loadVectorLayers(runtime.calls, loaded, signal);
      parts.vectorLayers = layers!;
      if (classifier) parts.heads.set('sequence-classification', { chain: classifier, takesVectors: true });
      if (loaded.gliner) {
        const { spanScorer } = await importing('gliner', () => import('./heads/gliner.js'));
        parts.spans = spanScorer(runtime.calls, loaded.gliner, loaded);
        runtime.core.reserveMemory(workingBytes(loaded.config)); // the span scorer has used some reserved memory
      }
      integrity.requireAllFound();
      await opened.complete?.(signal);
      const { device = 'wasm' } = options;
      if (device !== 'wasm' && devices) {
        const { openDevice } = await devices();
        parts.device = await openDevice(runtime.gpu, device, loaded, options);
      }
      const model = make(runtime, loaded, parts);
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
