import type { StreamList } from '../../../api/stream-shapes.ts'
import { usePages } from '../calls/use-pages.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { route } from '../data/route.ts'
import { Empty, ErrorNote, Loading } from '../parts/notes.ts'
import { StreamPreviewCard } from '../parts/stream-preview.ts'
import { StreamsTable } from '../tables/stream-table.ts'

const everyMs = 1_000
const none =
  () => html`No broker has a request. Requests are shown here while producers send them. Send one:${' '}
  <code>node examples/animation/produce.ts</code>`

export function StreamListPage() {
  const { answer, problem } = usePages<StreamList>('/streams', {}, everyMs)
  const { key } = route.value.parameters
  return html`
    <${ErrorNote} error=${problem} />
    ${key !== undefined && html`<${StreamPreviewCard} key=${key} streamKey=${key} />`}
    ${answer?.missing.map(
      ({ broker, problem }) => html`<p class="note warning">
        ${displayText(broker)} does not answer: ${displayText(problem)}
      </p>`,
    )}
    ${answer === undefined && problem === undefined && html`<${Loading} />`}
    ${answer?.items.length === 0 && html`<${Empty}>${none()}<//>`}
    ${answer && answer.items.length > 0 && html`<${StreamsTable} list=${answer} shown=${key} />`}
  `
}
