import type { ListedProblem } from '../data/find-problems.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'

interface ProblemListProps {
  readonly problems: readonly ListedProblem[]
  /** Whether the operator has answered. */
  readonly isKnown: boolean
  /** Whether some resources are not read yet. */
  readonly isPartial?: boolean
  /** What was checked, such as `4 resources`; shown if there are no problems. */
  readonly checked?: readonly string[]
}

const maxShown = 20
const maxMessage = 500

/** Screen readers announce a change of the number of problems. */
export function ProblemList({ problems, isKnown, isPartial = false, checked = [] }: ProblemListProps) {
  const shown = problems.slice(0, maxShown)
  const count = problems.length
  const found = count === 0 ? 'No problems' : `${count} ${count === 1 ? 'problem' : 'problems'}`
  const summary = isPartial ? `${found} so far: not all resources are read` : found
  return html`<section class="problems ${count === 0 ? 'none' : 'some'}" aria-labelledby="problems">
    <h2 id="problems" aria-live="polite">${isKnown ? summary : 'Loading …'}</h2>
    ${count === 0 && isKnown && checked.length > 0 && html`<p class="fine">Checked: ${checked.join(', ')}.</p>`}
    ${
      count > 0 &&
      html`<ul>
        ${shown.map(
          ({ subject, message, severity, link }) => html`<li class=${severity}>
            <b>${link === undefined ? displayText(subject) : html`<a href=${link}>${displayText(subject)}</a>`}</b> <span>${displayText(message, maxMessage)}</span>
          </li>`,
        )}
        ${count > maxShown && html`<li class="more">${count - maxShown} more; tollway status lists all.</li>`}
      </ul>`
    }
  </section>`
}
