/** Masthead, the four rooms, and a line on what is running. */
import { effect } from '@preact/signals';
import { Choice, CopyButton } from './components/controls';
import { complete, failure, info, shipped } from './engine/client';
import { offlineReady, online } from './offline/offline';
import { HandRoom } from './rooms/hand/room';
import { ModelRoom } from './rooms/model/room';
import { SpeedRoom } from './rooms/speed/room';
import { TextRoom } from './rooms/text/room';
import { chosenTheme } from './state/theme';
import { currentLink, linkIsComplete, links, type Room, room } from './state/url';

const names: [Room, string][] = [
  ['hand', 'By hand'],
  ['text', 'Your text'],
  ['model', 'Your model'],
  ['speed', 'Speed'],
];
const views = { hand: HandRoom, text: TextRoom, model: ModelRoom, speed: SpeedRoom };

export function followTitle(): void {
  effect(() => {
    document.title = `heed: ${names.find(([target]) => target === room.value)![1].toLowerCase()}, see attention work`;
  });
}

export function App() {
  const View = views[room.value];
  return (
    <>
      <header class="masthead">
        <button type="button" class="skip" onClick={() => document.querySelector('main')!.focus()}>
          Skip to the content
        </button>
        <p class="wordmark">
          <a href={links.hand.value}>heed</a>
        </p>
        <nav class="rooms" aria-label="Rooms">
          {names.map(([target, name]) => (
            <a key={target} href={links[target].value} aria-current={target === room.value ? 'page' : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <div class="tools">
          <CopyButton
            label="Copy link"
            text={() => new URL(currentLink.value, location.href).href}
            disabled={!linkIsComplete.value}
            title={linkIsComplete.value ? 'A link to exactly this view' : 'The text is too long for a link'}
          />
          <ThemeChoice />
        </div>
      </header>
      <main tabIndex={-1}>
        <View key={room.value} />
      </main>
      <Status />
    </>
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
    <footer class="state-of-things">
      <span>{running()}</span>
      <span class={offlineReady.value ? 'yes' : ''}>{offline()}</span>
      <span>Everything is computed in this tab; what you type or drop stays in it.</span>
    </footer>
  );
}

function running(): string {
  if (failure.value) return 'heed is not running.';
  if (!info.value) return 'Loading the module …';
  const { version, build, reason } = info.value;
  return `heed ${version}, ${build} build (${reason})${shipped.value ? '' : '; loading the model …'}`;
}

function offline(): string {
  if (!online.value) return 'You are offline; the page works on.';
  if (offlineReady.value) return 'Saved: works offline from now on.';
  return complete.value ? 'Loaded: makes no further requests.' : '';
}
