import { displayText, formatCount } from '../data/format.ts'
import { html } from '../data/html.ts'

interface ChoiceProps {
  readonly id: string
  readonly label: string
  /** The values, each with its text for people; the value itself if it has none. */
  readonly options: readonly { readonly value: string; readonly text?: string }[]
  readonly chosen: string
  readonly onChoose: (value: string) => void
  /** How many of more values are listed; undefined if all are. */
  readonly listed?: number | undefined
}

/** A choice in one line. The chosen value is listed even if it is no option any more. */
export function Choice({ id, label, options, chosen, onChoose, listed }: ChoiceProps) {
  const all = options.some(({ value }) => value === chosen) ? options : [{ value: chosen }, ...options]
  return html`<p class="choice">
    <label for=${id}>${label}</label>
    <select id=${id} onChange=${(event: Event) => onChoose((event.target as HTMLSelectElement).value)}>
      ${all.map(
        ({ value, text = value }) => html`<option key=${value} value=${value} selected=${value === chosen}>
          ${displayText(text)}
        </option>`,
      )}
    </select>
    ${
      listed !== undefined &&
      html`<span class="fine">
        The first ${formatCount(listed)} are listed; a link or an address with the name opens others.
      </span>`
    }
  </p>`
}
