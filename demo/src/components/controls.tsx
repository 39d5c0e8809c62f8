/** Form controls. */
import type { Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useId, useState } from 'preact/hooks';

export function Toggle({ label, state, hint }: { label: ComponentChildren; state: Signal<boolean>; hint?: string }) {
  return (
    <label class="toggle">
      <input
        type="checkbox"
        role="switch"
        checked={state.value}
        aria-checked={state.value}
        onInput={(event) => {
          state.value = event.currentTarget.checked;
        }}
      />
      <span>
        {label}
        {hint && <small>{hint}</small>}
      </span>
    </label>
  );
}

interface SliderProps {
  label: ComponentChildren;
  value: number;
  onChange: (value: number) => void;
  min: number;
  max: number;
  step?: number;
  shown?: string;
  disabled?: boolean;
}

export function Slider({
  label,
  value,
  onChange,
  min,
  max,
  step = 1,
  shown = String(value),
  disabled = false,
}: SliderProps) {
  const id = useId();
  return (
    <div class="slider">
      <label for={id}>{label}</label>
      <output for={id}>{shown}</output>
      <input
        id={id}
        type="range"
        {...{ min, max, step, value, disabled }}
        aria-valuetext={shown}
        onInput={(event) => onChange(event.currentTarget.valueAsNumber)}
      />
    </div>
  );
}

interface ChoiceProps<T extends string | number> {
  label: string;
  /** A signal, or what reads and writes one. */
  state: { value: T };
  options: readonly (readonly [value: T, name: ComponentChildren])[];
}

/** A choice between a few options, side by side. */
export function Choice<T extends string | number>({ label, state, options }: ChoiceProps<T>) {
  const id = useId();
  return (
    <fieldset class="choice">
      <legend>{label}</legend>
      <div class="segments">
        {options.map(([value, name]) => (
          <label key={value}>
            <input
              type="radio"
              name={id}
              checked={state.value === value}
              onInput={() => {
                state.value = value;
              }}
            />
            <span>{name}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

interface StepperProps extends Omit<SliderProps, 'label' | 'step' | 'shown'> {
  label: string;
}

export function Stepper({ label, value, onChange, min, max }: StepperProps) {
  const id = useId();
  const what = label.toLowerCase();
  return (
    <div class="stepper">
      <span id={id}>{label}</span>
      <button type="button" aria-label={`Decrease ${what}`} disabled={value <= min} onClick={() => onChange(value - 1)}>
        −
      </button>
      <output aria-labelledby={id}>{value}</output>
      <button type="button" aria-label={`Increase ${what}`} disabled={value >= max} onClick={() => onChange(value + 1)}>
        +
      </button>
    </div>
  );
}

interface CopyProps {
  label: string;
  /** Called when the button is clicked. */
  text: () => string;
  disabled?: boolean;
  title?: string;
}

export function CopyButton({ label, text, disabled = false, title }: CopyProps) {
  const [said, say] = useState('');
  const copy = async () => {
    say(
      await navigator.clipboard.writeText(text()).then(
        () => 'Copied',
        () => 'Copying is not allowed',
      ),
    );
    setTimeout(() => say(''), 2000);
  };
  return (
    <button type="button" onClick={copy} {...{ disabled, title }}>
      <span aria-live="polite">{said || label}</span>
    </button>
  );
}

/** A message; `alert` if the reader has to act. */
export function Notice({
  kind = 'note',
  title,
  children,
}: {
  kind?: 'note' | 'alert';
  title?: string;
  children: ComponentChildren;
}) {
  return (
    <div class={`notice ${kind}`} role={kind === 'alert' ? 'alert' : 'note'}>
      {title && <strong>{title}</strong>}
      {children}
    </div>
  );
}
