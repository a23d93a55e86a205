import { displayText, formatCount } from '../data/format.ts'
import { fieldValue, html } from '../data/html.ts'

interface ChoiceProps {
  readonly id: string
  readonly label: string
  /** The values to choose from, each with its text if the text differs from the value. */
  readonly options: readonly { readonly value: string; readonly text?: string }[]
  readonly chosen: string
  readonly onChoose: (value: string) => void
  /** The number of options, if there are more values that are not listed; undefined if all are listed. */
  readonly listed?: number | undefined
}

/**
 * A labelled list from which one value is chosen. The chosen value is listed even if it is no longer an
 * option.
 */
export function Choice({ id, label, options, chosen, onChoose, listed }: ChoiceProps) {
  const all = options.some(({ value }) => value === chosen) ? options : [{ value: chosen }, ...options]
  return html`<p class="choice">
    <label for=${id}>${label}</label>
    <select id=${id} onChange=${(event: Event) => onChoose(fieldValue(event))}>
      ${all.map(
        ({ value, text = value }) => html`<option key=${value} value=${value} selected=${value === chosen}>
          ${displayText(text)}
        </option>`,
      )}
    </select>
    ${
      listed !== undefined &&
      html`<span class="fine">
        The first ${formatCount(listed)} are listed. Others open by a link or an address with their name.
      </span>`
    }
  </p>`
}
