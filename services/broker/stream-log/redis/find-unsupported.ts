import { probeScript } from './scripts.ts'
import type { RedisLogSetup } from './setup.ts'

/** The first version with XADD NOMKSTREAM and XTRIM MINID. */
const neededVersion = '6.2'

/**
 * Returns the requirement as text if Redis lacks the commands of the log; empty if it has them. It tests the
 * commands and not the version: other servers with the same protocol have versions of their own. Other
 * errors, such as that of a Redis that is out of memory, are ignored.
 */
export async function findUnsupported({ keys, commands }: RedisLogSetup): Promise<string> {
  try {
    await commands.call('EVAL', probeScript, 1, keys.probe)
    return ''
  } catch (error) {
    if (!/invalid stream id|syntax error|wrong number|unknown/i.test((error as Error).message)) return ''
    const info = await commands.call('INFO', 'server').catch(() => '')
    const version = /^redis_version:(\S+)/m.exec(String(info))?.[1] ?? 'older'
    const commandsNeeded = 'XADD NOMKSTREAM, XTRIM MINID'
    return `Redis ${neededVersion} or later is needed (${commandsNeeded}), this one is ${version}`
  }
}
