import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'

export interface DomainChoiceProps {
  readonly names: readonly string[]
  readonly chosen: string | undefined
  readonly onChoose: (domain: string) => void
}

/** The choice of the domain that a page shows. */
export function DomainChoice({ names, chosen, onChoose }: DomainChoiceProps) {
  if (chosen === undefined) return null
  const all = names.includes(chosen) ? names : [chosen, ...names]
  return html`<p class="choice">
    <label for="domain">Domain</label>
    <select id="domain" onChange=${(event: Event) => onChoose((event.target as HTMLSelectElement).value)}>
      ${all.map(
        name => html`<option value=${name} selected=${name === chosen}>
          ${displayText(name)}
        </option>`,
      )}
    </select>
  </p>`
}
