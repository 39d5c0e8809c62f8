/** Script of a worker that runs a model whose layers may run on a GPU: worker.js with heed's GPU code. */
import create from 'heed-glue/inference';
import { threaded } from '../base/wasm/threaded.js';
import { openDevice } from '../gpu/open.js';
import { loadPretrained } from '../loading/load-pretrained.js';
import type { PretrainedModel } from '../models/model.js';
import { makeHandler } from './handler.js';
import { listen, loadStore } from './port.js';

let model: PretrainedModel;
const load: typeof loadPretrained = async (runtime, source, options, folder) => {
  model = await loadPretrained(runtime, source, options, folder, async () => ({ openDevice }));
  return model;
};
const device = async () => model.device;

listen((post) => makeHandler({ create, loadThreaded: async () => threaded }, post, loadStore, { device }, load));
