import type { OwnStanding } from '../acknowledgements.ts'
import { clientId, type HeldContents } from '../standing.ts'
import type { ClientKey } from './peer-table.ts'
import type { AgedReport, AgedStanding } from './report-codec.ts'

/**
 * The pending reports of one stream. Level-based: each call compares the present state with the reported one,
 * so a slow reader gets the newest state, and nothing is queued.
 */
export interface ReportWriter {
  /** Returns the next report of at most about `maxReportBytes`; undefined when all is reported. */
  next(known: ReadonlyMap<string, readonly OwnStanding[]>, nowMs: number): AgedReport | undefined
}

export interface ReportLimits {
  /** A report ends with the first entry beyond it. */
  readonly maxReportBytes: number
  /** The most refusals of one client and type that a report has. The reader counts other names as pending. */
  readonly maxRefusals: number
}

export const defaultReportLimits: ReportLimits = { maxReportBytes: 256 * 1024, maxRefusals: 200 }

/** What an entry takes beside its texts, about. */
const entryBytes = 32
/** UTF-8 takes as much for a character, at most. */
const bytesPerChar = 3

export function createReportWriter(
  reporter: string,
  limits: ReportLimits = defaultReportLimits,
): ReportWriter {
  /** The revision of each reported standing, by its key. */
  const toldStandings = new Map<string, { readonly revision: number; readonly key: ClientKey }>()
  /** The number of reported resources of each version. */
  const toldContents = new Map<string, number>()
  let isFirst = true
  let isComplete = false

  return {
    next(known, nowMs) {
      const draft = createDraft(limits)
      const current = new Set<string>()
      const versions = new Set<string>()
      for (const [typeUrl, standings] of known) {
        for (const standing of standings) {
          const clientKey = { typeUrl, clientId: clientId(standing.client) }
          const key = JSON.stringify(clientKey)
          current.add(key)
          if (standing.inForce) versions.add(standing.inForce.version)
          if (toldStandings.get(key)?.revision === standing.revision || draft.isFull()) continue
          if (!draft.tellContents(standing.inForce, toldContents)) continue
          draft.standings.push(describe(typeUrl, standing, nowMs, limits, draft.count))
          toldStandings.set(key, { revision: standing.revision, key: clientKey })
        }
      }
      const forgottenClients = forgetMissing(toldStandings, current).map(({ key }) => key)
      const forgottenVersions = [...toldContents.keys()].filter(version => !versions.has(version))
      for (const version of forgottenVersions) toldContents.delete(version)
      const completes = !isComplete && !draft.isFull()
      const isEmpty = draft.isEmpty() && forgottenClients.length + forgottenVersions.length === 0
      if (isEmpty && !isFirst && !completes) return undefined
      const report: AgedReport = {
        reporter: isFirst ? reporter : '',
        contents: draft.contents,
        standings: draft.standings,
        forgottenClients,
        forgottenVersions,
        isTableComplete: completes,
      }
      isFirst = false
      isComplete ||= completes
      return report
    },
  }
}

type Draft = ReturnType<typeof createDraft>

/** A report that grows until it is full. */
function createDraft({ maxReportBytes }: ReportLimits) {
  const contents: AgedReport['contents'][number][] = []
  const standings: AgedStanding[] = []
  let bytes = 0
  const isFull = () => bytes >= maxReportBytes
  const count = (...texts: readonly string[]) => {
    bytes += entryBytes + texts.reduce((sum, text) => sum + text.length * bytesPerChar, 0)
  }
  return {
    contents,
    standings,
    isFull,
    isEmpty: () => contents.length + standings.length === 0,
    count,
    /** Returns whether all is reported; if not, the draft is full, and the rest follows in the next one. */
    tellContents(held: HeldContents | undefined, told: Map<string, number>): boolean {
      if (held === undefined) return true
      const { version, resources } = held
      const already = told.get(version)
      if (already === resources.size) return true
      const part = new Map<string, string>()
      for (const [name, { hash }] of [...resources].slice(already ?? 0)) {
        if (isFull()) break
        part.set(name, hash)
        count(name, hash)
      }
      contents.push({ version, resources: part })
      told.set(version, (already ?? 0) + part.size)
      return told.get(version) === resources.size
    },
  }
}

function describe(
  typeUrl: string,
  { client, connected, openedMs, carriesOver, inForce, refusals }: OwnStanding,
  nowMs: number,
  { maxRefusals }: ReportLimits,
  count: Draft['count'],
): AgedStanding {
  const told = [...refusals].slice(0, maxRefusals)
  const { uid, pod, namespace, nodeId, peer } = client
  count(typeUrl, uid, pod, namespace, nodeId, peer, ...client.features)
  for (const [name, { hash, message }] of told) count(name, hash, message)
  const openedMsAgo = Math.max(0, nowMs - openedMs)
  const version = inForce?.version ?? ''
  return { typeUrl, client, connected, openedMsAgo, carriesOver, version, refusals: new Map(told) }
}

function forgetMissing<Told>(told: Map<string, Told>, current: ReadonlySet<string>): Told[] {
  const missing = [...told].filter(([key]) => !current.has(key))
  for (const [key] of missing) told.delete(key)
  return missing.map(([, value]) => value)
}
