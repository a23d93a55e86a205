import { clientId, type FeedClient, type HeldContents, type Standing } from '../standing.ts'

/** What a report says, in our own terms. All of it may come in parts. */
export interface PeerReport {
  /** Who reports; in the first report of a stream. */
  readonly reporter: string
  /** Resources of versions that standings refer to, each with its hash. Those of a version add up. */
  readonly contents: readonly { readonly version: string; readonly resources: ReadonlyMap<string, string> }[]
  readonly standings: readonly ReportedStanding[]
  readonly forgottenClients: readonly ClientKey[]
  readonly forgottenVersions: readonly string[]
  /** Whether the table as of the begin of the stream was received completely. */
  readonly isTableComplete: boolean
}

export interface ClientKey {
  readonly typeUrl: string
  readonly clientId: string
}

/** `version` is that of contents which were reported before, or empty when nothing is in force. */
export interface ReportedStanding extends Omit<Standing, 'inForce'> {
  readonly typeUrl: string
  readonly version: string
}

/**
 * What the other operators have reported of their clients. A stream's table counts when it is complete, and
 * then replaces the last one of the same operator; when a stream ends without a successor, its table counts
 * until the grace is over, because its clients continue to enforce, and will connect to another operator.
 * Nothing here reads a clock: times are monotonic.
 */
export interface PeerTable {
  /**
   * @throws PeerTableError for content that no operator sends: the caller must end the stream. The next one
   * sends the whole table again.
   */
  receive(stream: string, report: PeerReport, nowMs: number): void
  ended(stream: string, nowMs: number): void
  /**
   * Drops what has been without a stream for the grace. Answers when there is more to drop; Infinity for
   * never.
   */
  forget(nowMs: number): number
  standings(typeUrl: string, clientId: string): readonly Standing[]
  clients(): readonly FeedClient[]
}

export class PeerTableError extends Error {
  override readonly name = 'PeerTableError'
}

export interface PeerTableLimits {
  /** How long the table of a stream that has ended counts. */
  readonly graceMs: number
  /** The maximum of operators. Beyond it, the one without a stream for the longest time is forgotten. */
  readonly maxReporters: number
  /** Of one operator. */
  readonly maxStandings: number
  /** Names of resources, in all versions of one operator together. */
  readonly maxResources: number
}

export const defaultPeerTableLimits: PeerTableLimits = {
  graceMs: 60_000,
  maxReporters: 16,
  maxStandings: 10_000,
  maxResources: 2_000_000,
}

/** The content that one stream has reported. */
interface Table {
  readonly standings: Map<string, Standing>
  readonly contents: Map<string, Contents>
  resourceCount: number
}

interface Contents extends HeldContents {
  readonly resources: Map<string, { readonly hash: string }>
}

/** One operator. */
interface Reporter {
  /** The stream that was opened last; only this is listened to. */
  stream: string
  /** The received part of that stream's table, until it is complete. */
  filling: Table | undefined
  /** What counts. */
  table: Table | undefined
  /** Since when `table` has no stream. */
  endedMs: number | undefined
}

export function createPeerTable(limits: PeerTableLimits = defaultPeerTableLimits): PeerTable {
  const reporters = new Map<string, Reporter>()
  const reporterOfStream = new Map<string, string>()

  /** The reporter of a stream, which its first report names. */
  function listenTo(stream: string, name: string, nowMs: number): Reporter {
    const known = reporterOfStream.get(stream)
    if (known === undefined) return begin(stream, name, nowMs)
    const reporter = reporters.get(known)
    if (reporter?.stream === stream) return reporter
    throw new PeerTableError(`${known} has opened another stream since`)
  }

  function begin(stream: string, name: string, nowMs: number): Reporter {
    if (name === '') throw new PeerTableError('the first report of a stream does not say who reports')
    const before = reporters.get(name)
    makeRoom(name)
    reporterOfStream.set(stream, name)
    const reporter: Reporter = {
      stream,
      filling: { standings: new Map(), contents: new Map(), resourceCount: 0 },
      table: before?.table,
      endedMs: before?.table && (before.endedMs ?? nowMs),
    }
    reporters.set(name, reporter)
    return reporter
  }

  function makeRoom(name: string): void {
    if (reporters.has(name) || reporters.size < limits.maxReporters) return
    const withoutStream = [...reporters].filter(([, { stream }]) => !reporterOfStream.has(stream))
    const [oldest] = withoutStream.sort((a, b) => (a[1].endedMs ?? 0) - (b[1].endedMs ?? 0))
    if (oldest === undefined) throw new PeerTableError(`there are ${limits.maxReporters} operators already`)
    reporters.delete(oldest[0])
  }

  return {
    receive(stream, report, nowMs) {
      const reporter = listenTo(stream, report.reporter, nowMs)
      const table = reporter.filling ?? reporter.table
      if (table === undefined) throw new PeerTableError('the stream has no table')
      apply(table, report, limits)
      if (!report.isTableComplete || reporter.filling === undefined) return
      reporter.table = reporter.filling
      reporter.filling = undefined
      reporter.endedMs = undefined
    },
    ended(stream, nowMs) {
      const name = reporterOfStream.get(stream)
      reporterOfStream.delete(stream)
      const reporter = name === undefined ? undefined : reporters.get(name)
      if (name === undefined || reporter?.stream !== stream) return
      reporter.filling = undefined
      reporter.endedMs ??= nowMs
      if (reporter.table === undefined) reporters.delete(name)
    },
    forget(nowMs) {
      let nextMs = Number.POSITIVE_INFINITY
      for (const [name, reporter] of reporters) {
        if (reporter.endedMs === undefined || reporter.table === undefined) continue
        const dueMs = reporter.endedMs + limits.graceMs
        if (dueMs > nowMs) nextMs = Math.min(nextMs, dueMs)
        else if (reporter.filling) reporter.table = undefined
        else reporters.delete(name)
      }
      return nextMs
    },
    standings(typeUrl, id) {
      const key = keyOf({ typeUrl, clientId: id })
      return [...reporters.values()].flatMap(({ table }) => table?.standings.get(key) ?? [])
    },
    clients() {
      const all = [...reporters.values()].flatMap(({ table }) => [...(table?.standings.values() ?? [])])
      const connected = all.filter(standing => standing.connected)
      return [...new Map(connected.map(({ client }) => [clientId(client), client])).values()]
    },
  }
}

const keyOf = ({ typeUrl, clientId }: ClientKey) => JSON.stringify([typeUrl, clientId])

function apply(table: Table, report: PeerReport, limits: PeerTableLimits): void {
  for (const { version, resources } of report.contents) addContents(table, version, resources, limits)
  for (const reported of report.standings) {
    const { typeUrl, version, ...standing } = reported
    const inForce = version === '' ? undefined : table.contents.get(version)
    if (version !== '' && inForce === undefined) {
      throw new PeerTableError(`the contents of the version ${version} were not reported`)
    }
    const key = keyOf({ typeUrl, clientId: clientId(standing.client) })
    table.standings.set(key, { ...standing, inForce })
  }
  for (const key of report.forgottenClients) table.standings.delete(keyOf(key))
  for (const version of report.forgottenVersions) {
    table.resourceCount -= table.contents.get(version)?.resources.size ?? 0
    table.contents.delete(version)
  }
  if (table.standings.size > limits.maxStandings) {
    throw new PeerTableError(`more than ${limits.maxStandings} clients`)
  }
}

function addContents(
  table: Table,
  version: string,
  resources: ReadonlyMap<string, string>,
  { maxResources }: PeerTableLimits,
): void {
  const contents = table.contents.get(version) ?? { version, resources: new Map() }
  table.contents.set(version, contents)
  table.resourceCount -= contents.resources.size
  for (const [name, hash] of resources) contents.resources.set(name, { hash })
  table.resourceCount += contents.resources.size
  if (table.resourceCount > maxResources) throw new PeerTableError(`more than ${maxResources} resources`)
}
