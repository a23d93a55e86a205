import { formatShare } from '../data/format.ts'
import { html } from '../data/html.ts'

/** A share from 0 to 1 as a bar, with its number. */
export const Share = ({ value }: { readonly value: number }) => html`<span class="share">
  <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
    <rect width="100" height="6" />
    <rect class="part" width=${value * 100} height="6" />
  </svg>
  ${formatShare(value)}
</span>`
