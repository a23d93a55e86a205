import type { RatedRow, StreamRow } from '../../streams/stream-rows.ts'
import { renderTable } from '../render.ts'

/** Returns the table of `tollway streams list`. */
export function listTable(rows: readonly StreamRow[]): string {
  const heading = [...names, 'STATE', ...places, 'MESSAGES', 'BYTES', 'BEHIND', 'AGE']
  const cells = rows.map(row => [
    ...nameCells(row),
    row.end === '' ? row.state : `ended ${row.end}`,
    ...placeCells(row),
    row.messages === undefined ? '' : `${row.messages}`,
    row.bytes === undefined ? '' : shortBytes(row.bytes),
    behind(row),
    age(row.ageMs),
  ])
  return renderTable(heading, cells)
}

/** Returns the table of `tollway streams watch`. */
export function watchTable(rows: readonly RatedRow[]): string {
  const heading = [...names, ...places, 'MESSAGES/S', 'BYTES/S', 'BEHIND', 'AGE']
  const cells = rows.map(row => [
    ...nameCells(row),
    ...placeCells(row),
    row.perSecond.messages === undefined ? '' : row.perSecond.messages.toFixed(1),
    row.perSecond.bytes === undefined ? '' : shortBytes(row.perSecond.bytes),
    behind(row),
    age(row.ageMs),
  ])
  return renderTable(heading, cells)
}

const names = ['STREAM', 'REQUEST', 'OBJECT', 'ROUTE']
const places = ['PRODUCERS', 'CONSUMERS']

const nameCells = ({ streamId, requestId, targetObjectId, route }: StreamRow) => [
  streamId,
  requestId,
  targetObjectId,
  route,
]
const placeCells = ({ producers, consumers }: StreamRow) => [`${producers.length}`, `${consumers.length}`]

function behind({ consumers, messagesBehind, bytesBehind }: StreamRow): string {
  return consumers.length === 0 ? '' : `${messagesBehind} (${shortBytes(bytesBehind)})`
}

/** `17 B`, `1.3 KiB`, `4.0 MiB`. */
export function shortBytes(bytes: number): string {
  if (bytes < 1024) return `${Math.round(bytes)} B`
  const power = Math.min(units.length, Math.floor(Math.log2(bytes) / 10))
  return `${(bytes / 1024 ** power).toFixed(1)} ${units[power - 1]}`
}

const units = ['KiB', 'MiB', 'GiB', 'TiB']

/** `0.3s`, `42s`, `3m07s`, `26h05m`. */
export function age(ms: number): string {
  const seconds = Math.max(0, ms) / 1000
  if (seconds < 10) return `${seconds.toFixed(1)}s`
  const whole = Math.floor(seconds)
  const pad = (number: number) => `${number}`.padStart(2, '0')
  if (whole < 60) return `${whole}s`
  if (whole < 3600) return `${Math.floor(whole / 60)}m${pad(whole % 60)}s`
  return `${Math.floor(whole / 3600)}h${pad(Math.floor((whole % 3600) / 60))}m`
}
