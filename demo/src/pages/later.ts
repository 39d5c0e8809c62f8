/** Scripts that the first page does not need. They are downloaded when they are used, or in the background when the model has loaded. */

import { shipped } from '../engine/heed';
import { loadCarried, loadPositions, loadTour } from './hand/later';

export const loadHandPage = () => import('./hand/page');
export const loadTextPage = () => import('./text/page');
export const loadModelPage = () => import('./model/page');
export const loadLensPage = () => import('./lens/page');
export const loadSpeedPage = () => import('./speed/page');
/** Only when it is opened. */
export const loadCode = () => import('./code/code');
const loadPlots = () => import('../components/plot-library');

const loadDictionary = () =>
  import('../engine/dictionary').then(({ loadDictionary }) => loadDictionary(shipped.peek()!.model));

export const laterScripts = (): Promise<unknown>[] => [
  loadHandPage(),
  loadCarried(),
  loadDictionary(),
  loadTextPage(),
  loadModelPage(),
  loadLensPage(),
  loadSpeedPage(),
  loadTour(),
  loadPositions(),
  loadPlots(),
];
