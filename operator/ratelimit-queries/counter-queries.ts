import {
  CounterCall_Action as Action,
  type BucketHolder,
  type CounterAnswer,
  CounterAnswer_Outcome as Outcome,
} from '@tollway/proto/tollway/operator/v1/counters'
import { askingProcesses } from '../pods/ask-processes.ts'
import { mayHaveChanged, QueryError, type QueryErrorCode } from '../pods/query-error.ts'
import { type PodTable, podNames, podsWithoutSession, uniqueNames } from './expected-pods.ts'
import {
  type CounterAddress,
  type CounterChange,
  type CounterReading,
  type CounterState,
  maxRaise,
  type ShareOfMember,
  type SharesOfBucket,
} from './pod-sessions.ts'
import {
  type ProcessSession,
  type ProcessSessionReport,
  type ProcessSessionRequest,
  sessionsEnforcing,
} from './process-session.ts'

const askProcesses = askingProcesses<ProcessSessionReport, ProcessSessionRequest>()

export interface QueryDeadlines {
  /** The time limit of a process to read or change a counter. */
  readonly counterMs: number
  /** The time limit of a process to drop keys from its local cache. */
  readonly forgetMs: number
}

/**
 * Reads the counter. If processes count in their own memory, all of these are asked. Otherwise one process is
 * asked, and another one if the first does not answer in time.
 */
export async function readCounter(
  table: PodTable,
  at: CounterAddress,
  { counterMs }: QueryDeadlines,
): Promise<CounterReading> {
  const ofDomain = byLatestReport(requireSessions(table.sessions(), at.domain))
  const { isShared, ...reading } = await readOnce(ofDomain, at, counterMs)
  const absent = ofDomain.some(countsAlone) ? podsWithoutSession(table) : []
  return {
    ...reading,
    ...(isShared && { shares: await readShares(table, at, counterMs) }),
    missing: uniqueNames([...reading.missing, ...absent]),
  }
}

async function readOnce(
  ofDomain: readonly ProcessSession[],
  at: CounterAddress,
  counterMs: number,
): Promise<CalledCounter> {
  const others = ofDomain.slice(1)
  try {
    return await callCounter(ofDomain, at, Action.READ, 0, counterMs)
  } catch (error) {
    const isLate = error instanceof QueryError && error.code === 'deadline'
    if (!isLate || others.length === 0 || ofDomain.some(countsAlone)) throw error
    // Only reads are repeated: a repeated change could count twice.
    return await callCounter(others, at, Action.READ, 0, counterMs)
  }
}

/** An answer lists at most this many holders of shares. */
const maxHolders = 100

/** Asks all processes, because each knows its own proxies. What processes have is known to each of them. */
async function readShares(
  table: PodTable,
  { domain, entries }: CounterAddress,
  deadlineMs: number,
): Promise<SharesOfBucket> {
  const { answers, missing } = await askProcesses(
    sessionsEnforcing(table.sessions(), domain),
    id => ({ case: 'bucket', value: { id, domain, entries: [...entries] } }),
    report => (report.case === 'bucket' ? report.value : undefined),
    deadlineMs,
  )
  const [told, failed] = partition(answers, ({ value }) => value.rule !== '')
  const { tokens = 0n, intervalSeconds = 1 } = told[0]?.value ?? {}
  const toRate = (amount: bigint) => Number(amount) / Math.max(1, intervalSeconds)
  const toShare = ({ name, wanted, granted, expiresInMs }: BucketHolder, pod: string): ShareOfMember => ({
    name,
    pod,
    wantedPerSecond: toRate(wanted),
    grantedPerSecond: toRate(granted),
    expiresInMs: Number(expiresInMs),
  })
  const sum = (numbers: readonly bigint[]) => toRate(numbers.reduce((total, number) => total + number, 0n))
  const mostFirst = (shares: readonly ShareOfMember[]) =>
    shares.toSorted((a, b) => b.grantedPerSecond - a.grantedPerSecond).slice(0, maxHolders)
  const podOf = ({ identity: { pod, uid, worker, workers } }: ProcessSession) =>
    `${pod || uid}${workers > 0 ? `/${worker}` : ''}`
  const pods = new Map(told.map(({ session, value }) => [value.process, podOf(session)]))
  const holders = new Map(told.flatMap(({ value }) => value.holders.map(holder => [holder.name, holder])))
  const read = told.some(({ value }) => value.problem === '')
  const problem = told.find(({ value }) => value.problem !== '')?.value.problem
  return {
    limitPerSecond: toRate(tokens),
    wantedPerSecond: sum(told.map(({ value }) => value.wanted)),
    grantedPerSecond: sum(told.map(({ value }) => value.granted)),
    memberCount: told.reduce((total, { value }) => total + value.memberCount, 0),
    members: mostFirst(
      told.flatMap(({ session, value }) => value.members.map(member => toShare(member, podOf(session)))),
    ),
    pods: mostFirst([...holders.values()].map(holder => toShare(holder, pods.get(holder.name) ?? ''))),
    missing: uniqueNames([
      ...podNames([...missing, ...failed.map(({ session }) => session)]),
      ...podsWithoutSession(table),
    ]),
    ...(!read && problem !== undefined && { problem }),
  }
}

/**
 * Changes the counter, and then drops the keys of the counter from the local caches of all processes, even if
 * it is unknown whether the change was made. Pods without a session may still have the keys in their caches:
 * `missing` names them.
 */
export async function changeCounter(
  table: PodTable,
  at: CounterAddress,
  by: number | 'reset',
  { counterMs, forgetMs }: QueryDeadlines,
): Promise<CounterChange> {
  const isReset = by === 'reset'
  if (!isReset && !(Number.isInteger(by) && by >= 1 && by <= maxRaise)) {
    throw new QueryError('invalid', `by: ${by} is not a whole number from 1 to ${maxRaise}`, 'by')
  }
  const ofDomain = requireSessions(table.sessions(), at.domain)
  const action = isReset ? Action.RESET : Action.RAISE
  const changed = await settled(callCounter(ofDomain, at, action, isReset ? 0 : by, counterMs))
  if ('error' in changed && !mayHaveChanged(changed.error)) throw changed.error
  const keys = 'error' in changed ? [] : changed.value.counters.map(({ key }) => key)
  // All processes are asked, not only those that enforce the domain: a new process has not reported its
  // domains yet.
  const { answers, missing } = await askProcesses(
    table.sessions(),
    id => ({ case: 'forget', value: { id, keys, domain: at.domain, entries: [...at.entries] } }),
    report => (report.case === 'forgotten' ? true : undefined),
    forgetMs,
  )
  if ('error' in changed) throw changed.error
  const { isShared, ...reading } = changed.value
  const unconfirmed = uniqueNames([...podNames(missing), ...podsWithoutSession(table)])
  return {
    ...reading,
    ...(isShared && { shares: await readShares(table, at, counterMs) }),
    confirmed: podNames(answers.map(({ session }) => session)).filter(pod => !unconfirmed.includes(pod)),
    missing: uniqueNames([...reading.missing, ...unconfirmed]),
  }
}

type Settled<T> = { readonly value: T } | { readonly error: unknown }

function settled<T>(promise: Promise<T>): Promise<Settled<T>> {
  return promise.then(
    value => ({ value }),
    (error: unknown) => ({ error }),
  )
}

/** @throws QueryError `no-pods` or `unknown-domain` */
export function requireSessions(
  sessions: readonly ProcessSession[],
  domain: string,
): readonly ProcessSession[] {
  if (sessions.length === 0) {
    throw new QueryError('no-pods', 'no rate limit process reports its decisions to an operator')
  }
  const found = sessionsEnforcing(sessions, domain)
  if (found.length > 0) return found
  throw new QueryError('unknown-domain', `domain: no process enforces '${domain}'`, 'domain')
}

type CalledCounter = CounterReading & { readonly isShared: boolean }

async function callCounter(
  sessions: readonly ProcessSession[],
  { domain, entries }: CounterAddress,
  action: Action,
  by: number,
  deadlineMs: number,
): Promise<CalledCounter> {
  const own = sessions.filter(countsAlone)
  const asked = own.length > 0 ? own : byLatestReport(sessions).slice(0, 1)
  const shares = new Map(asked.map((session, index) => [session, raiseShare(by, asked.length, index)]))
  const { answers, missing } = await askCounters(asked, shares, { domain, entries }, action, deadlineMs)
  const [good, failed] = partition(answers, ({ value }) => value.outcome === Outcome.OK)
  if (good.length > 0) {
    const others = [...missing, ...failed.map(({ session }) => session)]
    const values = good.map(({ value }) => value)
    return {
      counters: sumCounters(values),
      missing: podNames(others),
      ...sumReservations(values),
      isShared: values.some(({ shared }) => shared),
    }
  }
  const errors = failed.map(({ value }) => toError(value))
  const late = new QueryError('deadline', `no process answered within ${deadlineMs} ms`)
  throw errors.find(mayHaveChanged) ?? (missing.length > 0 ? late : (errors[0] ?? late))
}

function partition<T>(items: readonly T[], isFirst: (item: T) => boolean): readonly [T[], T[]] {
  return [items.filter(isFirst), items.filter(item => !isFirst(item))]
}

/** Whether the process counts in its own memory. */
function countsAlone({ identity }: ProcessSession): boolean {
  return identity.backend === 'memory'
}

/**
 * Sorts sessions by their last report, the latest first: of processes that share counters, the first is
 * asked.
 */
function byLatestReport(sessions: readonly ProcessSession[]): readonly ProcessSession[] {
  return sessions.toSorted((a, b) => b.state.lastReportMs - a.state.lastReportMs)
}

/**
 * Returns the part of a raise for one of several processes that count separately. The parts add up to `by`.
 */
function raiseShare(by: number, processes: number, index: number): number {
  return Math.floor(by / processes) + Number(index < by % processes)
}

function askCounters(
  asked: readonly ProcessSession[],
  shares: ReadonlyMap<ProcessSession, number>,
  { domain, entries }: CounterAddress,
  action: Action,
  deadlineMs: number,
) {
  const shareFor = (session: ProcessSession) => shares.get(session) ?? 0
  return Promise.all(
    asked.map(session => {
      const by = BigInt(shareFor(session))
      // A raise by 0 is a read.
      const act = action === Action.RAISE && by === 0n ? Action.READ : action
      return askProcesses(
        [session],
        id => ({ case: 'counter', value: { id, action: act, domain, entries: [...entries], by } }),
        report => (report.case === 'counter' ? report.value : undefined),
        deadlineMs,
      )
    }),
  ).then(parts => ({
    answers: parts.flatMap(({ answers }) => answers),
    missing: parts.flatMap(({ missing }) => missing),
  }))
}

function sumCounters(answers: readonly CounterAnswer[]): readonly CounterState[] {
  const sums = new Map<string, CounterState>()
  for (const { counters } of answers) {
    for (const { rule, algorithm, key, value, limit, resetSeconds } of counters) {
      const before = sums.get(key)
      const sum = { value: Number(value) + (before?.value ?? 0), limit: Number(limit) + (before?.limit ?? 0) }
      const remaining = Math.max(0, sum.limit - sum.value)
      sums.set(key, {
        rule,
        algorithm: algorithm || (before?.algorithm ?? ''),
        key,
        ...sum,
        remaining,
        resetSeconds: Number(resetSeconds),
      })
    }
  }
  return [...sums.values()]
}

/** An answer lists at most this many reservations, as that of a process does. */
const maxListed = 100

/** Leaves a sum out to which a process has added nothing. */
function sumReservations(
  answers: readonly CounterAnswer[],
): Pick<CounterReading, 'reservations' | 'reservationsProblem'> {
  const problem = answers.find(({ reservationsProblem }) => reservationsProblem !== '')
  if (problem !== undefined) return { reservationsProblem: problem.reservationsProblem }
  const told = answers.flatMap(({ reservations }) => reservations ?? [])
  if (told.length < answers.length) return {}
  const expiries = told.map(({ nextExpiryMs }) => Number(nextExpiryMs)).filter(ms => ms > 0)
  const first = told
    .flatMap(({ first }) => first)
    .map(({ id, amount, expiresAtMs }) => ({ id, amount: Number(amount), expiresAtMs: Number(expiresAtMs) }))
    .toSorted((a, b) => a.expiresAtMs - b.expiresAtMs)
  const reservations = {
    count: told.reduce((sum, { count }) => sum + Number(count), 0),
    summed: told.reduce((sum, { summed }) => sum + Number(summed), 0),
    amount: told.reduce((sum, { amount }) => sum + Number(amount), 0),
    ...(expiries.length > 0 && { nextExpiryMs: Math.min(...expiries) }),
    first: first.slice(0, maxListed),
  }
  return { reservations }
}

const codes: Partial<Record<Outcome, QueryErrorCode>> = {
  [Outcome.UNKNOWN_DOMAIN]: 'unknown-domain',
  [Outcome.NO_RULE]: 'no-rule',
  [Outcome.UNLIMITED]: 'unlimited',
  [Outcome.BACKEND_FAILED]: 'backend-failed',
  [Outcome.NOT_SUPPORTED]: 'not-supported',
}

const texts: Partial<Record<Outcome, string>> = {
  [Outcome.UNKNOWN_DOMAIN]: 'domain: the process does not enforce it any more',
  [Outcome.NO_RULE]: 'entries: no rule with a limit matches them',
  [Outcome.UNLIMITED]: 'entries: they match an unlimited rule, which has no counter',
}

function toError({ outcome, problem }: CounterAnswer): QueryError {
  const text = texts[outcome]
  const field = text?.slice(0, text.indexOf(':')) ?? ''
  return new QueryError(codes[outcome] ?? 'not-supported', text ?? problem, field)
}
