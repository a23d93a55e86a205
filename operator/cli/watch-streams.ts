import { setTimeout as pause } from 'node:timers/promises'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import {
  addRates,
  type BrokerResult,
  describeChanges,
  mergeRows,
  type RatedRow,
  type StreamRow,
  type StreamsPoll,
} from '../broker-queries/stream-rows.ts'
import { renderTable } from './render.ts'

interface WatchOptions {
  readonly read: () => Promise<StreamsPoll>
  readonly everyMs: number
  readonly all: boolean
  /** Aborted when the command ends. */
  readonly signal: AbortSignal
  print(text: string): void
}

/** The size of a terminal, in characters. */
interface Screen {
  readonly rows: number
  readonly columns: number
}

/** Draws the table again after each poll, in the same place, until the signal is aborted. */
export async function watchOnScreen(options: WatchOptions, screen: () => Screen): Promise<void> {
  let before: StreamsPoll | undefined
  for await (const now of poll(options)) {
    const rows = addRates(before, now).filter(row => options.all || row.state === 'running')
    options.print(
      `${clearScreen}${fitToScreen([...describeOmissions(now), ...watchTable(rows).split('\n')], screen())}`,
    )
    before = now
  }
  options.print('\n')
}

/** Moves the cursor to the top left, and erases the screen. */
const clearScreen = '\u{1b}[H\u{1b}[J'

/** The terminal would scroll or wrap longer lines, and so move the table. */
function fitToScreen(lines: readonly string[], { rows, columns }: Screen): string {
  const content = lines.filter(line => line !== '')
  const room = Math.max(2, rows - 1)
  const shown = content.length <= room ? content : content.slice(0, room - 1)
  const left = content.length - shown.length
  const all = left === 0 ? shown : [...shown, `… ${left} more`]
  return all.map(line => `${line.slice(0, columns)}\n`).join('')
}

/**
 * Prints a line for each change until the signal is aborted. A broker that does not answer keeps the rows of
 * its last answer, so that it reports no change.
 */
export async function watchInLines(options: WatchOptions, nowText: () => string): Promise<void> {
  const pages = new Map<string, BrokerResult>()
  let rows: readonly StreamRow[] | undefined
  let printed: readonly string[] = []
  for await (const { brokers } of poll(options)) {
    for (const broker of brokers) if ('page' in broker) pages.set(broker.address, broker)
    const found = mergeRows({ brokers: [...pages.values()] })
    const omissions = describeOmissions({ brokers })
    const lines = [...omissions.filter(line => !printed.includes(line)), ...describeChanges(rows, found)]
    if (lines.length > 0) options.print(lines.map(line => `${nowText()} ${escapeControls(line)}\n`).join(''))
    rows = found
    printed = omissions
  }
}

async function* poll({ read, everyMs, signal }: WatchOptions): AsyncGenerator<StreamsPoll> {
  while (!signal.aborted) {
    yield await read()
    await pause(everyMs, undefined, { signal }).catch(() => {})
  }
}

/** Returns a line for each broker that does not answer, or does not list all its requests. */
export function describeOmissions({ brokers }: Pick<StreamsPoll, 'brokers'>): readonly string[] {
  return brokers.flatMap(look => {
    if ('problem' in look) return [look.problem]
    const { streams, total } = look.page
    return streams.length < total ? [`${look.address}: lists only ${streams.length} of its requests`] : []
  })
}

/** The table of `tollway streams list`. */
export function listTable(rows: readonly StreamRow[]): string {
  const heading = [...names, 'STATE', ...places, 'MESSAGES', 'BYTES', 'BEHIND', 'AGE']
  const cells = rows.map(row => [
    ...nameCells(row),
    row.end === '' ? row.state : `ended ${row.end}`,
    ...placeCells(row),
    row.messages === undefined ? '' : `${row.messages}`,
    row.bytes === undefined ? '' : formatBytes(row.bytes),
    formatBacklog(row),
    formatAge(row.ageMs),
  ])
  return renderTable(heading, cells)
}

/** The table of `tollway streams watch`. */
function watchTable(rows: readonly RatedRow[]): string {
  const heading = [...names, ...places, 'MESSAGES/S', 'BYTES/S', 'BEHIND', 'AGE']
  const cells = rows.map(row => [
    ...nameCells(row),
    ...placeCells(row),
    row.perSecond.messages === undefined ? '' : row.perSecond.messages.toFixed(1),
    row.perSecond.bytes === undefined ? '' : formatBytes(row.perSecond.bytes),
    formatBacklog(row),
    formatAge(row.ageMs),
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

function formatBacklog({ consumers, messagesBehind, bytesBehind }: StreamRow): string {
  return consumers.length === 0 ? '' : `${messagesBehind} (${formatBytes(bytesBehind)})`
}

/** `17 B`, `1.3 KiB`, `4.0 MiB`. */
function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${Math.round(bytes)} B`
  const power = Math.min(units.length, Math.floor(Math.log2(bytes) / 10))
  return `${(bytes / 1024 ** power).toFixed(1)} ${units[power - 1]}`
}

const units = ['KiB', 'MiB', 'GiB', 'TiB']

/** `0.3s`, `42s`, `3m07s`, `26h05m`. */
function formatAge(ms: number): string {
  const seconds = Math.max(0, ms) / 1000
  if (seconds < 10) return `${seconds.toFixed(1)}s`
  const whole = Math.floor(seconds)
  const pad = (number: number) => `${number}`.padStart(2, '0')
  if (whole < 60) return `${whole}s`
  if (whole < 3600) return `${Math.floor(whole / 60)}m${pad(whole % 60)}s`
  return `${Math.floor(whole / 3600)}h${pad(Math.floor((whole % 3600) / 60))}m`
}
