import type { Member, MemberOutcome } from '../admission/member.ts'
import type { CountersError } from '../counters.ts'

type Algorithm = Member['algorithm']

const probed = (algorithm: Algorithm, keyPrefix: string): Member => ({
  key: `${keyPrefix}{tollway-probe}:${algorithm}`,
  algorithm,
  hits: 1,
  limit: 1_000_000,
  burst: 1_000_000,
  windowTicks: 1,
  ticksPerSecond: 1,
  expirySeconds: 1,
  shadow: false,
  countRejected: false,
})

const commands = 'GET, HMGET, HSET, INCRBY, EXPIRE, PEXPIRE and TIME'

/** The errors of Redis and of proxies that say which command is missing. */
const refused = /NOPERM|unknown command|can't run this command/

/**
 * Counts one call with each algorithm, in keys that expire after two seconds, and returns the error if Redis
 * refuses one of the commands: `NOPERM … no permissions to run the 'evalsha' command`. Other errors are those
 * of a Redis that is away, of which nothing is known.
 *
 * @param keyPrefix the prefix of the keys that the login may use
 */
export async function findScriptObstacle(
  admit: (members: readonly Member[]) => Promise<readonly MemberOutcome[]>,
  keyPrefix: string,
): Promise<string> {
  try {
    await admit(
      (['FixedWindow', 'SlidingWindow', 'TokenBucket'] as const).map(each => probed(each, keyPrefix)),
    )
    return ''
  } catch (error) {
    const { message } = error as CountersError
    if (!refused.test(message)) return ''
    return message.includes("' command") ? message : `${message}; the script needs ${commands}`
  }
}
