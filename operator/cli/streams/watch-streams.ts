import { setTimeout as pause } from 'node:timers/promises'
import {
  type BrokerLook,
  changesOf,
  type Look,
  ratedRows,
  rowsOf,
  type StreamRow,
} from '../../streams/stream-rows.ts'
import { printable } from '../render.ts'
import { watchTable } from './stream-table.ts'

export interface WatchOptions {
  readonly look: () => Promise<Look>
  readonly everyMs: number
  /** Whether to show requests that have ended and are still kept. */
  readonly all: boolean
  /** Aborted when the user ends the command. */
  readonly signal: AbortSignal
  print(text: string): void
}

/** The size of a terminal, which can change. */
export interface Screen {
  readonly rows: number
  readonly columns: number
}

/** Shows a table, over and over in the same place, until the signal. */
export async function watchOnScreen(options: WatchOptions, screen: () => Screen): Promise<void> {
  let before: Look | undefined
  for await (const now of looks(options)) {
    const rows = ratedRows(before, now).filter(row => options.all || row.state === 'running')
    options.print(`${fromTheTop}${fitted([...remarks(now), ...watchTable(rows).split('\n')], screen())}`)
    before = now
  }
  options.print('\n')
}

/** Moves the cursor to the top left, and erases everything below it. */
const fromTheTop = '\u{1b}[H\u{1b}[J'

/** A terminal that had to scroll or to wrap would not show the same place again. */
function fitted(lines: readonly string[], { rows, columns }: Screen): string {
  const content = lines.filter(line => line !== '')
  const room = Math.max(2, rows - 1)
  const shown = content.length <= room ? content : content.slice(0, room - 1)
  const left = content.length - shown.length
  const all = left === 0 ? shown : [...shown, `… ${left} more`]
  return all.map(line => `${line.slice(0, columns)}\n`).join('')
}

/**
 * Prints a line for each change, for programs and files, until the signal. A broker that does not answer
 * removes no row: its last known rows remain until it answers again.
 */
export async function watchInLines(options: WatchOptions, nowText: () => string): Promise<void> {
  const pages = new Map<string, BrokerLook>()
  let rows: readonly StreamRow[] | undefined
  let told: readonly string[] = []
  for await (const { brokers } of looks(options)) {
    for (const broker of brokers) if ('page' in broker) pages.set(broker.address, broker)
    const found = rowsOf({ brokers: [...pages.values()] })
    const remarked = remarks({ brokers })
    const lines = [...remarked.filter(line => !told.includes(line)), ...changesOf(rows, found)]
    if (lines.length > 0) options.print(lines.map(line => `${nowText()} ${printable(line)}\n`).join(''))
    rows = found
    told = remarked
  }
}

async function* looks({ look, everyMs, signal }: WatchOptions): AsyncGenerator<Look> {
  while (!signal.aborted) {
    yield await look()
    await pause(everyMs, undefined, { signal }).catch(() => {})
  }
}

/** Returns lines about brokers that do not answer and about pages that are cut. */
export function remarks({ brokers }: Pick<Look, 'brokers'>): readonly string[] {
  return brokers.flatMap(look => {
    if ('problem' in look) return [look.problem]
    const { streams, total } = look.page
    return streams.length < total
      ? [`${look.address}: shows only ${streams.length} of the requests that it knows`]
      : []
  })
}
