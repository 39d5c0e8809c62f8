/** Scripts that the first page does not need. They are downloaded when they are used, or in the background when the model has loaded. */
import '../pages/lens/state';
import '../pages/speed/state';

export const loadModelPage = () => import('./model/page');
export const loadLensPage = () => import('./lens/page');
export const loadSpeedPage = () => import('./speed/page');
/** Only when it is opened. */
export const loadCode = () => import('./code/code');
const loadPlots = () => import('../components/plot-library');

export const laterScripts = (): Promise<unknown>[] => [loadModelPage(), loadLensPage(), loadSpeedPage(), loadPlots()];
