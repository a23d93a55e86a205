/** A custom property of the style sheet with a color. */
export type ColorName = 'allowed' | 'rejected' | 'near' | 'shadow' | 'accent' | 'muted' | 'grid'

/** Reads a color of the current scheme, for a canvas. */
export const readColor = (name: ColorName) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()

const schemes = matchMedia('(prefers-color-scheme: dark)')

/** Calls the listener when the color scheme changes. Returns a function that ends this. */
export function onSchemeChange(listener: () => void): () => void {
  const observer = new MutationObserver(listener)
  observer.observe(document.documentElement, { attributeFilter: ['data-theme'] })
  schemes.addEventListener('change', listener)
  return () => {
    observer.disconnect()
    schemes.removeEventListener('change', listener)
  }
}
