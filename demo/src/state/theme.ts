/** Light, dark, or as the system has it; the choice is in the URL like everything else. */
import { computed, effect, signal } from '@preact/signals';
import { choice } from './codecs';
import { urlState } from './url';

export type Theme = 'light' | 'dark';

export const chosenTheme = urlState<Theme | 'auto'>('all', 'theme', 'auto', choice('auto', 'light', 'dark'));
const systemDark = matchMedia('(prefers-color-scheme: dark)');
const system = signal<Theme>(systemDark.matches ? 'dark' : 'light');
export const theme = computed(() => (chosenTheme.value === 'auto' ? system.value : chosenTheme.value));

/** Of attention weights, red, green, blue; drawn as opaque as the weight is large. */
export const heatColour = computed((): [number, number, number] =>
  theme.value === 'dark' ? [255, 178, 96] : [186, 74, 8],
);

/** A custom property of the theme in force, for what CSS does not draw. */
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
