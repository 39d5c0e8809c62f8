/** The header, the pages, and the status line. */
import { effect } from '@preact/signals';
import { useState } from 'preact/hooks';
import { Choice, CopyButton } from './components/controls';
import { lazy } from './components/lazy';
import { complete, failure, heed, savesData, shipped } from './engine/heed';
import { offlineReady, online } from './offline/offline';
import { loadCode, loadHandPage, loadLensPage, loadModelPage, loadSpeedPage, loadTextPage } from './pages/later';
import { LearningPage } from './pages/learning/lazy';
import { loaded as learningLoaded, sharedClassifier } from './pages/learning/state';
import { StartPage } from './pages/start/page';
import { chosenTheme } from './state/theme';
import { currentLink, linkIsComplete, links, type Page, page } from './state/url';

/** The name in the masthead leads to the first page. */
const names: [Page, string][] = [
  ['hand', 'By hand'],
  ['text', 'Your text'],
  ['model', 'Your model'],
  ['learning', 'Learning'],
  ['lens', 'Lens'],
  ['speed', 'Speed'],
];
const HandPage = lazy(() => loadHandPage().then(({ HandPage }) => HandPage));
const ModelPage = lazy(() => loadModelPage().then(({ ModelPage }) => ModelPage));
const LensPage = lazy(() => loadLensPage().then(({ LensPage }) => LensPage));
const TextPage = lazy(() => loadTextPage().then(({ TextPage }) => TextPage));
const SpeedPage = lazy(() => loadSpeedPage().then(({ SpeedPage }) => SpeedPage));
const Code = lazy(() => loadCode().then(({ Code }) => Code));
const views = {
  start: StartPage,
  hand: HandPage,
  text: TextPage,
  model: ModelPage,
  learning: LearningPage,
  lens: LensPage,
  speed: SpeedPage,
};

export function followTitle(): void {
  effect(() => {
    const name = names.find(([target]) => target === page.value)?.[1].toLowerCase();
    document.title = `heed: ${name ? `${name}, ` : ''}see how attention works`;
  });
}

export function App() {
  const View = views[page.value];
  return (
    <>
      <header class="masthead">
        <button type="button" class="skip" onClick={() => document.querySelector('main')!.focus()}>
          Skip to content
        </button>
        <p class="wordmark">
          <a href={links.start.value} aria-current={page.value === 'start' ? 'page' : undefined}>
            heed
          </a>
        </p>
        <nav class="pages" aria-label="Pages">
          {names.map(([target, name]) => (
            <a key={target} href={links[target].value} aria-current={target === page.value ? 'page' : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <div class="tools">
          <CopyButton
            label="Copy link"
            text={() => new URL(currentLink.value, location.href).href}
            disabled={!linkIsComplete.value}
            title={linkIsComplete.value ? 'A link to this view' : 'The text is too long for a link'}
          />
          <ThemeChoice />
        </div>
      </header>
      <main tabIndex={-1}>
        <View key={page.value} />
      </main>
      <Footer />
    </>
  );
}

const sources = 'https://github.com/heed/heed';

function Footer() {
  const [open, setOpen] = useState(false);
  return (
    <footer>
      <details class="program" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>Code</summary>
        {open && <Code />}
      </details>
      <p class="links">
        <code>npm install heed</code> <CopyButton label="Copy" text={() => 'npm install heed'} />
        <a href={sources}>Repository</a>
        <a href={`${sources}/tree/main/docs`}>Documentation</a>
        <a href={`${sources}/blob/main/LICENSE`}>Licence: Apache 2.0</a>
      </p>
      <Status />
    </footer>
  );
}

function ThemeChoice() {
  return (
    <div class="theme">
      <Choice
        label="Theme"
        state={chosenTheme}
        options={[
          ['auto', 'auto'],
          ['light', 'light'],
          ['dark', 'dark'],
        ]}
      />
    </div>
  );
}

function Status() {
  return (
    <div class="status-line">
      <span>{running()}</span>
      <span class={offlineReady.value ? 'yes' : ''}>{offline()}</span>
      <span>Everything is computed in this tab; your text and files are not sent anywhere.</span>
    </div>
  );
}

function running(): string {
  if (failure.value) return 'heed is not running.';
  if (!heed.value) return 'Loading the module …';
  const { version, build, reason } = heed.value.info;
  const waiting = shipped.value ? '' : savesData ? '; the model is not loaded' : '; loading the model …';
  return `heed ${version}, ${build} build (${reason})${waiting}`;
}

function offline(): string {
  // “Learning” is loaded when it is opened.
  const all = learningLoaded.value;
  if (!online.value)
    return all
      ? 'You are offline; the page still works.'
      : 'You are offline; the page still works, except “Learning” if it was not opened before.';
  if (savesData) return 'Your browser is set to save data: parts of the page are downloaded when they are opened.';
  if (page.value === 'learning' && !all && !sharedClassifier.value) return ''; // it is being loaded; a shared classifier needs none of it
  if (offlineReady.value)
    return all
      ? 'Saved: the page now works offline.'
      : 'Saved: the page now works offline, except “Learning” until it has been opened.';
  if (!complete.value) return '';
  return all
    ? 'Loaded: the page makes no further requests of its own. “Code” is loaded when it is opened.'
    : 'Loaded: the page makes no further requests of its own. “Learning” and “Code” are loaded when they are opened.';
}
