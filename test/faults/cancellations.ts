import { setTimeout as pause } from 'node:timers/promises'
import { waitFor } from '../support/wait-for.ts'
import { openRedis } from './backends.ts'
import type { FaultCase } from './fault-case.ts'
import { okAnswer } from './load/answer.ts'
import { planCalls } from './load/calls.ts'
import { withFaultLoad } from './load/fault-load.ts'

/** Node's HTTP/2 server ends a connection after this many cancelled calls. */
const cancellations = 1_000
/** Envoy's default timeout. */
const cancelAfterMs = 20
const limit = 1_000_000
/**
 * The code REFUSED_STREAM of HTTP/2: a cancelled call counts as running until its counters have answered, so that cancelling
 * does not allow more work.
 */
const refusedStream = 'RST_STREAM 7'

/** Redis hangs, and callers have a shorter timeout than the service: every call is cancelled. */
export const cancellationsCase: FaultCase = {
  name: 'cancelled',
  title: 'black hole, and callers with a timeout of 20 ms, below that of the service',
  needs: ['redis-server'],
  async run({ seed, callsPerSecond, setups }) {
    const settings = { BACKEND_DEADLINE: '10s', KVSTORE_TIMEOUT: '10s' }
    const { backend, service } = await setups.open({ openBackend: openRedis, seed, limit, settings })
    const { bodyOf } = planCalls('cancelled')
    // One connection, like that of an Envoy with one worker.
    const ports = [service.grpcPort]
    const options = { ports, connections: 1, callsPerSecond, bodyOf, cancelAfterMs }
    const { recoveryMs, calls, sent, load } = await withFaultLoad(options, async load => {
      const count = (outcome: string) => load.outcomes().get(outcome) ?? 0
      await waitFor('answers', () => count(okAnswer) > 0)
      await backend.proxy.setFault({ kind: 'silence' })
      const ended = () => count('cancelled') + count(refusedStream)
      await waitFor('cancelled calls', () => ended() > cancellations, 30_000)
      await backend.proxy.setFault()
      const removedMs = performance.now()
      const answeredBefore = count(okAnswer)
      await waitFor('answers again', () => count(okAnswer) > answeredBefore)
      const recoveryMs = performance.now() - removedMs
      await pause(cancelAfterMs)
      return { recoveryMs, load, ...(await load.stop()) }
    })
    const violations: string[] = []
    if (load.goAways > 0) violations.push(`${load.goAways} GOAWAY`)
    if (load.lostConnections > 0) violations.push(`${load.lostConnections} connections were lost`)
    if (calls.length !== sent) violations.push(`${sent - calls.length} calls never ended`)
    const unexpected = calls.find(({ outcome }) => ![okAnswer, 'cancelled', refusedStream].includes(outcome))
    if (unexpected !== undefined) violations.push(`an unexpected end of a call: ${unexpected.outcome}`)
    return {
      goAways: load.goAways,
      recoveriesMs: [recoveryMs],
      goals: [{ what: 'recovery', unit: 'ms', goal: { atMost: 1_000 }, figure: recoveryMs }],
      violations,
      notes: [
        `${load.outcomes().get('cancelled')} of ${sent} calls were cancelled, ${load.outcomes().get(refusedStream) ?? 0} rejected`,
      ],
    }
  },
}
