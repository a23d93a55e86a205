import { renderTable } from '../render.ts'
import type { ComparisonReport, PeerReport } from './comparison.ts'

const maxRows = 50

/** Returns the report as text. JSON has all rows. */
export function describeReport(report: ComparisonReport): string {
  const { descriptors, examples, reference, candidate } = report
  const peers = renderTable(
    ['SERVICE', 'ANSWERS', 'ERRORS', 'P50 MS', 'P99 MS', 'P99.9 MS', 'MAX MS'],
    [peerRow('reference', reference), peerRow('candidate', candidate)],
  )
  const parts = [`${summarize(report)}\n`, peers]
  if (descriptors.length > 0) {
    const rows = descriptors.slice(0, maxRows)
    parts.push(
      renderTable(
        ['DESCRIPTOR', 'DIFFERENT', 'FIELDS'],
        rows.map(({ descriptor, different, fields }) => [descriptor, `${different}`, counts(fields)]),
      ),
      renderTable(
        ['EXAMPLE', 'DESCRIPTOR', 'FIELD', 'REFERENCE', 'CANDIDATE'],
        examples
          .slice(0, maxRows)
          .map(({ place, descriptor, field, ...both }) => [
            place,
            descriptor,
            field,
            both.reference,
            both.candidate,
          ]),
      ),
    )
  }
  return parts.join('\n')
}

/** Returns one line, also for progress. */
export function summarize({ same, different, notCompared, dropped, unread }: ComparisonReport): string {
  const requests = same + different + notCompared + dropped
  const parts = [`${same} same`, `${different} different`]
  if (notCompared > 0) parts.push(`${notCompared} not compared: the reference did not answer`)
  if (dropped > 0) parts.push(`${dropped} not sent to the candidate: too many waited for it`)
  if (unread.connections > 0)
    parts.push(`${unread.connections} connections not read to their end (${unread.bytes} bytes)`)
  if (unread.calls > 0) parts.push(`${unread.calls} calls not read`)
  return `${requests} requests: ${parts.join(', ')}`
}

function peerRow(name: string, { answers, errors, latencyMs }: PeerReport): readonly string[] {
  const { p50, p99, p999, max } = latencyMs
  return [name, `${answers}`, counts(errors) || 'none', `${p50}`, `${p99}`, `${p999}`, `${max}`]
}

const counts = (of: Readonly<Record<string, number>>) =>
  Object.entries(of)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ')
