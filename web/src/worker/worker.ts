/** The script of a worker that runs a model. */
import create from 'heed-glue/inference';
import createThreaded from 'heed-glue/threads';
import { makeHandler } from './handler.js';
import { listen } from './port.js';

// Imports nothing at run time: Vite before version 8 makes one script of a worker, and refuses to if it does.
listen((post) => makeHandler({ create, createThreaded: async () => createThreaded }, post));
