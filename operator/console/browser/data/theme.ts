import { effect, signal } from '@preact/signals'

type Theme = 'auto' | 'light' | 'dark'

/** The color scheme that the user has chosen. `auto` follows the operating system. */
export const theme = signal<Theme>('auto')

export function applyTheme(): void {
  effect(() => {
    document.documentElement.dataset['theme'] = theme.value
  })
}

const next: Readonly<Record<Theme, Theme>> = { auto: 'light', light: 'dark', dark: 'auto' }

export function switchTheme(): void {
  theme.value = next[theme.value]
}
