import type { OwnClientState } from '../xds/acknowledgements.ts'
import { clientId, type HeldContents } from '../xds/client-state.ts'
import type { ClientKey } from './peer-table.ts'
import type { AgedClientState, AgedReport } from './report-codec.ts'

interface ReportLimits {
  /** The bytes at which a report is full. The entry that reaches them is the last one in the report. */
  readonly maxReportBytes: number
  /**
   * The maximum number of rejections of one client and type in a report. The receiver counts further ones as
   * pending.
   */
  readonly maxRejections: number
}

const defaultReportLimits: ReportLimits = { maxReportBytes: 256 * 1024, maxRejections: 200 }

/** The approximate bytes of an entry beside its texts. */
const entryBytes = 32
/** The maximum number of bytes that a UTF-16 code unit takes in UTF-8. */
const bytesPerChar = 3

/**
 * The pending reports of one stream. Each call of `next` compares the present state with what has been
 * reported, so that a slow receiver gets the newest state, and nothing is queued.
 */
export class ReportWriter {
  readonly #reporter: string
  readonly #limits: ReportLimits
  /** The last reported revision of each client and type, by their key. */
  readonly #revisions = new Map<string, { readonly revision: number; readonly key: ClientKey }>()
  /** How many resources of each version have been reported. */
  readonly #contents = new Map<string, number>()
  #isFirst = true
  #isComplete = false

  constructor(reporter: string, limits: Partial<ReportLimits> = {}) {
    this.#reporter = reporter
    this.#limits = { ...defaultReportLimits, ...limits }
  }

  /** Returns the next report of at most about `maxReportBytes`; undefined when all is reported. */
  next(states: ReadonlyMap<string, readonly OwnClientState[]>, nowMs: number): AgedReport | undefined {
    const draft = createDraft(this.#limits)
    const present = new Set<string>()
    const versions = new Set<string>()
    for (const [typeUrl, clientStates] of states) {
      for (const state of clientStates) {
        const clientKey = { typeUrl, clientId: clientId(state.client) }
        const key = JSON.stringify(clientKey)
        present.add(key)
        if (state.inForce) versions.add(state.inForce.version)
        if (this.#revisions.get(key)?.revision === state.revision || draft.isFull()) continue
        if (!draft.addContents(state.inForce, this.#contents)) continue
        draft.clientStates.push(toAgedState(typeUrl, state, nowMs, this.#limits, draft.count))
        this.#revisions.set(key, { revision: state.revision, key: clientKey })
      }
    }
    const forgottenClients = forgetMissing(this.#revisions, present).map(({ key }) => key)
    const forgottenVersions = [...this.#contents.keys()].filter(version => !versions.has(version))
    for (const version of forgottenVersions) this.#contents.delete(version)
    const completes = !this.#isComplete && !draft.isFull()
    const isEmpty = draft.isEmpty() && forgottenClients.length + forgottenVersions.length === 0
    if (isEmpty && !this.#isFirst && !completes) return undefined
    const report: AgedReport = {
      reporter: this.#isFirst ? this.#reporter : '',
      contents: draft.contents,
      clientStates: draft.clientStates,
      forgottenClients,
      forgottenVersions,
      isTableComplete: completes,
    }
    this.#isFirst = false
    this.#isComplete ||= completes
    return report
  }
}

type Draft = ReturnType<typeof createDraft>

function createDraft({ maxReportBytes }: ReportLimits) {
  const contents: AgedReport['contents'][number][] = []
  const clientStates: AgedClientState[] = []
  let bytes = 0
  const isFull = () => bytes >= maxReportBytes
  const count = (...texts: readonly string[]) => {
    bytes += entryBytes + texts.reduce((sum, text) => sum + text.length * bytesPerChar, 0)
  }
  return {
    contents,
    clientStates,
    isFull,
    isEmpty: () => contents.length + clientStates.length === 0,
    count,
    /**
     * Adds resources of the version. Returns false if the draft is full: the rest follows in the next report.
     */
    addContents(held: HeldContents | undefined, reported: Map<string, number>): boolean {
      if (held === undefined) return true
      const { version, resources } = held
      const already = reported.get(version)
      if (already === resources.size) return true
      const part = new Map<string, string>()
      for (const [name, { hash }] of [...resources].slice(already ?? 0)) {
        if (isFull()) break
        part.set(name, hash)
        count(name, hash)
      }
      contents.push({ version, resources: part })
      reported.set(version, (already ?? 0) + part.size)
      return reported.get(version) === resources.size
    },
  }
}

function toAgedState(
  typeUrl: string,
  { client, connected, openedMs, carriesOver, inForce, rejections }: OwnClientState,
  nowMs: number,
  { maxRejections }: ReportLimits,
  count: Draft['count'],
): AgedClientState {
  const reported = [...rejections].slice(0, maxRejections)
  const { uid, pod, namespace, nodeId, peer } = client
  count(typeUrl, uid, pod, namespace, nodeId, peer, ...client.features)
  for (const [name, { hash, message }] of reported) count(name, hash, message)
  const openedMsAgo = Math.max(0, nowMs - openedMs)
  const version = inForce?.version ?? ''
  return { typeUrl, client, connected, openedMsAgo, carriesOver, version, rejections: new Map(reported) }
}

function forgetMissing<Reported>(reported: Map<string, Reported>, current: ReadonlySet<string>): Reported[] {
  const missing = [...reported].filter(([key]) => !current.has(key))
  for (const [key] of missing) reported.delete(key)
  return missing.map(([, value]) => value)
}
