import type { LeaderQueries } from '../leader/ask-leader.ts'
import { oneAnswer as one, type ServedQueries } from '../leader/serve-queries.ts'
import type { PodSessions } from './pod-sessions.ts'

/** The queries that this operator answers for others, each with its arguments. */
export const podQueries = (sessions: PodSessions) =>
  ({
    pods: ([page]) => one(sessions.pods(page)),
    domains: ([page]) => one(sessions.domains(page)),
    rules: ([domain, page]) => one(sessions.rules(domain as never, page)),
    counter: ([at]) => one(sessions.counter(at as never)),
    reset: ([at]) => one(sessions.reset(at as never)),
    raise: ([at, by]) => one(sessions.raise(at as never, by as never)),
    top: ([of]) => one(sessions.top(of as never)),
    history: ([of]) => one(sessions.history(of as never)),
    series: ([of], signal) => sessions.series(of as never, signal),
    tap: ([of], signal) => sessions.tap(of as never, signal),
    whatIf: ([of], signal) => sessions.whatIf(of as never, signal),
  }) satisfies ServedQueries

/** Answers by the operator with the Lease, which has the sessions of all processes; without one, locally. */
export function viaLeader(local: PodSessions, { isLocal, ask, askOnce }: LeaderQueries): PodSessions {
  return {
    pods: page => (isLocal() ? local.pods(page) : askOnce('pods', page)),
    domains: page => (isLocal() ? local.domains(page) : askOnce('domains', page)),
    rules: (domain, page) => (isLocal() ? local.rules(domain, page) : askOnce('rules', domain, page)),
    counter: at => (isLocal() ? local.counter(at) : askOnce('counter', at)),
    reset: at => (isLocal() ? local.reset(at) : askOnce('reset', at)),
    raise: (at, by) => (isLocal() ? local.raise(at, by) : askOnce('raise', at, by)),
    top: of => (isLocal() ? local.top(of) : askOnce('top', of)),
    history: of => (isLocal() ? local.history(of) : askOnce('history', of)),
    series: (of, signal) =>
      isLocal()
        ? local.series(of, signal)
        : (ask('series', [of], signal) as ReturnType<PodSessions['series']>),
    tap: (of, signal) =>
      isLocal() ? local.tap(of, signal) : (ask('tap', [of], signal) as ReturnType<PodSessions['tap']>),
    whatIf: (of, signal) =>
      isLocal()
        ? local.whatIf(of, signal)
        : (ask('whatIf', [of], signal) as ReturnType<PodSessions['whatIf']>),
  }
}
