/** The script of a worker that runs a model. */
import create from 'heed-glue/inference';
import createThreaded from 'heed-glue/threads';
import { makeHandler } from './handler.js';
import { listen } from './port.js';

listen((post) => makeHandler({ create, createThreaded: async () => createThreaded }, post));
