import { eventually } from './cluster.ts'

let users = 0

/**
 * Waits until a user who has made no call before gets exactly these status codes. A call that Envoy lets pass
 * because its decision is late is not counted, so each attempt is another user's.
 *
 * @param callsOf makes this number of calls as the user, one after the other, and resolves with their codes
 */
export async function decides(
  expected: readonly number[],
  callsOf: (user: string) => (count: number) => Promise<readonly number[]>,
): Promise<void> {
  const isExpected = async () => {
    const codes = (await callsOf(`user-${++users}`)(expected.length)).join()
    if (codes !== expected.join()) throw new Error(`the answers were ${codes}`)
    return true
  }
  await eventually(`the answers ${expected}`, isExpected)
}

/** Calls the address with these headers; see `decides`. */
export const callsTo =
  (url: string, headers: Readonly<Record<string, string>>) =>
  async (count: number): Promise<readonly number[]> => {
    const codes: number[] = []
    for (let call = 0; call < count; call++) {
      const response = await fetch(url, { headers })
      await response.arrayBuffer()
      codes.push(response.status)
    }
    return codes
  }
