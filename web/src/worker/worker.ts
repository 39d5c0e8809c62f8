/** Script of a worker that runs a model. */
import create from 'heed-glue/inference';
import { threaded } from '../base/wasm/threaded.js';
import { makeHandler } from './handler.js';
import { listen } from './port.js';

listen((post) => makeHandler({ create, loadThreaded: async () => threaded }, post));
