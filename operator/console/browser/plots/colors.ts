/** The name of a color of the style sheet. */
export type ColorName = 'allowed' | 'rejected' | 'near' | 'shadow' | 'accent' | 'muted' | 'grid'

/** Reads a color of the active scheme, for a canvas. */
export const readColor = (name: ColorName) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()

const schemes = matchMedia('(prefers-color-scheme: dark)')

/** Calls the listener when the scheme changes, until the returned function is called. */
export function onSchemeChange(listener: () => void): () => void {
  const observer = new MutationObserver(listener)
  observer.observe(document.documentElement, { attributeFilter: ['data-theme'] })
  schemes.addEventListener('change', listener)
  return () => {
    observer.disconnect()
    schemes.removeEventListener('change', listener)
  }
}
