import { displayText, formatCount } from '../data/format.ts'
import { fieldValue, html } from '../data/html.ts'

interface ChoiceProps {
  readonly id: string
  readonly label: string
  /** `text` is shown instead of the value. */
  readonly options: readonly { readonly value: string; readonly text?: string }[]
  readonly chosen: string
  readonly onChoose: (value: string) => void
  /** The number of options, if there are more values that are not listed; undefined if all are listed. */
  readonly listed?: number | undefined
}

/** A labelled list of options. It has the chosen value even if that is no longer an option. */
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
