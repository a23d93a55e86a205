import { type ClientState, clientId, type FeedClient, type HeldContents } from '../xds/client-state.ts'

interface Contents extends HeldContents {
  readonly resources: Map<string, { readonly hash: string }>
}

type Limits = Pick<PeerTableLimits, 'maxClients' | 'maxResources'>

/**
 * The clients that another operator has reported on one stream, and the contents that these clients enforce.
 */
class ReportedTable {
  /** The state of each client and type, by `tableKey`. */
  readonly states = new Map<string, ClientState>()
  readonly #contents = new Map<string, Contents>()
  readonly #limits: Limits
  #resourceCount = 0

  constructor(limits: Limits) {
    this.#limits = limits
  }

  /** @throws PeerReportError for a report that contradicts the earlier ones, or exceeds a limit */
  apply(report: PeerReport): void {
    for (const { version, resources } of report.contents) this.#addContents(version, resources)
    for (const { typeUrl, version, ...state } of report.clientStates) {
      const key = tableKey({ typeUrl, clientId: clientId(state.client) })
      this.states.set(key, { ...state, inForce: this.#findContents(version) })
    }
    for (const key of report.forgottenClients) this.states.delete(tableKey(key))
    for (const version of report.forgottenVersions) this.#forgetContents(version)
    const { maxClients } = this.#limits
    if (this.states.size > maxClients) throw new PeerReportError(`more than ${maxClients} clients`)
  }

  #findContents(version: string): Contents | undefined {
    if (version === '') return undefined
    const contents = this.#contents.get(version)
    if (contents) return contents
    throw new PeerReportError(`the contents of the version ${version} were not reported`)
  }

  #addContents(version: string, resources: ReadonlyMap<string, string>): void {
    const { maxResources } = this.#limits
    const contents = this.#contents.get(version) ?? { version, resources: new Map() }
    this.#contents.set(version, contents)
    this.#resourceCount -= contents.resources.size
    for (const [name, hash] of resources) contents.resources.set(name, { hash })
    this.#resourceCount += contents.resources.size
    if (this.#resourceCount > maxResources) throw new PeerReportError(`more than ${maxResources} resources`)
  }

  #forgetContents(version: string): void {
    this.#resourceCount -= this.#contents.get(version)?.resources.size ?? 0
    this.#contents.delete(version)
  }
}

const tableKey = ({ typeUrl, clientId }: ClientKey) => JSON.stringify([typeUrl, clientId])

export interface PeerTableLimits {
  /** How long the table of an ended stream still counts. */
  readonly graceMs: number
  /**
   * The maximum number of reporting operators. Beyond it, the operator that has had no stream for the longest
   * time is forgotten.
   */
  readonly maxReporters: number
  /** The maximum number of clients and types that one operator reports. Beyond it, the report is rejected. */
  readonly maxClients: number
  /**
   * The maximum number of resources that one operator reports, summed over all versions. Beyond it, the
   * report is rejected.
   */
  readonly maxResources: number
}

export const defaultPeerTableLimits: PeerTableLimits = {
  graceMs: 60_000,
  maxReporters: 16,
  maxClients: 10_000,
  maxResources: 2_000_000,
}

/** The content of a report. A table may arrive in several reports. */
export interface PeerReport {
  /** The identity of the operator; empty except in the first report of a stream. */
  readonly reporter: string
  /**
   * The resources of each version that a client enforces, with their hashes. The resources of one version may
   * arrive in several reports.
   */
  readonly contents: readonly { readonly version: string; readonly resources: ReadonlyMap<string, string> }[]
  readonly clientStates: readonly ReportedClientState[]
  readonly forgottenClients: readonly ClientKey[]
  readonly forgottenVersions: readonly string[]
  /** Whether this report completes the table as it was when the stream began. */
  readonly isTableComplete: boolean
}

export interface ClientKey {
  readonly typeUrl: string
  readonly clientId: string
}

/** `version` names contents that were reported before. It is empty if the client enforces nothing. */
export interface ReportedClientState extends Omit<ClientState, 'inForce'> {
  readonly typeUrl: string
  readonly version: string
}

/** The error of a report that a correct operator never sends. */
export class PeerReportError extends Error {
  override readonly name = 'PeerReportError'
}

/** Another operator that reports, with its streams and tables. */
interface Reporter {
  /** The stream that was opened last. Reports of earlier streams are rejected. */
  stream: string
  /** The received part of the table of `stream`; undefined when the table is complete. */
  filling: ReportedTable | undefined
  /** The last complete table, of `stream` or of an earlier one. */
  table: ReportedTable | undefined
  /** When the stream of `table` ended or was replaced by another; undefined while it is open. */
  endedMs: number | undefined
}

/**
 * The reports of the other operators about their clients. A table counts when it is complete, and then
 * replaces the last table of the same operator. When a stream ends without a successor, its table counts for
 * `graceMs` more, because the clients in it continue to enforce, and will connect to another operator. The
 * class reads no clock: callers pass monotonic times.
 */
export class PeerTable {
  readonly #limits: PeerTableLimits
  readonly #reporters = new Map<string, Reporter>()
  readonly #reporterOfStream = new Map<string, string>()

  constructor(limits: PeerTableLimits = defaultPeerTableLimits) {
    this.#limits = limits
  }

  /**
   * @throws PeerReportError for content that a correct operator never sends. The caller must then end the
   *   stream; the next stream sends the whole table again.
   */
  receive(stream: string, report: PeerReport, nowMs: number): void {
    const reporter = this.#findReporter(stream, report.reporter, nowMs)
    const table = reporter.filling ?? reporter.table
    if (table === undefined) throw new PeerReportError('the stream has no table')
    table.apply(report)
    if (!report.isTableComplete || reporter.filling === undefined) return
    reporter.table = reporter.filling
    reporter.filling = undefined
    reporter.endedMs = undefined
  }

  ended(stream: string, nowMs: number): void {
    const name = this.#reporterOfStream.get(stream)
    this.#reporterOfStream.delete(stream)
    const reporter = name === undefined ? undefined : this.#reporters.get(name)
    if (name === undefined || reporter?.stream !== stream) return
    reporter.filling = undefined
    reporter.endedMs ??= nowMs
    if (reporter.table === undefined) this.#reporters.delete(name)
  }

  /**
   * Drops the tables whose stream ended at least `graceMs` ago. Returns the time at which the next table is
   * due; Infinity if none is.
   */
  expire(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY
    for (const [name, reporter] of this.#reporters) {
      if (reporter.endedMs === undefined || reporter.table === undefined) continue
      const dueMs = reporter.endedMs + this.#limits.graceMs
      if (dueMs > nowMs) nextMs = Math.min(nextMs, dueMs)
      else if (reporter.filling) reporter.table = undefined
      else this.#reporters.delete(name)
    }
    return nextMs
  }

  clientStates(typeUrl: string, clientId: string): readonly ClientState[] {
    const key = tableKey({ typeUrl, clientId })
    return [...this.#reporters.values()].flatMap(({ table }) => table?.states.get(key) ?? [])
  }

  clients(): readonly FeedClient[] {
    const all = [...this.#reporters.values()].flatMap(({ table }) => [...(table?.states.values() ?? [])])
    const connected = all.filter(state => state.connected)
    return [...new Map(connected.map(({ client }) => [clientId(client), client])).values()]
  }

  #findReporter(stream: string, name: string, nowMs: number): Reporter {
    const known = this.#reporterOfStream.get(stream)
    if (known === undefined) return this.#begin(stream, name, nowMs)
    const reporter = this.#reporters.get(known)
    if (reporter?.stream === stream) return reporter
    throw new PeerReportError(`${known} has opened another stream since`)
  }

  #begin(stream: string, name: string, nowMs: number): Reporter {
    if (name === '') throw new PeerReportError('the first report of a stream does not say who reports')
    const before = this.#reporters.get(name)
    if (before === undefined) this.#makeRoom()
    this.#reporterOfStream.set(stream, name)
    const reporter: Reporter = {
      stream,
      filling: new ReportedTable(this.#limits),
      table: before?.table,
      endedMs: before?.table && (before.endedMs ?? nowMs),
    }
    this.#reporters.set(name, reporter)
    return reporter
  }

  #makeRoom(): void {
    const { maxReporters } = this.#limits
    if (this.#reporters.size < maxReporters) return
    const withoutStream = [...this.#reporters].filter(([, { stream }]) => !this.#reporterOfStream.has(stream))
    const [oldest] = withoutStream.sort((a, b) => (a[1].endedMs ?? 0) - (b[1].endedMs ?? 0))
    if (oldest === undefined) throw new PeerReportError(`there are ${maxReporters} operators already`)
    this.#reporters.delete(oldest[0])
  }
}
