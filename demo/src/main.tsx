/** The page starts: it paints, then the worker loads the module. */
import { render } from 'preact';
import { App, followTitle } from './app';
import { followBuild, startEngine } from './engine/client';
import { followOffline } from './offline/offline';
import { followHand } from './rooms/hand/result';
import { followModel } from './rooms/model/state';
import { followText } from './rooms/text/room';
import { followTheme } from './state/theme';
import { followUrl } from './state/url';

followUrl();
followTheme();
followTitle();
followOffline();
render(<App />, document.getElementById('app')!);

startEngine();
followBuild();
followHand();
followText();
followModel();
