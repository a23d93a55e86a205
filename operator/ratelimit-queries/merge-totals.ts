import type { LostSession } from '../pods/session-table.ts'
import {
  type DomainTotals,
  type HitCounts,
  type PodState,
  type RuleTotals,
  zeroHits,
} from './pod-sessions.ts'
import type { ProcessSession, ReportedRule } from './process-session.ts'

/**
 * A process reports every 5 s, and counts as not reporting after this time without a report. With a page that
 * polls every second, and sums that are cached for 0.5 s, a process that hangs is shown within 9 s.
 */
const silentMs = 7_500
/**
 * The rate of a rule comes from the last report with this rule. It is 0 if that report is older than this:
 * two intervals of reports.
 */
const rateMs = 10_000

export function mergePods(
  sessions: readonly ProcessSession[],
  lost: readonly LostSession<ProcessSession>[],
  nowMs: number,
): readonly PodState[] {
  const all = [...sessions, ...lost.map(({ session }) => session)]
  const connected = new Set(sessions)
  return [...Map.groupBy(all, ({ identity }) => identity.uid)].flatMap(([uid, workers]) => {
    const [first] = workers
    if (first === undefined) return []
    const open = workers.filter(session => connected.has(session))
    const states = open.map(({ state }) => state)
    const expectedWorkers = Math.max(1, first.identity.workers)
    const reportedMs = workers.map(({ state }) => state.lastReportMs)
    const most = (numbers: readonly number[]) => Math.max(0, ...numbers)
    const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
    const isReporting =
      open.length >= expectedWorkers && states.every(({ lastReportMs }) => nowMs - lastReportMs < silentMs)
    const pod: PodState = {
      uid,
      pod: first.identity.pod,
      namespace: first.identity.namespace,
      workers: open.length,
      expectedWorkers,
      isReporting,
      lastReportMsAgo: Math.round(nowMs - Math.max(...reportedMs)),
      backend: first.identity.backend,
      backendProblem: states.find(({ backendProblem }) => backendProblem !== '')?.backendProblem ?? '',
      decisionsPerSecond: sum(states.map(({ decisionsPerSecond }) => decisionsPerSecond)),
      p50Ms: most(states.map(({ p50Ms }) => p50Ms)),
      p99Ms: most(states.map(({ p99Ms }) => p99Ms)),
      droppedReports: sum(states.map(({ droppedReports }) => droppedReports)),
      features: first.identity.features,
    }
    return [pod]
  })
}

export function mergeDomains(sessions: readonly ProcessSession[], nowMs: number): readonly DomainTotals[] {
  const merged = new Map<string, Sum & { rules: number; readonly pods: Set<string> }>()
  for (const { identity, state } of sessions) {
    for (const [domain, { limits, rules }] of state.domains) {
      const sum = merged.get(domain) ?? { ...zeroSum(), rules: 0, pods: new Set() }
      merged.set(domain, sum)
      sum.rules = Math.max(sum.rules, limits)
      sum.pods.add(identity.uid)
      for (const rule of rules.values()) addRule(sum, rule, nowMs)
    }
  }
  return Array.from(merged, ([domain, { pods, ...sum }]) => ({ domain, ...sum, pods: pods.size }))
}

export function mergeRules(
  sessions: readonly ProcessSession[],
  domain: string,
  nowMs: number,
  sumsOnly = false,
): readonly RuleTotals[] {
  const merged = new Map<string, Sum & { readonly pods: Record<string, Hits> }>()
  for (const { identity, state } of sessions) {
    for (const [rule, reported] of state.domains.get(domain)?.rules ?? []) {
      const sum = merged.get(rule) ?? { ...zeroSum(), pods: Object.create(null) }
      merged.set(rule, sum)
      addRule(sum, reported, nowMs)
      if (sumsOnly) continue
      const ofPod = sum.pods[identity.uid] ?? zeroHits()
      sum.pods[identity.uid] = ofPod
      addHits(ofPod, reported)
    }
  }
  return Array.from(merged, ([rule, sum]) => ({ rule, ...sum }))
}

type Hits = { -readonly [Name in keyof HitCounts]: number }

interface Sum extends Hits {
  readonly perSecond: Hits
}

const zeroSum = (): Sum => ({ ...zeroHits(), perSecond: zeroHits() })

function addHits(sum: Hits, { calls, allowed, refused, near, shadow }: HitCounts, seconds = 1): void {
  sum.calls += calls / seconds
  sum.allowed += allowed / seconds
  sum.refused += refused / seconds
  sum.near += near / seconds
  sum.shadow += shadow / seconds
}

function addRule(sum: Sum, rule: ReportedRule, nowMs: number): void {
  addHits(sum, rule)
  if (nowMs - rule.changedMs <= rateMs) addHits(sum.perSecond, rule.last, rule.intervalMs / 1000)
}
