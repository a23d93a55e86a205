/** The name, without `--`, of a custom property of the style sheet that has a color. */
export type ColorName = 'allowed' | 'rejected' | 'near' | 'shadow' | 'accent' | 'muted' | 'grid'

/** Returns a color for a canvas, which cannot use custom properties. */
export const readColor = (name: ColorName) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()

const schemes = matchMedia('(prefers-color-scheme: dark)')

/** Returns a function that removes the listener. */
export function onSchemeChange(listener: () => void): () => void {
  const observer = new MutationObserver(listener)
  observer.observe(document.documentElement, { attributeFilter: ['data-theme'] })
  schemes.addEventListener('change', listener)
  return () => {
    observer.disconnect()
    schemes.removeEventListener('change', listener)
  }
}
