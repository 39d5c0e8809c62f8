/** Scripts that the first page does not need. They are downloaded when they are used, or in the background when the model has loaded. */

import { shipped } from '../engine/heed';
import { loadCarried, loadPositions, loadTour } from './compute/later';

export const loadComputePage = () => import('./compute/page');
export const loadMeaningPage = () => import('./meaning/page');
const loadWordsMap = () => import('./meaning/words-map.json');
export const loadInsidePage = () => import('./inside/page');
export const loadSpeedPage = () => import('./speed/page');
/** Only when it is opened. */
export const loadCode = () => import('./code/code');
const loadLayout = () => import('../engine/umap');
const loadPlots = () => import('../components/plot-library');

const loadDictionary = () =>
  import('../engine/dictionary').then(({ loadDictionary }) => loadDictionary(shipped.peek()!.model));

export const laterScripts = (): Promise<unknown>[] => [
  loadComputePage(),
  loadCarried(),
  loadDictionary(),
  loadMeaningPage(),
  loadWordsMap(),
  loadInsidePage(),
  loadSpeedPage(),
  loadTour(),
  loadPositions(),
  loadPlots(),
  loadLayout(),
];
