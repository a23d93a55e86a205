import { askOnce } from './resp/ask.ts'
import type { RespConnection } from './resp/connection.ts'
import type { SessionOptions } from './resp/session.ts'

/**
 * Looks at the settings of the first Redis that serves, among the connections that it is told of, and warns
 * when they may lose counters. It asks once, on a connection of its own: a proxy that does not know INFO
 * closes it. Not to be allowed to ask is no reason to disturb anyone.
 */
export function createEvictionWarning(
  session: Omit<SessionOptions, 'endpoint'>,
  onWarning: ((text: string) => void) | undefined,
): (connection: RespConnection) => void {
  let asked = false
  async function look(connection: RespConnection, warn: (text: string) => void): Promise<void> {
    const { endpoint } = connection
    if (asked || endpoint === undefined) return
    asked = true
    const memory = await askOnce({ ...session, endpoint }, 'INFO', 'memory')
    const text = typeof memory === 'string' ? evictionWarning(memory) : undefined
    if (text !== undefined) warn(text)
  }

  return connection => {
    if (onWarning === undefined) return
    connection.onHealth(healthy => {
      if (healthy) void look(connection, onWarning)
    })
  }
}

/** @param memory that section of INFO */
function evictionWarning(memory: string): string | undefined {
  const limitBytes = /^maxmemory:(\d+)/m.exec(memory)?.[1] ?? '0'
  const policy = /^maxmemory_policy:(\S+)/m.exec(memory)?.[1] ?? 'noeviction'
  if (limitBytes === '0' || policy === 'noeviction') return undefined
  return (
    `Redis has maxmemory-policy ${policy}: at its limit of ${limitBytes} bytes it may evict counters, ` +
    'and their limits then start anew; use noeviction'
  )
}
