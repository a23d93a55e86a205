import { GrpcError } from '@tollway/grpc/status.ts'
import { type PodSessions, PodSessionsError } from '../pod-sessions.ts'
import type { LeaderLink } from './leader-link.ts'
import { askingCodec, queryPath } from './query-codec.ts'

/** The time for an answer of the operator with the Lease, beside the longest deadline of the processes. */
const deadlineMs = 10_000

/** Answers by the operator with the Lease, which has the sessions of all processes; without one, locally. */
export function viaLeader(local: PodSessions, leader: Pick<LeaderLink, 'current'>): PodSessions {
  async function* ask(
    method: keyof PodSessions,
    args: readonly unknown[],
    signal: AbortSignal,
  ): AsyncGenerator<unknown> {
    const current = leader.current()
    if (current === undefined) return
    const either = AbortSignal.any([signal, current.signal])
    const call = current.client.bidi(queryPath, askingCodec, { signal: either })
    void call.write({ method, arguments: args })
    call.end()
    try {
      for await (const result of call.messages) {
        if ('error' in result) {
          throw new PodSessionsError(result.error.code, result.error.message, result.error.field)
        }
        yield result.value
      }
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof GrpcError)) throw error
      throw new PodSessionsError('deadline', `ask the operator with the Lease: ${error.message}`)
    }
  }

  async function askOnce<T>(method: keyof PodSessions, ...args: readonly unknown[]): Promise<T> {
    const signal = AbortSignal.timeout(deadlineMs)
    for await (const value of ask(method, args, signal)) return value as T
    throw new PodSessionsError(
      'deadline',
      `the operator with the Lease did not answer within ${deadlineMs} ms`,
    )
  }

  const isLocal = () => leader.current() === undefined
  return {
    pods: page => (isLocal() ? local.pods(page) : askOnce('pods', page)),
    domains: page => (isLocal() ? local.domains(page) : askOnce('domains', page)),
    rules: (domain, page) => (isLocal() ? local.rules(domain, page) : askOnce('rules', domain, page)),
    counter: at => (isLocal() ? local.counter(at) : askOnce('counter', at)),
    reset: at => (isLocal() ? local.reset(at) : askOnce('reset', at)),
    raise: (at, by) => (isLocal() ? local.raise(at, by) : askOnce('raise', at, by)),
    top: of => (isLocal() ? local.top(of) : askOnce('top', of)),
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
