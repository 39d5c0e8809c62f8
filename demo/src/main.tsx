/** Draws the page, then loads the library and the model. */
import { render } from 'preact';
import { App, followTitle } from './app';
import { followBuild, start } from './engine/heed';
import { followOffline } from './offline/offline';
import { followHand } from './pages/hand/result';
import { laterScripts } from './pages/later';
import { followStart } from './pages/start/state';
import { followFont } from './state/font';
import { followTheme } from './state/theme';
import { followUrl } from './state/url';

followUrl();
followTheme();
followTitle();
followOffline();
render(<App />, document.getElementById('app')!);

void start(laterScripts);
followFont();
followBuild();
followHand();
followStart();
