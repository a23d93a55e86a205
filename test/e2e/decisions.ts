import assert from 'node:assert/strict'
import type { Cleanup } from '../support/tollway.ts'
import { failedDecisions, routes } from './documented-envoy.ts'
import { describeCodes, type Load, overlapping, startLoad } from './load.ts'

/** The documented timeout of Envoy. */
const timeoutMs = 50

export interface Decisions {
  /** The number of calls of the admitted user that were answered with 200. */
  admitted(): number
  /** The number of calls that Envoy let pass without a decision. It is 0 before the end. */
  readonly undecided: number
  /** The answers to the limited user by status code. */
  readonly limited: ReadonlyMap<number, number>
  /**
   * Ends the calls and describes them. Rejects when a call failed or was decided wrongly, and when a decision
   * failed that a late machine does not explain: a call to the control was late at the same time.
   */
  stop(): Promise<string>
}

/**
 * Users of the calls: every call of `admitted` must pass, and every call of `rejected` must get 429. `limited`
 * calls until a limit, which the test checks.
 */
export interface DecidedUsers {
  readonly admitted: string
  readonly rejected?: string
  readonly limited?: string
}

/** Calls through the Envoy of `documentedEnvoy`, to the service and to the control. */
export async function startDecisions(t: Cleanup, envoyIp: string, users: DecidedUsers): Promise<Decisions> {
  const failedBefore = await failedDecisions(envoyIp, 'service')
  const controlBefore = await failedDecisions(envoyIp, 'control')
  const url = envoyUrl(envoyIp, 'service')
  const load = startLoad(url, { user: users.admitted, lateMs: timeoutMs })
  const slow = { callers: 1, callsPerSecond: 20, lateMs: timeoutMs }
  const rejected = users.rejected === undefined ? noLoad : startLoad(url, { user: users.rejected, ...slow })
  const fast = { user: users.limited, lateMs: timeoutMs }
  const limited = users.limited === undefined ? noLoad : startLoad(url, fast)
  const control = startLoad(envoyUrl(envoyIp, 'control'), { user: users.admitted, lateMs: timeoutMs / 2 })
  const end = async () => {
    await Promise.all([load, rejected, limited, control].map(one => one.stop()))
  }
  t.after(end)
  let failed = 0
  return {
    get undecided() {
      return failed
    },
    limited: limited.codes,
    admitted: () => load.codes.get(200) ?? 0,
    async stop() {
      await end()
      failed = (await failedDecisions(envoyIp, 'service')) - failedBefore
      const failedControl = (await failedDecisions(envoyIp, 'control')) - controlBefore
      const late = [load, rejected, limited].flatMap(one => one.late)
      const beyond = Math.max(0, failed - overlapping(late, control.late))
      const shown =
        `${describeCodes(load.codes)}, ${late.length} of them late, ` +
        `without a decision: ${failed}, beyond the control: ${beyond}; ` +
        `control ${describeCodes(control.codes)}, without a decision: ${failedControl}`
      assert.deepEqual([...load.codes.keys()], [200], shown)
      assert.equal(beyond, 0, shown)
      if (users.rejected !== undefined) assertRejected(rejected.codes, failed)
      return shown
    },
  }
}

const noLoad: Load = { codes: new Map(), late: [], failed: [], setRate() {}, async stop() {} }

/** Envoy lets a call without a decision pass. */
function assertRejected(codes: ReadonlyMap<number, number>, failed: number): void {
  const shown = `${describeCodes(codes)}, without a decision: ${failed}`
  assert.ok((codes.get(429) ?? 0) > 0 && (codes.get(200) ?? 0) <= failed, shown)
  assert.deepEqual(
    [...codes.keys()].filter(code => code !== 200 && code !== 429),
    [],
    shown,
  )
}

export function envoyUrl(envoyIp: string, route: keyof typeof routes): string {
  return `http://${envoyIp}:${routes[route].port}/`
}
