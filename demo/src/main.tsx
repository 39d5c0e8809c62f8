/** Draws the page, then loads the library and the model. */
import { render } from 'preact';
import { App, followTitle } from './app';
import { followBuild, start } from './engine/heed';
import { followOffline } from './offline/offline';
import { laterScripts, loadComputePage } from './pages/later';
import { followSee } from './pages/see/state';
import { followArrivals } from './state/arrival';
import { followFont } from './state/font';
import { followPointer } from './state/pointer';
import { followTheme } from './state/theme';
import { followUrl, page } from './state/url';

followUrl();
followPointer();
if (page.peek() === 'compute') void loadComputePage().catch(() => {}); // the page itself reports a failure
followTheme();
followTitle();
followOffline();
render(<App />, document.getElementById('app')!);
followArrivals();

void start(laterScripts);
followFont();
followBuild();
followSee();
