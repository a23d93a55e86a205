import { driveFlatOut } from '../../bench/load/flat-out.ts'
import type { LoadConnection, LoadListener } from '../../bench/load/load-connection.ts'
import { grpcRequest } from '../../bench/load/requests.ts'
import { waitFor } from '../../support/wait-for.ts'
import { domain } from '../setups.ts'
import { okAnswer, overAnswer } from './answer.ts'
import { openCallConnection } from './call-connection.ts'

/**
 * The calls of one case: alternately one of many keys whose limit is never reached, and one key with a limit
 * that is.
 */
export interface CallPlan {
  /** The value of the descriptor `limited`. */
  readonly name: string
  readonly bodyOf: (call: number) => Uint8Array
}

const openKeys = 100
const reachDeadlineMs = 30_000
const yearSeconds = 31_536_000

export function planCalls(name: string): CallPlan {
  const open = Array.from({ length: openKeys }, (_, key) => encodeCall('open', `k${key}`))
  const limited = encodeCall('limited', name)
  return {
    name,
    bodyOf: call => (isLimited(call) ? limited : (open[(call >> 1) % openKeys] ?? limited)),
  }
}

/** Returns whether the n-th call counts against the limit. */
export function isLimited(call: number): boolean {
  return call % 2 === 1
}

export function encodeCall(key: string, value: string): Buffer {
  return grpcRequest({ domain, descriptors: [{ entries: [{ key, value }] }] })
}

/** Returns the counter's key in the backend, for this year. */
export function limitedKey({ name }: CallPlan): string {
  const nowSeconds = Math.floor(Date.now() / 1000)
  return `${domain}_limited_${name}_${nowSeconds - (nowSeconds % yearSeconds)}`
}

/** The outcomes of calls under the limit. */
export interface OutcomeCounts {
  readonly ok: number
  readonly over: number
  readonly failed: number
  /** The status and message of one that failed; empty when none failed. */
  readonly failure: string
}

/**
 * Calls at full rate until the limit is reached. A slow machine may miss a deadline meanwhile, so failed
 * calls are repeated.
 */
export async function reachLimit(port: number, { name }: CallPlan, limit: number): Promise<OutcomeCounts> {
  const body = encodeCall('limited', name)
  let all: OutcomeCounts = { ok: 0, over: 0, failed: 0, failure: '' }
  async function callAll(): Promise<boolean> {
    const { ok, over, failed, failure } = await countFlatOut([port], 2, limit + 100, body)
    all = { ok: all.ok + ok, over: all.over + over, failed: all.failed + failed, failure }
    return failed === 0
  }
  await waitFor('calls after the fault without errors', callAll, reachDeadlineMs)
  return all
}

/**
 * Makes `calls` calls of one key as fast as they are answered, over several connections, which are
 * distributed over the ports.
 */
export async function countFlatOut(
  ports: readonly number[],
  connections: number,
  calls: number,
  body: Uint8Array,
): Promise<OutcomeCounts> {
  const count = { ok: 0, over: 0, failed: 0, failure: '' }
  let opened = 0

  function countOutcome(outcome: string): void {
    if (outcome === okAnswer) count.ok += 1
    else if (outcome === overAnswer) count.over += 1
    else {
      count.failed += 1
      count.failure = outcome
    }
  }

  function open({ answered, lost }: LoadListener): Promise<LoadConnection> {
    const port = ports[opened++ % ports.length] ?? 0
    return openCallConnection(port, {
      answered(call, outcome) {
        countOutcome(outcome)
        answered(call, outcome === okAnswer)
      },
      goAway: () => lost(`port ${port} sent GOAWAY`),
      lost: () => lost(`port ${port} closed it`),
    })
  }

  await driveFlatOut({ connections, streams: 10, bodyOf: () => body, open }, { calls })
  return count
}
