/** The colour theme: light, dark, or that of the system. */
import { computed, effect, signal } from '@preact/signals';
import { choice } from './codecs';
import { urlState } from './url';

export type Theme = 'light' | 'dark';

export const chosenTheme = urlState<Theme | 'auto'>('all', 'theme', 'auto', choice('auto', 'light', 'dark'));
const systemDark = matchMedia('(prefers-color-scheme: dark)');
const system = signal<Theme>(systemDark.matches ? 'dark' : 'light');
export const theme = computed(() => (chosenTheme.value === 'auto' ? system.value : chosenTheme.value));

/** The colour of attention weights as [red, green, blue]; the opacity depends on the weight. */
export const heatColour = computed((): [number, number, number] =>
  theme.value === 'dark' ? [255, 178, 96] : [186, 74, 8],
);

/** The value of a CSS custom property in the current theme, for drawing without CSS. */
export const colour = (property: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(property).trim();

export function followTheme(): void {
  systemDark.addEventListener('change', () => {
    system.value = systemDark.matches ? 'dark' : 'light';
  });
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
  });
}
