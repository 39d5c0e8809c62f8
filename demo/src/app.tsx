/** The header, the pages, and the status line. */
import { effect } from '@preact/signals';
import { useState } from 'preact/hooks';
import { Choice, CopyButton } from './components/controls';
import { lazy } from './components/lazy';
import { complete, failure, heed, savesData, shipped } from './engine/heed';
import { offlineReady, online } from './offline/offline';
import { loadCode, loadComputePage, loadInsidePage, loadMeaningPage, loadSpeedPage } from './pages/later';
import { LearnPage, TeachPage } from './pages/learning/lazy';
import { loaded as learningLoaded, sharedClassifier } from './pages/learning/state';
import { SeePage } from './pages/see/page';
import { chosenTheme } from './state/theme';
import { currentLink, linkIsComplete, links, type Page, page } from './state/url';

const names: [Page, string][] = [
  ['see', 'See'],
  ['compute', 'Compute'],
  ['learn', 'Watch it learn'],
  ['teach', 'Teach it'],
  ['meaning', 'Meaning'],
  ['inside', 'Inside'],
];
const ComputePage = lazy(() => loadComputePage().then(({ ComputePage }) => ComputePage));
const MeaningPage = lazy(() => loadMeaningPage().then(({ MeaningPage }) => MeaningPage));
const InsidePage = lazy(() => loadInsidePage().then(({ InsidePage }) => InsidePage));
const SpeedPage = lazy(() => loadSpeedPage().then(({ SpeedPage }) => SpeedPage));
const Code = lazy(() => loadCode().then(({ Code }) => Code));
const views = {
  see: SeePage,
  compute: ComputePage,
  learn: LearnPage,
  teach: TeachPage,
  meaning: MeaningPage,
  inside: InsidePage,
  speed: SpeedPage,
};

export function followTitle(): void {
  effect(() => {
    const [, name = 'Speed'] = names.find(([target]) => target === page.value) ?? [];
    document.title = page.value === 'see' ? 'heed: watch a word change its mind' : `heed: ${name}`;
  });
}

export function App() {
  const View = views[page.value];
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <header class="masthead">
        <button type="button" class="skip" onClick={() => document.querySelector('main')!.focus()}>
          Skip to content
        </button>
        <p class="wordmark">
          <a href={links.see.value}>heed</a>
        </p>
        <nav class="pages" aria-label="Pages">
          {names.map(([target, name]) => (
            <a key={target} href={links[target].value} aria-current={target === page.value ? 'page' : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <button
          type="button"
          class="menu"
          aria-expanded={isOpen}
          aria-controls="tools"
          onClick={() => setOpen(!isOpen)}
        >
          Link, theme
        </button>
        <div class="tools" id="tools">
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
        <a href={links.speed.value} aria-current={page.value === 'speed' ? 'page' : undefined}>
          Speed on this device
        </a>
        <a href={sources}>Repository</a>
        <a href={`${sources}/tree/main/docs`}>Documentation</a>
        <a href={`${sources}/tree/main/docs/course`}>Course</a>
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
  if (failure.value && !heed.value) return 'heed is not running.';
  if (!heed.value) return 'Loading the module …';
  const { version, build, reason } = heed.value.info;
  const waiting = shipped.value
    ? ''
    : savesData || failure.value
      ? '; the model is not loaded'
      : '; loading the model …';
  return `heed ${version}, ${build} build (${reason})${waiting}`;
}

function offline(): string {
  // “Watch it learn” and “Teach it” are loaded when they are opened.
  const all = learningLoaded.value;
  if (!online.value)
    return all
      ? 'You are offline; the page still works.'
      : 'You are offline; the page still works, except “Watch it learn” and “Teach it” if they were not opened before.';
  if (savesData) return 'Your browser is set to save data: parts of the page are downloaded when they are opened.';
  if ((page.value === 'learn' || page.value === 'teach') && !all && !sharedClassifier.value) return ''; // it is being loaded; a shared classifier needs none of it
  if (offlineReady.value)
    return all
      ? 'Saved: the page now works offline.'
      : 'Saved: the page now works offline, except “Watch it learn” and “Teach it” until they have been opened.';
  if (!complete.value) return '';
  return all
    ? 'Loaded: the page makes no further requests of its own. “Code” is loaded when it is opened.'
    : 'Loaded: the page makes no further requests of its own. “Watch it learn”, “Teach it” and “Code” are loaded when they are opened.';
}
