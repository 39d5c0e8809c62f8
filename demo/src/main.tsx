/** Draws the page, then loads the library and the model. */
import { render } from 'preact';
import { App, followTitle } from './app';
import { followBuild, start } from './engine/heed';
import { followOffline } from './offline/offline';
import { followHand } from './pages/hand/result';
import { laterScripts } from './pages/later';
import { followModel } from './pages/model/state';
import { followText } from './pages/text/page';
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
followText();
followModel();
